# SPDX-License-Identifier: Apache-2.0
"""The rules for changes of policy: what begins, confirms and rolls back a change."""

import re
from dataclasses import astuple, replace

import numpy as np
import pytest
from deciding import (
    ACCESSES,
    COST,
    World,
    in_lru,
    kinds,
    promising,
    run_all,
    saving,
    scattering,
    step,
)

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.costs import WORST
from cachepilot.decide.rollout import EFFECT_S
from cachepilot.decide.state import LEADS_KEPT, PolicyState
from cachepilot.decide.step import step_all
from cachepilot.decide.trial import Trial
from cachepilot.domain.decisions import Event, Reading

EAGER = DecideConfig(least_gain=0.0)


def test_a_policy_that_saves_is_chosen_and_confirmed() -> None:
    world = saving(mru=0.6)
    live, confirmed = world.run(10)
    assert (live.event, live.before.policy, live.after.policy) == (Event.TRIAL, "default", "lru")
    assert live.baseline == Reading(ACCESSES, 0.5)
    assert astuple(live.predicted) == pytest.approx((ACCESSES / 0.8, 0.3))
    assert (confirmed.event, confirmed.after.policy) == (Event.KEPT, "lru")
    assert confirmed.measured == Reading(ACCESSES, 0.3)
    assert world.in_force == "lru" and world.state.trial is None
    assert world.run(300) == []


def test_a_wrongly_predicted_saving_is_undone_and_not_tried_again() -> None:
    world = promising()
    live, undone = world.run(10)
    assert (live.event, live.after.policy) == (Event.TRIAL, "lru")
    assert undone.event is Event.REVERTED
    assert (undone.before.policy, undone.after.policy) == ("default", "lru")
    assert undone.why.startswith("it should have saved ")
    assert world.run(1500) == [] and world.swaps == ["lru", "default"]
    assert world.lost == 2 * COST


def test_a_change_that_reads_more_is_undone_after_the_least_intervals() -> None:
    world = promising()
    world.truth["lru"] = 0.7
    found = world.run(10)
    assert kinds(found) == [Event.TRIAL, Event.REVERTED]
    assert "pages more than default" in found[1].why
    assert world.in_force == "default"


@pytest.mark.parametrize("loses", [0.0, 0.35])
def test_a_loss_of_a_moment_ends_no_change_that_gained_more_before(loses: float) -> None:
    """The default misses less for some seconds. A change of this cost may lose as much."""
    world = saving()
    world.run(4)
    world.truth |= {"default": 0.3, "lru": 0.3 + loses}
    world.run(1)
    assert world.state.trial is not None and world.in_force == "lru"
    world.truth |= {"default": 0.5, "lru": 0.3}
    assert kinds(world.run(20)) == [Event.KEPT] and world.swaps == ["lru"]


def test_an_undone_change_goes_back_to_where_it_came_from() -> None:
    world = in_lru()
    world.told["mru"] = 0.2
    assert kinds(world.run(10)) == [Event.TRIAL, Event.REVERTED]
    assert world.swaps == ["mru", "lru"] and world.run(300) == []


def test_a_lead_below_what_a_change_may_cost_changes_nothing_and_at_that_it_does() -> None:
    gain = 125.0
    world = World({"default": 0.5, "lru": 0.5 - gain / ACCESSES}, config=EAGER)
    assert world.run(int(WORST * COST / gain) - 1) == []
    assert kinds(world.run(1)) == [Event.TRIAL]


def test_a_saving_that_comes_and_goes_below_the_cost_changes_nothing() -> None:
    world = World({"default": 0.5, "lru": 0.5}, config=EAGER)
    for _ in range(50):
        for told in (0.49, 0.51):
            world.told["lru"] = told
            assert world.run(9) == []


@pytest.mark.parametrize(("gain", "changes"), [(0.0098, False), (0.0102, True)])
def test_a_gain_of_throughput_below_the_least_is_not_worth_a_change(
    gain: float, changes: bool
) -> None:
    worlds = [
        World({"default": 0.5, "lru": 0.5 - gain / share}, miss_time_share=share)
        for share in (0.25, 1.0, 4.0)
    ]
    assert [bool(found) for found in run_all(worlds, 400)] == [changes] * len(worlds)


def test_the_predicted_throughput_stays_finite() -> None:
    world = World({"default": 0.5, "lru": 0.3}, miss_time_share=10.0)
    assert world.until(Event.TRIAL).predicted.ops == pytest.approx(1000 * ACCESSES)


def test_the_policy_in_force_is_never_chosen_though_it_costs_nothing() -> None:
    config = DecideConfig(switch_share=0.0, least_gain=0.0)
    assert World({"default": 0.5, "lru": 0.5}, config=config).run(50) == []


def test_rereads_by_a_swap_do_not_count_against_the_policy() -> None:
    world = saving()
    world.run(3)
    assert world.swaps == ["lru"]
    assert world.state.calibration.factors(1) == pytest.approx([1.0, 1.0])


def test_the_policy_with_the_largest_lead_is_chosen() -> None:
    world = World({"default": 0.5, "fifo": 0.4, "lru": 0.2, "mru": 0.3})
    assert world.until(Event.TRIAL).after.policy == "lru"


def test_going_back_to_the_default_needs_no_budget_and_no_least_gain() -> None:
    world = in_lru()
    world.config = DecideConfig(loss_share=0.0, reserve_s=0.0)
    world.state.excess = 1e12
    world.truth["default"] = 0.399
    found = world.run(400)
    assert [(one.event, one.after.policy) for one in found] == [(Event.KEPT, "default")]
    assert world.in_force == "default"


def test_without_a_budget_no_change_begins() -> None:
    world = saving()
    world.state.excess = 1e9
    assert world.run(300) == []
    world.state.excess = 0.0
    assert kinds(world.run(1)) == [Event.TRIAL]


def test_a_change_waits_until_the_worst_that_it_may_cost_is_in_the_budget() -> None:
    config = DecideConfig(loss_share=0.01, reserve_s=0.0)
    intervals = int(WORST * COST / (0.01 * 0.5 * ACCESSES))
    world = World({"default": 0.5, "lru": 0.3}, config=config)
    assert world.run(intervals - 1) == []
    assert kinds(world.run(1)) == [Event.TRIAL]


@pytest.mark.parametrize("truth", [0.6, 0.8, 1.0])
def test_a_change_is_undone_before_it_costs_more_than_the_budget(truth: float) -> None:
    """However uncertain the loss is, only two intervals may exceed the budget."""
    world = promising()
    world.truth["lru"] = truth
    state, left = world.state, WORST * COST
    reserve = world.config.reserve_s * 0.5 * ACCESSES
    state.excess = world.config.loss_share * (state.default_cost + reserve) - left
    world.run(100)
    assert world.swaps == ["lru", "default"]
    assert world.lost <= left + 2 * (truth - 0.5) * ACCESSES


def test_the_losses_of_an_undone_policy_raise_what_it_must_save() -> None:
    gain = 125.0
    world = World({"default": 0.5, "lru": 0.5 - gain / ACCESSES}, config=EAGER)
    world.state.lost = {"lru": 2 * COST, "gone": 1e9}
    assert world.run(int((WORST + 2) * COST / gain) - 1) == []
    assert kinds(world.run(1)) == [Event.TRIAL]


def test_a_change_that_reads_more_ends_with_the_budget_however_it_is_calibrated() -> None:
    """A calibration from a few scattering intervals of the default makes the change look a gain."""
    worlds = [
        World({"default": 0.5, "lru": 0.56}, told={"lru": 0.45}, seed=seed) for seed in range(4)
    ]
    for seed, world in enumerate(worlds):
        world.seen_as = scattering(np.random.default_rng(seed), 0.5)
    budget, most = 0.0025 * 0.5 * ACCESSES * (2500 + 4100), np.zeros(len(worlds))
    for _ in range(2500):
        run_all(worlds, 1)
        most = np.maximum(most, [world.lost for world in worlds])
    assert (most < budget).all(), most


def test_a_change_undone_because_the_default_gains_must_save_more_next_time() -> None:
    """Both gain in alternate intervals, and the change begins more and more rarely."""
    world, begun = World({"default": 0.6, "lru": 0.6}).learn(), []
    for i in range(400):
        world.truth = {"default": 0.8, "lru": 0.4} if i % 2 else {"default": 0.4, "lru": 0.74}
        begun += [i for one in world.run(1) if one.event is Event.TRIAL]
    waits = np.diff(begun)
    assert len(waits) > 3 and (waits[1:] > waits[:-1]).all()


def test_the_next_change_must_make_up_for_the_losses_of_a_replaced_one() -> None:
    """`lru` is simulated well in regimes that are too short to fill its page cache."""
    world = saving(mru=0.5).learn()
    world.truth["lru"] = 0.5
    world.until(Event.TRIAL)
    world.run(1)
    world.told["mru"] = world.truth["mru"] = 0.05
    assert kinds(world.run(12))[0] is Event.ABANDONED
    assert world.state.lost["lru"] >= COST


def test_a_policy_found_in_force_is_not_undone_by_one_noisy_interval() -> None:
    """The page cache is so large that the budget does not cover a rollback."""
    config, shares = DecideConfig(reserve_s=10.0), {"default": 0.5, "lru": 0.4}
    worlds = [World(dict(shares), in_force="lru", config=config) for _ in range(6)]
    for seed, world in enumerate(worlds):
        world.seen_as = scattering(np.random.default_rng(seed), 0.1)
    for seed, found in enumerate(run_all(worlds, 60)):
        assert Event.REVERTED not in kinds(found), seed


def test_a_saving_within_the_error_of_the_calibration_begins_no_change() -> None:
    """Measured misses scatter by half, so a saving of a twelfth cannot be distinguished."""
    random = np.random.default_rng(1)
    world = World({"default": 0.5, "lru": 0.46}, config=EAGER)
    for i in range(400):
        seen = world.interval()
        scatter = 0.5 if i < 200 else 0.0
        noisy = replace(seen, misses=seen.misses * (1 + scatter * random.standard_normal()))
        found = step(world.state, noisy, world.config)
        # The first intervals do not show yet how far they scatter.
        assert found == [] or i < 5 or i > 200
    assert world.in_force == "lru"


def test_after_an_undone_change_the_lead_of_the_earlier_policy_restarts() -> None:
    world = promising()
    world.until(Event.REVERTED)
    world.run(1)
    assert world.in_force == "default" and world.state.lead_s <= 2.0


@pytest.mark.parametrize("regime", [5, 6, 1])
def test_a_policy_that_was_worse_before_may_gain_at_once_in_any_regime(
    regime: int,
) -> None:
    gain = COST / 4
    world = World({"default": 0.5, "lru": 0.9}, config=EAGER, regime=5).learn(100)
    world.regime = regime
    world.truth["lru"] = 0.5 - gain / ACCESSES
    assert world.run(int(WORST * COST / gain) - 1) == []
    assert kinds(world.run(1)) == [Event.TRIAL]


def test_after_a_restart_of_the_agent_the_next_change_of_workload_counts() -> None:
    world = World({"default": 0.5, "lru": 0.9}, config=EAGER, regime=5).learn(100)
    for regime, looked in ((1, 101), (2, 1)):
        world.regime = regime
        world.run(1)
        assert (world.state.regime, world.state.climb.looked) == (regime, looked)


def test_a_better_policy_takes_the_place_of_one_on_trial() -> None:
    world = saving(mru=0.5)
    world.run(2)
    world.told["mru"] = world.truth["mru"] = 0.05
    found = world.run(12)
    assert kinds(found) == [Event.ABANDONED, Event.TRIAL, Event.KEPT]
    assert found[-1].before.policy == "default" and world.in_force == "mru"


def test_an_order_waits_while_nothing_can_be_stored() -> None:
    world = saving()
    closed = replace(world.interval(), may_begin=False)
    assert step(world.state, closed, world.config) == []
    assert kinds(world.run(1)) == [Event.TRIAL]
    world.ignoring = frozenset({"lru"})
    for _ in range(100):
        closed = replace(world.interval(), may_begin=False)
        assert step(world.state, closed, world.config) == []
    assert world.state.wanted == "lru" and world.run(int(EFFECT_S)) == []


def test_the_end_of_a_trial_is_predicted() -> None:
    world = promising(told=0.475)
    world.seed = 0
    world.__post_init__()
    world.until(Event.TRIAL)
    world.run(6)
    assert world.state.trial is not None
    ends_s = world.state.trial.ends_s
    world.until(Event.REVERTED)
    assert ends_s == pytest.approx(world.time_s, rel=0.2) and ends_s > 70


def flipping(rounds: int, length: int = 60) -> World:
    """Return a world where `lru` and `mru` are best in turn, which nobody announces.

    After so many rounds the turn of `lru` begins.
    """
    world = World({"default": 0.5, "lru": 0.5, "mru": 0.5}).learn(20)
    for turn in range(2 * rounds + 1):
        best, other = ("lru", "mru") if turn % 2 == 0 else ("mru", "lru")
        world.truth[best], world.truth[other] = 0.46, 0.5
        if turn < 2 * rounds:
            world.run(length)
    return world


def test_a_policy_that_was_best_before_is_back_at_once_when_that_returns() -> None:
    world = flipping(2)
    assert set(world.state.leads) >= {"lru", "mru"} and world.in_force == "mru"
    (abandoned_or_live, *_) = world.run(2)
    assert world.state.wanted == "lru" or world.in_force == "lru"
    assert world.state.leads["mru"][0] > 0 and abandoned_or_live.event is not Event.REVERTED
    # Without an earlier turn, its lead must first reach the cost of a change.
    new = flipping(0)
    assert new.run(int(COST / 400) - 1) == [] and new.state.wanted is None


def test_why_a_change_begins_names_both_policies_and_separates_thousands() -> None:
    (begun,) = saving(mru=0.6).run(3)
    told = r"lru would have read \d+,\d{3} pages fewer than default lately; "
    assert re.fullmatch(told + r"the change may read \d+(,\d{3})? pages again", begun.why)


def test_why_a_policy_is_back_says_that_it_returned() -> None:
    told = [one.why for one in flipping(2).run(2)]
    assert any("lru is best again and is expected to read" in why for why in told)


def test_why_a_trial_is_abandoned_is_by_what_decided_it() -> None:
    """While a trial runs, what a policy saved so far decides, not what it may save once back."""
    world = World({"default": 0.5, "lru": 0.5, "mru": 0.3}).learn(20)
    world.until(Event.TRIAL)
    world.state.leads["lru"] = (1000.0, 1.0)
    world.truth.update(lru=0.3, mru=0.5)
    abandoned, begun = world.run(3)
    assert (abandoned.event, begun.event) == (Event.ABANDONED, Event.TRIAL)
    for one in (abandoned, begun):
        assert one.why.startswith("lru would have read 4,000 pages fewer than mru lately")


def test_a_policy_whose_turns_are_too_short_for_its_cost_is_not_chosen() -> None:
    world = flipping(2)
    world.state.leads["lru"] = (5.0, 1.0)
    assert world.run(3) == [] and world.in_force == "mru"


def test_an_undone_policy_is_not_known_to_be_best() -> None:
    world = promising()
    world.state.leads["lru"] = (1000.0, 1.0)
    world.until(Event.REVERTED)
    assert "lru" not in world.state.leads


def test_a_policy_that_was_not_confirmed_is_not_known_to_be_best() -> None:
    state = PolicyState(policies=["default", "lru"], lead_s=100.0)
    state.trial = Trial("default", "lru", 0.0, 1, 1.0, (1.0, 0.5), (1.0, 0.4))
    state.end_lead("lru", 10.0)
    assert state.leads == {} and state.lead_s == 10.0
    state.trial, state.lead_s = None, 100.0
    for _ in range(50):
        state.end_lead("lru", 40.0)
        state.lead_s = 100.0
    seconds, ended = state.leads["lru"]
    assert seconds / ended == pytest.approx(60.0) and ended <= LEADS_KEPT
    assert state.mean_leads_s() == pytest.approx([0.0, 60.0 * ended / (ended + 1)])


def test_tenants_are_decided_together_as_each_is_alone() -> None:
    """The candidates differ, and some tenants have changes on trial."""
    shares = [{"default": 0.5, "lru": 0.5 - 0.1 * i, "mru": 0.6} for i in range(4)]
    shares += [{"default": 0.5, "lru": 0.3}]
    alone, together = ([World(one, seed=i) for i, one in enumerate(shares)] for _ in range(2))
    decided = 0
    for _ in range(80):
        found = [step(one.state, one.interval(), one.config) for one in alone]
        seen = [one.interval() for one in together]
        assert step_all([one.state for one in together], seen, together[0].config) == found
        decided += sum(map(len, found))
    assert [one.state for one in alone] == [one.state for one in together]
    assert decided > len(shares)
