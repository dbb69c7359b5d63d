# SPDX-License-Identifier: Apache-2.0
"""Page caches that are read slowly: a change may lose only what fits into the budget."""

from copy import deepcopy
from itertools import product

import numpy as np
import pytest
from deciding import (
    ACCESSES,
    CACHE_PAGES,
    COST,
    World,
    kinds,
    learn_all,
    run_all,
    until_all,
)

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.costs import COLLECTED, WORST
from cachepilot.decide.evidence import take_all
from cachepilot.decide.state import PolicyState
from cachepilot.domain.decisions import Event


def pages_of(turnovers_s: float) -> float:
    """Return a page cache that the default takes so long to miss once, at a miss ratio of 0.5."""
    return turnovers_s * 0.5 * ACCESSES


def slow(turnovers_s: float, seed: int | None = None, **truth: float) -> World:
    """Return a world in which a swap reads nothing again."""
    return World(truth, seed=seed, cache_pages=pages_of(turnovers_s), anew=0.0)


@pytest.mark.parametrize(
    ("told", "in_force", "share"),
    [(0.0, "default", 0.1), (0.3, "default", 0.3), (0.0, "lru", COLLECTED), (0.6, "lru", 0.6)],
)
def test_a_change_costs_more_where_a_policy_has_pages_of_its_own(
    told: float, in_force: str, share: float
) -> None:
    """A change gives up what the policy in force has collected, also a change to the default."""
    world = World({"default": 0.5, "lru": 0.4, "mru": 0.3}, in_force=in_force)
    seen = world.interval()
    assert seen.counterfactual is not None
    found = seen.counterfactual._replace(reread=np.full(3, told * CACHE_PAGES))
    known = take_all([PolicyState()], [seen], [found], world.config).of(0)
    assert known.cost / CACHE_PAGES == pytest.approx(share)


def test_going_back_during_a_trial_costs_less_than_later() -> None:
    world = World({"default": 0.5, "lru": 0.3, "mru": 0.4}, anew=0.0, tells_cost=False).learn()
    world.until(Event.TRIAL)
    world.run(1)

    def cost() -> list[float]:
        seen = world.interval()
        assert seen.counterfactual is not None
        state, told = deepcopy(world.state), seen.counterfactual
        found = take_all([state], [seen], [told], world.config).of(0).cost
        return [round(float(one), 3) for one in found / CACHE_PAGES]

    assert world.state.trial is not None and cost() == [0.1, COLLECTED, COLLECTED]
    world.until(Event.KEPT)
    assert world.in_force == "lru" and cost() == [COLLECTED] * 3


def granted(world: World) -> float:
    """Return the pages that changes may cost in advance."""
    return world.config.loss_share * world.config.reserve_s * world.truth["default"] * ACCESSES


@pytest.mark.parametrize("turnovers_s", [30.0, 300.0, 3000.0])
def test_a_page_cache_that_is_read_slowly_gets_the_policy_that_saves_within_seconds(
    turnovers_s: float,
) -> None:
    """In so many seconds the default misses as many pages as the page cache has."""
    world = World({"default": 0.5, "lru": 0.3}, cache_pages=pages_of(turnovers_s), anew=0.0)
    intervals = int(granted(world) / (0.2 * ACCESSES))
    assert world.run(intervals) == [] and kinds(world.run(1)) == [Event.TRIAL]
    assert world.until(Event.KEPT, 40).after.policy == "lru"
    assert world.run(300) == [] and world.swaps == ["lru"]


def test_a_change_of_a_page_cache_that_is_read_slowly_is_undone_within_the_budget() -> None:
    """Three intervals may exceed it. The part for the reads of the rollback stays unused."""
    worlds = {
        (turnovers_s, truth): slow(turnovers_s, default=0.5, lru=truth)
        for turnovers_s, truth in product((30.0, 300.0, 3000.0), (0.52, 0.6, 0.8, 1.0))
    }
    for world in worlds.values():
        world.told["lru"] = 0.3
    every = learn_all([*worlds.values()])
    assert [kinds(found) for found in run_all(every, 1)] == [[Event.TRIAL]] * len(every)
    assert [one.after.policy for one in until_all(every, Event.REVERTED)] == ["lru"] * len(every)
    run_all(every, 300)
    for (turnovers_s, truth), world in worlds.items():
        of = f"{turnovers_s=} {truth=}"
        assert world.swaps == ["lru", "default"], of
        assert world.lost <= granted(world) / WORST + 3 * (truth - 0.5) * ACCESSES, of


@pytest.mark.parametrize("turnovers_s", [10.0, 300.0, 3000.0])
def test_a_policy_that_was_found_in_force_is_undone_within_the_budget(turnovers_s: float) -> None:
    """As after the loss of the store. Three intervals and the rollback may exceed the budget."""
    world = slow(turnovers_s, default=0.5, lru=0.53)
    world.tells_cost, world.in_force = False, "lru"
    world.until(Event.REVERTED, 1000)
    world.run(2)
    budget = world.config.loss_share * (world.time_s + world.config.reserve_s) * 0.5 * ACCESSES
    assert world.in_force == "default" and world.lost <= budget + 3 * 0.03 * ACCESSES


def test_the_pages_of_a_slow_page_cache_are_given_up_only_for_their_cost() -> None:
    world = slow(300.0, default=0.5, lru=0.3, mru=0.3)
    assert world.until(Event.TRIAL).after.policy == "lru"
    world.run(10)
    world.told["mru"] = 0.2
    intervals = int(WORST * COST / CACHE_PAGES * world.cache_pages / (0.1 * ACCESSES))
    assert Event.TRIAL not in kinds(world.run(intervals))
    assert world.until(Event.TRIAL, 2).after.policy == "mru"


@pytest.mark.parametrize("hours", [0, 1, 12])
def test_a_tenant_that_was_not_changed_for_long_is_changed_no_later(hours: int) -> None:
    world = slow(3000.0, default=0.5, lru=0.475)
    world.state.default_cost = 3600 * hours * 0.5 * ACCESSES
    world.until(Event.TRIAL)
    assert world.time_s == pytest.approx(granted(world) / (0.025 * ACCESSES), abs=2)


@pytest.mark.parametrize("reserve_s", [0.0, 10.0, 60.0, 600.0])
def test_with_little_budget_in_advance_noise_changes_nothing(reserve_s: float) -> None:
    worlds = [slow(3000.0, seed=seed, default=0.5, lru=0.5) for seed in range(8)]
    for world in worlds:
        world.config = DecideConfig(reserve_s=reserve_s)
    assert run_all(worlds, 1500) == [[]] * len(worlds)


@pytest.mark.parametrize("load", [0.05, 0.3])
def test_a_load_that_falls_begins_no_change_sooner(load: float) -> None:
    world = slow(3000.0, default=0.5, lru=0.48)
    assert world.run(60) == []
    world.load = load
    assert world.until(Event.TRIAL).after.policy == "lru"
    assert world.time_s == pytest.approx(granted(world) / (0.02 * ACCESSES), rel=0.02)


def test_policies_that_are_best_in_turn_lose_no_more_than_the_budget() -> None:
    """Rollbacks may exceed it. They read over a third of the time that the page cache takes."""
    worlds, turns_s = [], []
    for turnovers_s, turn_s in product((60.0, 300.0), (60, 120, 300)):
        world = slow(turnovers_s, default=0.5, lru=0.5)
        world.anew, world.anew_s = 0.05 * turnovers_s * 0.5 * ACCESSES, turnovers_s / 3
        worlds.append(world)
        turns_s.append(turn_s)
    for now_s in range(0, 7200, 60):
        for world, turn_s in zip(worlds, turns_s, strict=True):
            of_default, of_lru = (0.5, 0.7) if now_s // turn_s % 2 else (0.7, 0.5)
            world.truth = {"default": of_default, "lru": of_lru}
        run_all(worlds, 60)
    for world in worlds:
        budget = world.config.loss_share * (7200 + world.config.reserve_s) * 0.6 * ACCESSES
        assert world.lost <= budget + world.swaps.count("default") * world.anew
