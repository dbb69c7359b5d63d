# SPDX-License-Identifier: Apache-2.0
"""Changes on a node that does not report their cost, as the real agent does not."""

from dataclasses import replace

import pytest
from deciding import ACCESSES, CACHE_PAGES, World, kinds, step

from cachepilot.decide.config import IDLE_S, DecideConfig
from cachepilot.decide.costs import COLLECTED, WORST, cost_share
from cachepilot.decide.evidence import SETTLING
from cachepilot.decide.state import PolicyState
from cachepilot.domain.decisions import Event
from cachepilot.model.gain import LEAST_INTERVALS

SWITCHED = DecideConfig().switch_share * CACHE_PAGES


def saving(**more: float) -> World:
    """Return a world in which `lru` truly saves two fifths, and a swap reads nothing again."""
    return World({"default": 0.5, "lru": 0.3} | more, anew=0.0, tells_cost=False).learn()


def on_trial(world: World) -> World:
    """Put `lru` on trial. It stays on trial, because its origin's error is large."""
    world.until(Event.TRIAL)
    world.run(1)
    assert world.state.trial is not None
    world.state.trial.origin_error = 10.0
    return world


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        ("default", "lru", 0.1), ("lru", "lru", 0.1), ("lru", "default", COLLECTED),
        ("lru", "mru", COLLECTED),
    ],
)  # fmt: skip
def test_a_change_away_from_a_policy_counts_what_that_has_collected(
    before: str, after: str, share: float
) -> None:
    assert cost_share(before, after, DecideConfig()) == share
    assert cost_share(before, after, DecideConfig(switch_share=0.5)) == 0.5


def test_a_change_that_saves_is_confirmed_and_its_page_cache_may_be_collected() -> None:
    world = saving()
    assert world.until(Event.TRIAL).after.policy == "lru"
    assert world.state.adapting == SETTLING * COLLECTED * CACHE_PAGES
    assert world.until(Event.KEPT).after.policy == "lru" and world.swaps == ["lru"]


def test_a_trial_may_reread_what_the_policy_has_to_collect() -> None:
    """A change from the default counts as a tenth of the page cache when it is chosen."""
    world = saving()
    world.until(Event.TRIAL)
    trial = world.state.trial
    assert trial is not None and trial.reread == pytest.approx(SWITCHED)
    world.run(1)
    assert trial.reread == pytest.approx(COLLECTED * CACHE_PAGES)


@pytest.mark.parametrize("is_told", [True, False])
def test_savings_under_another_workload_are_no_credit(is_told: bool) -> None:
    world = on_trial(saving())
    world.run(300)
    assert world.state.trial is not None and world.lost < -100 * SWITCHED
    world.regime += is_told
    world.truth |= {"default": 0.3, "lru": 0.36}
    before = world.lost
    undone = kinds(world.run(60)) == [Event.REVERTED]
    assert undone == is_told
    if is_told:
        assert world.lost - before < WORST * SWITCHED + LEAST_INTERVALS * 0.06 * ACCESSES


@pytest.mark.parametrize("every_s", [0, 61, 300])
def test_losses_under_another_workload_still_count(every_s: int) -> None:
    """The node reports new workloads again and again. Three intervals may exceed the budget."""
    slow = World({"default": 0.5, "lru": 0.3}, cache_pages=3000 * 0.5 * ACCESSES, anew=0.0)
    slow.tells_cost = False
    world = on_trial(slow.learn())
    world.truth["lru"] = 0.53
    for second in range(1800):
        world.regime += bool(every_s) and second % every_s == 0
        if Event.REVERTED in kinds(world.run(1)):
            break
    budget = world.config.loss_share * (world.time_s + world.config.reserve_s) * 0.5 * ACCESSES
    assert world.in_force == "lru" and world.lost <= budget + 3 * 0.03 * ACCESSES


def in_lru() -> World:
    """Return a world under a confirmed `lru`, with `mru` on trial in its place."""
    world = World(
        {"default": 0.5, "lru": 0.4, "mru": 0.37}, in_force="lru", anew=0.0, tells_cost=False,
        state=PolicyState(in_force="lru"),
    ).learn()  # fmt: skip
    while world.in_force != "mru":
        world.run(1)
    assert world.state.trial is not None and world.state.trial.from_policy == "lru"
    world.state.trial.origin_error = 10.0
    return world


def test_a_policy_that_loses_against_the_default_goes_to_it_if_it_is_best() -> None:
    world = in_lru()
    world.run(5)
    world.truth["default"] = 0.2
    undone = world.until(Event.REVERTED)
    assert undone.before.policy == "default" and "than the default would have" in undone.why
    world.run(2)
    assert world.swaps[-2:] == ["mru", "default"]
    # `mru` misses exactly what was predicted.
    assert world.state.calibration.factors(0)[2] == pytest.approx(1.0, abs=0.02)


def test_an_undone_change_of_a_large_page_cache_is_charged_what_it_might_lose() -> None:
    """The default takes 3,000 s to miss so many pages. The rollback may read a tenth of them."""
    pages = 3000 * 0.5 * ACCESSES
    world = World({"default": 0.5, "lru": 0.7}, {"lru": 0.3}, anew=0.0, cache_pages=pages)
    world.tells_cost = False
    world.learn()
    world.until(Event.REVERTED)
    granted = world.config.loss_share * world.config.reserve_s * 0.5 * ACCESSES
    assert 0 < world.state.lost["lru"] <= 2 * granted < 0.1 * pages


def test_a_change_given_up_is_charged_the_reads_of_its_rollback() -> None:
    world = on_trial(saving())
    state = world.state
    for _ in range(int(IDLE_S) + 2):
        step(state, replace(world.interval(), counterfactual=None), world.config)
        if state.trial is None:
            break
    assert state.wanted == "default" and state.adapting == SETTLING * SWITCHED


def test_a_confirmed_policy_that_turns_bad_costs_what_going_back_is_worth_waiting_for() -> None:
    """The loss exceeds the budget, which no longer bounds a confirmed policy."""
    world = saving()
    world.cache_pages = 300_000.0
    world.until(Event.KEPT)
    world.truth["lru"], world.regime = 0.53, world.regime + 1
    before, interval = world.lost, 0.03 * ACCESSES
    while world.in_force == "lru":
        world.run(1)
    lost, most = world.lost - before, WORST * COLLECTED * world.cache_pages
    assert world.in_force == "default" and most - interval <= lost <= most + 2 * interval
    assert lost > world.config.loss_share * (world.time_s + world.config.reserve_s) * 5000
