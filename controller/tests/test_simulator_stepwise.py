# SPDX-License-Identifier: Apache-2.0
"""A cache driven request by request hits like a simulation of the whole trace."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from cachepilot._models import policies_json, simulate_hits
from cachepilot.simulator import Cache, ModelsError

POLICIES = [one["name"] for one in json.loads(policies_json())]
SIZE = 64


def requests(count: int = 1500) -> NDArray[np.uint64]:
    random = np.random.default_rng(2)
    return (random.zipf(1.2, count) % 500).astype(np.uint64)


@pytest.mark.parametrize("policy", POLICIES)
def test_single_accesses_hit_where_the_whole_does(policy: str) -> None:
    keys, cache = requests(), Cache(policy, SIZE)
    assert [cache.access(key) for key in keys.tolist()] == simulate_hits(
        keys, policy, SIZE
    ).tolist()
    assert len(cache) == len(cache.resident()) <= SIZE


@given(
    batch=st.integers(1, 32), small=st.integers(1, 50), steps=st.lists(st.booleans(), max_size=6)
)
@settings(max_examples=20)
def test_steps_and_runs_may_alternate(batch: int, small: int, steps: list[bool]) -> None:
    keys, tunables = requests(), {"small_pct": small}
    cache = Cache("s3fifo", SIZE, seed=3, batch=batch, tunables=tunables)
    hits: list[bool] = []
    for part, single in zip(np.array_split(keys, len(steps) + 1), [*steps, True], strict=True):
        hits += [cache.access(k) for k in part.tolist()] if single else cache.run(part).tolist()
    expected = simulate_hits(keys, "s3fifo", SIZE, batch=batch, seed=3, tunables=tunables)
    assert hits == expected.tolist()


def test_tasks_reach_the_policy() -> None:
    keys = requests()
    tasks = (np.arange(len(keys)) % 3).astype(np.uint32)
    policy = "get_scan"
    known = json.loads(policies_json())
    (manifest,) = (one for one in known if one["name"] == policy)
    name = next(t["name"] for t in manifest["tunables"] if t["unit"] == "task id")
    tunables = {f"{name}.0": 1}
    expected = simulate_hits(keys, policy, SIZE, tasks=tasks, tunables=tunables)
    run = Cache(policy, SIZE, tunables=tunables)
    assert np.array_equal(run.run(keys, tasks), expected)
    stepped = Cache(policy, SIZE, tunables=tunables)
    pairs = zip(keys.tolist(), tasks.tolist(), strict=True)
    assert [stepped.access(key, task) for key, task in pairs] == expected.tolist()


def test_looking_does_not_touch() -> None:
    cache = Cache("lru", 2, batch=1)
    cache.run(np.array([1, 2], dtype=np.uint64))
    assert 1 in cache and 3 not in cache
    cache.access(3)
    assert 1 not in cache and 2 in cache
    cache.forget(2)
    assert 2 not in cache and len(cache) == 1
    assert cache.stats().requests == 3


def test_statistics_continue_over_a_swap_until_they_are_reset() -> None:
    keys, cache = requests(), Cache("lru", SIZE)
    before = (~cache.run(keys)).sum()
    cache.swap("s3fifo", {"small_pct": 20})
    assert (cache.policy, cache.tunables["small_pct"]) == ("s3fifo", 20)
    after = (~cache.run(keys)).sum()
    stats = cache.stats()
    assert (stats.requests, stats.misses) == (2 * len(keys), before + after)
    assert stats.hits + stats.misses == stats.requests
    assert stats.miss_ratio == stats.misses / stats.requests
    assert stats.resident_pages == len(cache) and stats.bytes > 0
    cache.reset_stats()
    assert (cache.stats().requests, cache.stats().miss_ratio) == (0, 0.0)
    missed = not cache.access(1 << 63)
    assert (cache.stats().requests, cache.stats().misses) == (1, int(missed))


def test_tunables_that_are_not_set_stay() -> None:
    cache = Cache("s3fifo", SIZE, tunables={"small_pct": 20})
    defaults = Cache("s3fifo", SIZE).tunables
    other = next(name for name in defaults if name != "small_pct")
    value = defaults[other]
    assert isinstance(value, int)
    cache.set_tunables({other: value + 1})
    assert cache.tunables == {**defaults, "small_pct": 20, other: value + 1}
    keys = requests()
    expected = simulate_hits(keys, "s3fifo", SIZE, tunables={"small_pct": 20, other: value + 1})
    assert np.array_equal(cache.run(keys), expected)


def test_arrays_of_tunables_are_set_as_a_whole_and_by_element() -> None:
    manifests = json.loads(policies_json())
    policy, name, length = next(
        (one["name"], tunable["name"], tunable["length"])
        for one in manifests
        for tunable in one["tunables"]
        if tunable["length"] > 1
    )
    cache = Cache(policy, SIZE, tunables={f"{name}.1": 7})
    assert cache.tunables[name] == [0, 7, *[0] * (length - 2)]
    cache.set_tunables({name: 5})
    assert cache.tunables[name] == [5] * length
    cache.set_tunables({f"{name}.0": 6})
    assert cache.tunables[name] == [6, *[5] * (length - 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nosuch", 10), "policy"),
        (("opt", 10), "opt looks ahead"),
        (("lru", 0), "size: 0 pages"),
        (("lru", 10, 1, 33), "batch: 33"),
        (("s3fifo", 10, 1, 32, {"small_pct": 9999}), "s3fifo.small_pct: 9999 is not in"),
    ],
)
def test_invalid_arguments_are_refused(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ModelsError, match=message):
        Cache(*arguments)  # type: ignore[arg-type]


def test_a_refused_setting_leaves_the_cache_as_it_was() -> None:
    cache = Cache("s3fifo", SIZE)
    before = cache.tunables
    with pytest.raises(ModelsError, match=r"s3fifo\.nosuch"):
        cache.set_tunables({"nosuch": 1})
    with pytest.raises(OverflowError):
        cache.access(-1)
    assert cache.tunables == before and cache.stats().requests == 0
