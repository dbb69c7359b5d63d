# SPDX-License-Identifier: Apache-2.0
"""The past of hours ago neither hides what policies gain now nor pays for what they lose."""

import numpy as np
import pytest
from deciding import ACCESSES, CACHE_PAGES, World, kinds, scattering

from cachepilot.decide.config import DecideConfig
from cachepilot.domain.decisions import Event

HOUR = 3600
SLOW_PAGES = 500 * CACHE_PAGES
"""A page cache that the default takes minutes to miss once."""


def slow_on_trial() -> World:
    """Return a world two intervals into the trial of `lru`, which saves two fifths."""
    truth = {"default": 0.5, "lru": 0.3}
    world = World(truth, cache_pages=SLOW_PAGES, anew=0.0, tells_cost=False).learn()
    world.until(Event.TRIAL)
    world.run(2)
    return world


@pytest.mark.parametrize("hours", [0.0, 2.0])
def test_a_policy_that_was_hardly_ahead_for_hours_is_chosen_as_soon_as_it_gains(
    hours: float,
) -> None:
    """`lru` saves a thousandth of the misses at first, and a fifth from then on."""
    world = World({"default": 0.5, "lru": 0.4995}).learn(300)
    assert world.run(int(hours * HOUR)) == []
    world.truth["lru"] = 0.4
    assert kinds(world.run(20)) == [Event.TRIAL, Event.KEPT] and world.in_force == "lru"


def test_a_small_gain_that_is_worth_a_change_is_found() -> None:
    least = DecideConfig().least_gain
    world = World({"default": 0.5, "lru": 0.5 - 1.5 * least}, anew=0.0).learn(300)
    assert Event.TRIAL in kinds(world.run(2000))


def test_noise_is_not_taken_for_pages_that_a_change_reads_again() -> None:
    """The page cache takes minutes to be missed once, and measured misses scatter by a half."""
    world = slow_on_trial()
    world.truth["lru"] = 0.9
    world.until(Event.REVERTED)
    world.run(1)
    spent = world.state.excess
    world.seen_as = scattering(np.random.default_rng(1), 0.5)
    world.is_held = True
    world.run(600)
    assert world.state.excess - spent < 6 * 0.5 * ACCESSES


def test_a_rollback_reads_no_more_than_was_read_since() -> None:
    """In a large page cache, the pages that were not displaced are still there."""
    world = slow_on_trial()
    trial = world.state.trial
    assert trial is not None and trial.displaced is not None
    assert 0 < trial.rollback == trial.displaced < 0.1 * SLOW_PAGES
    world.truth["lru"] = 0.9
    world.until(Event.REVERTED)
    assert world.state.turnover <= 0.9 * ACCESSES * 20 < 0.1 * SLOW_PAGES


def test_pages_displaced_by_a_policy_found_in_force_are_unknown() -> None:
    world = World({"default": 0.5, "lru": 0.3}, told={}, tells_cost=False)
    world.in_force = "lru"
    world.run(3)
    trial = world.state.trial
    assert trial is not None and trial.displaced is None
    assert trial.rollback == pytest.approx(0.1 * CACHE_PAGES)
