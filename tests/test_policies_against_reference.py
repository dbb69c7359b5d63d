# SPDX-License-Identifier: Apache-2.0
"""Compare every policy with its naive reference: the same hits and misses, request by request."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cachepilot import _models

if TYPE_CHECKING:
    from tests.reference import ReferencePolicy

REFERENCES = Path(__file__).parent / "reference"
MANIFESTS: dict[str, dict[str, Any]] = {m["name"]: m for m in json.loads(_models.policies_json())}
TASKS = 4

Setting = int | list[int]


@dataclass(frozen=True)
class Case:
    """A cache and its requests. `tasks` has the thread of each request."""

    capacity_pages: int
    tunables: dict[str, Setting]
    keys: list[int]
    tasks: list[int]


def load_reference(policy: str) -> Callable[..., ReferencePolicy]:
    path = REFERENCES / f"{policy}.py"
    spec = importlib.util.spec_from_file_location(f"reference_{policy}", path)
    if not path.is_file() or spec is None or spec.loader is None:
        pytest.fail(f"policy {policy} has no reference implementation tests/reference/{policy}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast("Callable[..., ReferencePolicy]", module.Reference)


def effective_batch(batch: int, capacity_pages: int) -> int:
    """Return the batch that the simulator uses: at most a sixteenth of the capacity."""
    return min(batch, max(1, capacity_pages // 16))


def uniform(rng: random.Random, pages: int, length: int) -> list[int]:
    return [rng.randrange(pages) for _ in range(length)]


def zipf_like(rng: random.Random, pages: int, length: int) -> list[int]:
    """Return keys whose popularity falls as 1/rank: the logarithm of the rank is uniform."""
    return [int(pages ** rng.random()) - 1 for _ in range(length)]


def loop(rng: random.Random, pages: int, length: int) -> list[int]:
    return [request % pages for request in range(length)]


def scan(rng: random.Random, pages: int, length: int) -> list[int]:
    first = rng.randrange(1 << 32, 1 << 60)
    return [first + request for request in range(length)]


def bursts(rng: random.Random, pages: int, length: int) -> list[int]:
    """Return keys that come up to four times in a row, as in small sequential reads."""
    keys: list[int] = []
    while len(keys) < length:
        keys += [rng.randrange(pages)] * rng.randint(1, 4)
    return keys[:length]


SHAPES = (uniform, zipf_like, loop, scan, bursts)


@st.composite
def shaped_keys(draw: st.DrawFn, capacity_pages: int) -> list[int]:
    """Draw phases of different shapes, some interleaved, over hot sets that may move."""
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    keys: list[int] = []
    for shape in draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=5)):
        pages = draw(st.integers(1, 4 * capacity_pages + 4))
        length = draw(st.integers(1, min(8 * capacity_pages + 40, 1200)))
        shift = draw(st.sampled_from((0, pages // 2, 1 << 20)))
        phase = [key + shift for key in shape(rng, pages, length)]
        interleaved = draw(st.booleans())
        if keys and interleaved:
            tail = keys[-length:]
            mixed = [key for pair in zip(tail, phase, strict=False) for key in pair]
            keys = keys[:-length] + mixed
        else:
            keys += phase
    return keys


def tunables_of(policy: str) -> st.SearchStrategy[dict[str, Setting]]:
    """Draw the defaults, or values that the manifest allows.

    Small values, which match task ids, are frequent.
    """
    drawn: dict[str, st.SearchStrategy[Setting]] = {}
    for tunable in MANIFESTS[policy]["tunables"]:
        low, high, length = tunable["min"], tunable["max"], tunable["length"]
        value = st.one_of(st.integers(low, min(high, low + TASKS)), st.integers(low, high))
        array = st.lists(value, min_size=length, max_size=length)
        drawn[tunable["name"]] = value if length == 1 else array
    return st.one_of(st.just({}), st.fixed_dictionaries({}, optional=drawn))


def by_element(tunables: dict[str, Setting]) -> dict[str, int]:
    """Return the elements of arrays under the names that the simulator uses."""
    flat: dict[str, int] = {}
    for name, setting in tunables.items():
        if isinstance(setting, int):
            flat[name] = setting
        else:
            flat |= {f"{name}.{i}": value for i, value in enumerate(setting)}
    return flat


def defaults_of(policy: str) -> dict[str, Setting]:
    return {
        t["name"]: t["default"] if t["length"] == 1 else [t["default"]] * t["length"]
        for t in MANIFESTS[policy]["tunables"]
    }


@st.composite
def cases(draw: st.DrawFn, policy: str) -> Case:
    tiny = draw(st.booleans())
    if tiny:
        capacity = draw(st.integers(1, 8))
        keys = draw(st.lists(st.integers(0, 12), min_size=1, max_size=80))
    else:
        capacity = draw(st.one_of(st.integers(1, 64), st.integers(65, 400)))
        keys = draw(shaped_keys(capacity))
    rng = random.Random(draw(st.integers(0, 2**32 - 1)))
    tasks = [rng.randrange(TASKS) for _ in keys]
    return Case(capacity, draw(tunables_of(policy)), keys, tasks)


def assert_same_hits(policy: str, batch: int, case: Case) -> None:
    reference = load_reference(policy)(
        case.capacity_pages, effective_batch(batch, case.capacity_pages), **case.tunables
    )
    expected = [
        reference.access(key, task) for key, task in zip(case.keys, case.tasks, strict=True)
    ]
    hits = _models.simulate_hits(
        np.array(case.keys, dtype=np.uint64),
        policy,
        case.capacity_pages,
        batch=batch,
        tasks=np.array(case.tasks, dtype=np.uint32),
        tunables=by_element(case.tunables),
    )
    differing = np.flatnonzero(hits != np.array(expected))
    if differing.size:
        at = int(differing[0])
        pytest.fail(
            f"{policy}: request {at} (page {case.keys[at]}) is a "
            f"{'hit' if hits[at] else 'miss'}, in the reference a "
            f"{'hit' if expected[at] else 'miss'}; {differing.size} of {len(expected)} requests "
            f"differ with {case.capacity_pages} pages, batch {batch}, tunables {case.tunables}"
        )


@pytest.mark.parametrize("batch", [1, 32])
@pytest.mark.parametrize("policy", sorted(MANIFESTS))
def test_hits_are_those_of_the_reference(policy: str, batch: int) -> None:
    @settings(
        max_examples=60,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(case=cases(policy))
    def check(case: Case) -> None:
        assert_same_hits(policy, batch, case)

    check()


@pytest.mark.parametrize("policy", sorted(MANIFESTS))
def test_reference_knows_the_manifest_defaults(policy: str) -> None:
    """A reference without tunables behaves like one with the manifest's defaults."""
    rng = random.Random(policy)
    keys = zipf_like(rng, 600, 4000) + loop(rng, 300, 1000)
    build = load_reference(policy)
    bare, told = build(200, 12), build(200, 12, **defaults_of(policy))
    assert [bare.access(key) for key in keys] == [told.access(key) for key in keys]


@pytest.mark.parametrize("policy", sorted(MANIFESTS))
def test_long_run_at_a_few_hundred_pages(policy: str) -> None:
    """The cache turns over many times, with a scan in the middle and a hot set that moves."""
    rng = random.Random(20)
    capacity = 300
    keys = zipf_like(rng, 3000, 8000) + scan(rng, 1, 1000) + loop(rng, 400, 2000)
    keys += [key + 1000 for key in zipf_like(rng, 3000, 8000)]
    tasks = [rng.randrange(TASKS) for _ in keys]
    for batch in (1, 32):
        assert_same_hits(policy, batch, Case(capacity, {}, keys, tasks))
