# SPDX-License-Identifier: Apache-2.0
"""The number of pages that were read in place of pages that the default would have kept."""

from dataclasses import replace

import pytest
from deciding import ACCESSES, World, step

from cachepilot.decide.costs import COLLECTED, WORST
from cachepilot.domain.decisions import Event


def on_trial() -> World:
    """Return `lru` on trial, in a page cache that the default takes 300 s to miss once."""
    world = World({"default": 0.5, "lru": 0.3}, cache_pages=300 * 0.5 * ACCESSES, anew=0.0)
    world.tells_cost = False
    world.learn().until(Event.TRIAL)
    return world


def confirmed() -> World:
    world = on_trial()
    world.until(Event.KEPT)
    return world


def unseen(world: World, intervals: int) -> None:
    """Run intervals in which the agent reports no counterfactual."""
    for _ in range(intervals):
        seen = replace(world.interval(), counterfactual=None)
        assert step(world.state, seen, world.config) == []


@pytest.mark.parametrize("is_gap", [False, True])
def test_pages_read_in_intervals_without_counterfactuals_count_as_displaced(is_gap: bool) -> None:
    """Over a gap and without counterfactuals alike, the collected pages are given up."""
    world = confirmed()
    if is_gap:
        # The gap counts as three intervals, and nothing is measured in it.
        seen = replace(
            world.interval(), counterfactual=None, elapsed_s=3.0, accesses=0, misses=0,
            is_measured=False,
        )  # fmt: skip
        assert step(world.state, seen, world.config) == []
    else:
        unseen(world, 1000)
    world.truth["lru"], before_s = 0.53, world.time_s
    assert world.until(Event.KEPT, 20_000).after.policy == "default"
    waits_s = WORST * COLLECTED * world.cache_pages / (0.03 * ACCESSES)
    assert world.time_s - before_s == pytest.approx(waits_s, rel=0.05)


def test_a_rollback_rereads_pages_displaced_without_counterfactuals() -> None:
    world = on_trial()
    world.run(1)
    unseen(world, 30)
    trial = world.state.trial
    assert trial is not None and trial.displaced == pytest.approx(31 * 0.3 * ACCESSES)


def test_displaced_pages_count_pages_and_not_device_reads() -> None:
    """One read brings 16 missed pages under `lru`, and one page under the default."""
    world = confirmed()
    before = world.state.displaced
    world.seen_as = lambda seen: replace(seen, weight=1 / 16)
    world.run(60)
    assert before is not None
    assert world.state.displaced == pytest.approx(before + 60 * 0.3 * ACCESSES)


def test_an_interval_without_accesses_in_which_the_limit_moved_displaces_nothing() -> None:
    """Nothing is compared in this interval, but no page was read either."""
    world = confirmed()
    before = world.state.displaced
    world.seen_as = lambda seen: replace(seen, accesses=0.0, misses=0.0, counterfactual=None)
    world.run(1)
    assert before is not None and world.state.displaced == before
