# SPDX-License-Identifier: Apache-2.0
"""Workloads drawn from a seed, and the comparison of the autopilot on them."""

import numpy as np
import pytest
from experiments.harvest import kinds, patterns, unseen
from experiments.harvest.kinds import KINDS, Drawn
from experiments.harvest.loads import Load
from experiments.harvest.unseen import Compared


def drawn(seed: int) -> Drawn:
    return Drawn(np.random.default_rng(seed), pages=600, per_s=40.0)


@pytest.mark.parametrize("at", range(len(KINDS)), ids=[one.__name__ for one in KINDS])
def test_a_seed_gives_one_workload_of_a_kind_and_another_seed_another(at: int) -> None:
    keys, again, other = (KINDS[at](drawn(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(keys, again)
    assert not np.array_equal(keys, other)
    assert keys.dtype == np.uint64
    assert keys.size >= 0.8 * drawn(1).requests
    pages = np.unique(keys).size
    assert 60 < pages < keys.size, "pages are asked for again"


def test_a_seed_has_every_kind_a_small_one_and_slow_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    few = np.arange(9, dtype=np.uint64)
    monkeypatch.setattr(kinds, "KINDS", [lambda _: few, lambda _: few[:3], lambda _: few[:5]])
    found = list(kinds.workloads(1))
    assert sorted(one.keys.size for one in found) == [3, 3, 5, 5, 9, 9]
    small, *slow = found[-3:]
    assert small.name.startswith("small-")
    assert small.size_pages <= 3_000
    assert all(one.name.startswith("slow-") for one in slow)
    # An operation of the slow workloads takes at least ten times as long as one of the others.
    assert all(one.pace > 30 for one in slow)
    assert all(1 < one.pace < 25 for one in found[:-2])
    assert [one.pace for one in found] == [one.pace for one in kinds.workloads(1)]


def test_a_page_cache_is_a_share_of_the_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = np.arange(10, dtype=np.uint64)
    all_of = [Load("a", keys, 3_000, 2.0), Load("b", keys, 30_000, 3.0)]
    monkeypatch.setattr(unseen, "workloads", lambda seed: all_of)
    (only,) = unseen.loads(1, 0.03)
    assert (only.name, only.size_pages, only.pace) == ("b", 900, 3.0)
    assert [one.size_pages for one in unseen.loads(1, 0.3)] == [900, 9_000]


def test_parts_are_woven_in_their_order() -> None:
    first, second = np.array([1, 2, 3], dtype=np.uint64), np.array([7], dtype=np.uint64)
    apart = 1 << patterns.PART_BITS
    which = np.array([0, 1, 0, 0, 1, 0])
    woven = patterns.woven((first, second), which)
    assert woven.tolist() == [1, apart + 7, 2, 3, apart + 7, 1]


def test_ranges_and_turns_follow_one_another() -> None:
    found = patterns.ranges(np.array([10, 4]), np.array([3, 2]))
    assert found.tolist() == [10, 11, 12, 4, 5]
    turns = drawn(1).turns(iter((1.0, 2.0, *([1e9] * 198))))
    assert turns.size == 300 * 40
    assert np.flatnonzero(np.diff(turns)).tolist() == [39, 119]


def test_a_page_is_reused_after_about_so_many_requests() -> None:
    keys = patterns.reused(np.random.default_rng(1), 20_000, near=100.0, new=0.05)
    assert np.unique(keys).size == pytest.approx(1_000, rel=0.2)
    last: dict[int, int] = {}
    gaps = []
    for i, key in enumerate(keys.tolist()):
        if key in last:
            gaps.append(i - last[key])
        last[key] = i
    # If a page was drawn again meanwhile, its reuse is nearer than the distance that was drawn.
    assert 10 < np.median(gaps) < 100


def compared(name: str, ratio: float, best: float, changes: int = 1) -> Compared:
    return Compared(name, 1, "mru", best, ratio, changes)


def test_rows_are_of_all_workloads_and_the_worst_is_of_all_seeds() -> None:
    first = [compared("a", 2.0, 4.0, 2), compared("b", 0.98, 1.0)]
    second = [compared("a", 4.0, 4.0), compared("b", 0.99, 1.0), compared("c", 1.0, 1.0)]
    found = {row.metric: row for row in unseen.rows(3, [first, second])}
    share = found["autopilot.harvest.unseen.share.3"]
    expected = [np.log(2 * 0.98) / np.log(4), np.log(4 * 0.99) / np.log(4)]
    assert share.spread == pytest.approx(tuple(expected))
    assert share.goal == 0.9
    worst = found["autopilot.harvest.unseen.worst.3"]
    assert (worst.value, worst.spread) == (0.98, (0.98, 0.99))
    assert worst.reference is not None
    assert worst.reference.endswith("b, seed 1")
    assert found["autopilot.harvest.unseen.best.3"].spread == pytest.approx((4 ** (1 / 3), 2.0))
    assert found["autopilot.harvest.unseen.changes.3"].spread == (1.0, 1.5)


def test_a_workload_without_gain_is_as_fast_as_the_default() -> None:
    load = Load("scan", np.arange(200_000, dtype=np.uint64), 512, pace=4.0)
    found = unseen.compare(load, 20.0, 1)
    assert found.ratio == pytest.approx(1.0, abs=0.02)
    assert found.best == pytest.approx(1.0)
    assert found.changes == 0
