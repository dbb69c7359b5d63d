# SPDX-License-Identifier: Apache-2.0
"""What changes of policy read more than the default, and the cost of undoing them early."""

import numpy as np
import pytest
from experiments.harvest import stops
from experiments.harvest.loads import Load
from experiments.harvest.pinned import KERNEL_DEFAULT, may_choose

from cachepilot import _models

SIZE_PAGES = 256


def load(keys: np.ndarray) -> Load:
    return Load("test", np.ascontiguousarray(keys, dtype=np.uint64), SIZE_PAGES)


@pytest.fixture(scope="module")
def looping() -> Load:
    """Return a loop a quarter larger than the page cache; the default never hits."""
    return load(np.arange(120_000) % (SIZE_PAGES * 5 // 4))


@pytest.fixture(scope="module")
def latest() -> Load:
    """Return a load in which recently used pages are the likeliest, however often used."""
    random = np.random.default_rng(1)
    return load(np.arange(120_000) // 4 - random.geometric(1 / 200, 120_000) + 2_000)


def test_a_policy_that_keeps_a_part_of_a_loop_gains_and_is_never_undone(looping: Load) -> None:
    found = dict(zip(may_choose(), stops.changes(looping), strict=True))
    assert found["lirs"].saved > 0.5
    assert found["lirs"].rollbacks == {}


def test_an_undone_change_had_read_more_than_its_stop_allows(latest: Load) -> None:
    found = stops.changes(latest)
    assert len(found) == len(may_choose())
    for one in found:
        above = [stop for stop in stops.STOPS_PCT if one.excess.max() > stop / 100]
        assert set(one.rollbacks) <= set(above)
        assert one.excess.size <= stops.TURNOVERS * stops.LOOKS


def test_the_own_pages_of_a_policy_are_those_not_cached_by_the_default(latest: Load) -> None:
    default = stops._Default(latest)
    held = []
    for policy in (KERNEL_DEFAULT, "lirs"):
        cache = _models.Cache(policy, SIZE_PAGES)
        cache.run(latest.keys[: default.begin])
        held.append(set(cache.resident().tolist()))
    assert default.own("lirs") == len(held[1] - held[0]) / SIZE_PAGES > 0
    assert default.own(KERNEL_DEFAULT) == 0


def test_pages_read_more_are_those_of_the_same_requests(latest: Load) -> None:
    default = stops._Default(latest)
    found = default.after([("lirs", default.begin)])
    keys = latest.keys
    cache, alone = (_models.Cache(KERNEL_DEFAULT, SIZE_PAGES) for _ in range(2))
    cache.run(keys[: default.begin])
    cache.swap("lirs")
    changed = np.cumsum(~cache.run(keys[default.begin :]))
    stayed = np.cumsum((~alone.run(keys))[default.begin :])
    assert np.array_equal(found, (changed - stayed)[: found.size])


def test_rereads_of_a_rollback_are_reads_that_the_default_would_not_have_made(latest: Load) -> None:
    found = dict(zip(may_choose(), stops.changes(latest), strict=True))["lirs"]
    default, stop = stops._Default(latest), stops.STOPS_PCT[0]
    end = default.begin + int(np.flatnonzero(found.excess > stop / 100)[0] + 1) * default.look
    keys = latest.keys
    cache, alone = (_models.Cache(KERNEL_DEFAULT, SIZE_PAGES) for _ in range(2))
    cache.run(keys[: default.begin])
    cache.swap("lirs")
    cache.run(keys[default.begin : end])
    cache.swap(KERNEL_DEFAULT)
    last = min(keys.size, end + stops.TURNOVERS * stops.LOOKS * default.look)
    again = np.cumsum(~cache.run(keys[end:last])).astype(int)
    stayed = np.cumsum((~alone.run(keys[:last]))[end:]).astype(int)
    assert (again - stayed).max() > 0
    assert found.rollbacks[stop] * SIZE_PAGES == pytest.approx((again - stayed).max())


def test_a_load_that_is_too_short_or_never_misses_has_no_changes() -> None:
    assert stops.changes(load(np.arange(2_000))) == []
    assert stops.changes(load(np.arange(120_000) % 200)) == []


def test_rows_count_what_gains_and_is_undone_all_the_same() -> None:
    early, late = np.array([0.03, -0.1]), np.array([0.0, -0.1])
    some = [
        stops.Change(early, 0.05, 0.1, {2: 0.4}),
        stops.Change(late, 0.05, 0.3, {}),
        stops.Change(np.array([0.5, 0.9]), -0.4, 0.6, {2: 0.2, 5: 0.2, 10: 0.2, 20: 0.2}),
    ]
    found = {one.metric.removeprefix("autopilot.harvest.stops."): one for one in stops.rows([some])}
    assert found["gaining_pct.2"].value == 50.0 and found["gaining_pct.5"].value == 0.0
    assert found["rollback_pct.2.median"].value == pytest.approx(30.0)
    assert found["rollback_pct.20.most"].value == pytest.approx(20.0)
    assert found["own_pct"].value == pytest.approx(30.0)
