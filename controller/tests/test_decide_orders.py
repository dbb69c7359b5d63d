# SPDX-License-Identifier: Apache-2.0
"""Orders with and without effect, what others put in force, and page caches that settle."""

from dataclasses import replace

import pytest
from deciding import ACCESSES, COST, World, in_lru, kinds, promising, saving, step, unchanged

from cachepilot.decide.config import IDLE_S
from cachepilot.decide.rollout import EFFECT_S, RETRY_S
from cachepilot.decide.state import SETTLED_S, Interval, PolicyState, is_settling
from cachepilot.decide.trial import Trial
from cachepilot.domain.decisions import Event
from cachepilot.model.gain import LEAST_INTERVALS


def test_a_policy_that_is_refused_is_barred_for_a_time() -> None:
    world = saving()
    world.refusing = frozenset({"lru"})
    _, refused = world.run(2)
    assert (refused.event, refused.why) == (Event.REFUSED, "lru does not load")
    world.refusing = frozenset()
    assert world.run(int(RETRY_S) - 1) == [] and world.state.wanted is None
    assert kinds(world.run(1)) == [Event.TRIAL] and world.state.wanted == "lru"


def test_an_order_that_takes_no_effect_is_given_up_and_barred() -> None:
    world = saving()
    world.ignoring = frozenset({"lru"})
    world.run(1)
    assert world.run(int(EFFECT_S)) == [] and world.state.wanted == "lru"
    (given_up,) = world.run(1)
    assert given_up.event is Event.ABANDONED and "not in force after 15 s" in given_up.why
    assert world.state.wanted is None and world.run(int(RETRY_S) - 1) == []
    assert kinds(world.run(1)) == [Event.TRIAL]
    assert world.run(int(EFFECT_S)) == [] and kinds(world.run(1)) == [Event.ABANDONED]


def test_a_refused_rollback_turns_to_the_default_and_is_never_given_up() -> None:
    world = in_lru()
    world.told["mru"] = 0.2
    world.until(Event.REVERTED)
    assert world.state.wanted == "lru"
    world.refusing = frozenset({"lru", "default"})
    (told,) = world.run(1)
    assert (told.event, told.after.policy) == (Event.ABANDONED, "lru")
    assert "requested again" in told.why and world.state.wanted == "default"
    assert world.run(500) == [] and world.state.wanted == "default"
    world.refusing = frozenset()
    world.run(1)
    assert world.in_force == "default" and world.swaps == ["mru", "default"]


def test_an_unanswered_rollback_is_requested_until_it_is_in_force() -> None:
    world = promising()
    world.until(Event.REVERTED)
    world.ignoring = frozenset({"default"})
    found = world.run(300)
    assert kinds(found) == [Event.ABANDONED] and world.state.wanted == "default"
    world.ignoring = frozenset()
    assert world.run(2) == [] and world.in_force == "default"


def test_a_tenant_that_is_held_begins_no_change_and_may_still_go_back() -> None:
    world = saving()
    world.is_held = True
    assert world.run(300) == []
    world = promising()
    world.run(2)
    world.is_held = True
    assert kinds(world.run(10)) == [Event.REVERTED] and world.in_force == "default"


def test_a_tenant_that_is_pinned_changes_nothing() -> None:
    world = saving()
    world.may_change = False
    assert world.run(300) == []
    world = promising()
    world.run(2)
    world.may_change = False
    assert kinds(world.run(300)) == [Event.ABANDONED]
    assert world.in_force == "lru" and world.state.trial is None


def test_a_policy_on_trial_when_an_operator_took_over_is_tried_again() -> None:
    world = promising().learn(300)
    world.until(Event.TRIAL)
    world.run(2)
    world.may_change = False
    assert kinds(world.run(300)) == [Event.ABANDONED]
    world.may_change = True
    assert kinds(world.run(40)) == [Event.TRIAL, Event.REVERTED] and world.in_force == "default"


def test_an_order_under_way_as_an_operator_took_over_has_yet_to_prove_itself() -> None:
    """The order takes effect in the very interval from which on others decide."""
    world = promising().learn(300)
    world.until(Event.TRIAL)
    world.may_change = False
    assert kinds(world.run(50)) == [Event.ABANDONED] and world.in_force == "lru"
    world.may_change = True
    assert kinds(world.run(40)) == [Event.TRIAL, Event.REVERTED] and world.in_force == "default"


def test_a_rollback_that_an_operator_stopped_is_resumed() -> None:
    world = promising().learn(300)
    world.until(Event.REVERTED)
    stopped = replace(world.interval(), may_change=False, in_force="lru")
    world.in_force = "lru"
    assert step(world.state, stopped, world.config) == []
    assert kinds(world.run(40))[:2] == [Event.TRIAL, Event.REVERTED] and world.in_force == "default"


@pytest.mark.parametrize(("lru", "ends"), [(0.5, "default"), (0.3, "lru")])
def test_a_policy_that_an_operator_attached_is_put_on_trial(lru: float, ends: str) -> None:
    """The operator replaces a settled default. The policy stays while the operator decides."""
    world = World({"default": 0.5, "lru": lru}, told={"lru": 0.3}).learn(300)
    world.may_change, world.in_force = False, "lru"
    assert world.run(300) == [] and world.in_force == "lru"
    world.may_change = True
    last = Event.REVERTED if ends == "default" else Event.KEPT
    assert kinds(world.run(40)) == [Event.TRIAL, last] and world.in_force == ends


def test_a_policy_that_was_briefly_not_allowed_is_still_on_trial() -> None:
    world = promising().learn(300)
    world.until(Event.TRIAL)
    world.run(2)
    world.allow(("lru",))
    assert kinds(world.run(1)) == [Event.ABANDONED]
    world.allow(("default", "lru"))
    assert kinds(world.run(40)) == [Event.TRIAL, Event.REVERTED] and world.in_force == "default"


@pytest.mark.parametrize("is_undone", [False, True])
def test_the_successor_of_a_disallowed_policy_is_compared_with_the_default(
    is_undone: bool,
) -> None:
    """`mru` saves nothing of what is predicted. It is on trial, or on its rollback to `lru`."""
    world = in_lru(default=0.41)
    world.told["mru"] = 0.2
    while world.in_force != "mru":
        world.run(1)
    if is_undone:
        world.ignoring = frozenset({"lru"})
        world.until(Event.REVERTED)
    world.allow(["default", "mru"])
    assert Event.TRIAL in kinds(world.run(2))
    trial = world.state.trial
    assert trial is not None and (trial.from_policy, trial.to_policy) == ("default", "mru")
    world.truth["mru"] = 0.6
    world.until(Event.REVERTED)
    world.run(1)
    assert world.in_force == "default"


def test_a_policy_on_trial_that_may_no_longer_be_had_ends_its_trial() -> None:
    world = promising().learn()
    world.until(Event.TRIAL)
    world.run(2)
    world.allow(("default",))
    (ended,) = world.run(1)
    assert ended.event is Event.ABANDONED and world.state.trial is None


def test_a_policy_that_is_not_allowed_is_not_chosen() -> None:
    world = saving(mru=0.4)
    world.allow(("default", "mru"))
    assert world.until(Event.TRIAL).after.policy == "mru"


def test_a_change_is_not_undone_into_what_is_not_allowed() -> None:
    world = promising()
    world.run(2)
    world.allow(("lru",))
    assert kinds(world.run(100)) == [Event.ABANDONED]
    assert world.in_force == "lru" and world.state.trial is None


def test_a_policy_that_is_found_in_force_has_to_prove_itself() -> None:
    world = promising().learn(300)
    world.truth["lru"] = 0.55
    world.in_force = "lru"
    live, undone = world.run(12)
    assert (live.event, live.before.policy, live.after.policy) == (Event.TRIAL, "default", "lru")
    assert "found in force" in live.why and undone.event is Event.REVERTED
    assert world.in_force == "default"


def test_the_default_that_is_found_in_force_ends_a_trial_and_bars_the_policy() -> None:
    world = saving()
    world.run(2)
    world.in_force = "default"
    (ended,) = world.run(1)
    assert ended.event is Event.ABANDONED and "ejected" in ended.why
    assert world.run(int(RETRY_S) - 1) == [] and world.swaps == ["lru"]


def test_an_interval_without_counterfactuals_judges_nothing() -> None:
    world = promising()
    world.run(3)
    trial = replace(world.state.trial) if world.state.trial is not None else None
    assert trial is not None and trial.is_live
    for _ in range(50):
        silent = replace(world.interval(), counterfactual=None)
        assert step(world.state, silent, world.config) == []
    assert trial.displaced is not None
    displaced = trial.displaced + 50 * 0.5 * ACCESSES
    assert world.state.trial == replace(trial, idle_s=50.0, displaced=displaced)


@pytest.mark.parametrize("is_told", [True, False], ids=["of others", "of nothing"])
def test_a_policy_that_the_node_does_not_simulate_is_left_alone(is_told: bool) -> None:
    """It was attached by hand where any policy is allowed, so it is one of the allowed."""
    world = saving().learn()

    def own(seen: Interval) -> Interval:
        told = seen.counterfactual if is_told else None
        allowed = seen.allowed | {"own"}
        return replace(seen, in_force="own", allowed=allowed, counterfactual=told, misses=9e3)

    world.seen_as = own
    assert world.run(int(IDLE_S) + 100) == [] and world.state.wanted is None


def test_a_policy_that_is_found_in_force_proves_itself_once_it_is_simulated() -> None:
    """The first snapshot of a controller reports no interval yet."""
    world = World({"default": 0.5, "lru": 0.55}, in_force="lru")
    world.seen_as = lambda seen: replace(seen, counterfactual=None)
    assert world.run(3) == []
    world.seen_as = unchanged
    assert kinds(world.run(12)) == [Event.TRIAL, Event.REVERTED] and world.in_force == "default"


def test_a_change_that_cannot_be_judged_is_given_up() -> None:
    world, told = saving().learn(), []
    world.until(Event.TRIAL)
    world.run(2)
    for _ in range(int(IDLE_S) + 5):
        silent = replace(world.interval(), counterfactual=None, misses=9e3)
        told += step(world.state, silent, world.config)
    assert told[-1].event is Event.ABANDONED and "cannot be judged" in told[-1].why
    assert world.in_force == "default" and world.state.trial is None


def test_a_page_cache_settles_once_it_turned_over() -> None:
    state = PolicyState(in_force="default", in_force_s=1.0)
    assert not is_settling(state)
    state.wanted = "lru"
    assert is_settling(state)
    state.wanted, state.turnover = None, 1.0
    assert is_settling(state)
    state.in_force_s = SETTLED_S + 1
    assert not is_settling(state)
    state.in_force_s, state.turnover = 1.0, 0.0
    state.trial = Trial("default", "lru", 10.0, 1, 1.0, (1.0, 0.5), (1.0, 0.4), is_live=True)
    assert is_settling(state)
    state.trial.intervals = LEAST_INTERVALS
    assert not is_settling(state)


def test_a_rollback_settles_too() -> None:
    world = World({"default": 0.5, "lru": 0.9}, told={"lru": 0.3}).learn()
    world.until(Event.REVERTED)
    assert is_settling(world.state)
    few = replace(world.interval(), counterfactual=None, misses=COST / 2)
    step(world.state, few, world.config)
    assert world.state.in_force == "default" and is_settling(world.state)
    world.run(1)
    assert not is_settling(world.state)
