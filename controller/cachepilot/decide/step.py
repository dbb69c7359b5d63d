# SPDX-License-Identifier: Apache-2.0
"""One step of the decider for the policies of one tenant: what changes, and why.

Every policy is simulated on the same accesses, so none has to be tried to be compared: a change is
made when its evidence exceeds its cost, within a budget, and stays unconfirmed until what is
measured agrees with what was predicted.
"""

from collections.abc import Sequence

from cachepilot.decide import choose, evidence, rollout
from cachepilot.decide.config import DecideConfig
from cachepilot.decide.outcome import Outcome
from cachepilot.decide.state import Interval, PolicyState


def step(state: PolicyState, seen: Interval, config: DecideConfig) -> list[Outcome]:
    """`step_all` of one tenant."""
    return step_all([state], [seen], config)[0]


def step_all(
    states: Sequence[PolicyState], intervals: Sequence[Interval], config: DecideConfig
) -> list[list[Outcome]]:
    """Takes one interval of each tenant in; none has a say in what is decided of another.

    `state.wanted` is the policy to attach then, None to leave it.
    """
    found = []
    alike: dict[tuple[object, ...], list[int]] = {}
    for i, (state, seen) in enumerate(zip(states, intervals, strict=True)):
        found.append(_follow(state, seen))
        told = seen.of_in_force
        if told is not None and seen.elapsed_s > 0:
            alike.setdefault((seen.elapsed_s, told.misses.shape), []).append(i)
        else:
            found[i] += rollout.wait(state, seen)
    for group in alike.values():
        some = [states[i] for i in group], [intervals[i] for i in group]
        for i, outcomes in zip(group, _weigh(*some, config), strict=True):
            found[i] += outcomes
    return found


def _follow(state: PolicyState, seen: Interval) -> list[Outcome]:
    """What is in force, and in which regime, before the interval is compared with the others."""
    found = rollout.follow(state, seen)
    rollout.displace(state, seen)
    if seen.regime > state.regime:
        state.begin_regime(seen.regime, seen.time_s)
    # An agent that was restarted counts them anew: the same regime.
    state.regime = seen.regime
    return found


def _weigh(
    states: Sequence[PolicyState], intervals: Sequence[Interval], config: DecideConfig
) -> list[list[Outcome]]:
    """Judges and chooses by the evidence of tenants with as many policies and groups."""
    told = [one for one in (seen.counterfactual for seen in intervals) if one is not None]
    known = evidence.take_all(states, intervals, told, config)
    found: list[list[Outcome]] = []
    for i, (state, seen) in enumerate(zip(states, intervals, strict=True)):
        is_tried = rollout.is_on_trial(state)
        judged = rollout.judge(state, seen, known.of(i), config) if is_tried else None
        found.append([] if judged is None else [judged])
    ready = choose.ready(states, intervals, known, config)
    for i, (state, seen) in enumerate(zip(states, intervals, strict=True)):
        # What may not be kept has no way back to it: the plan replaces it. What was just confirmed
        # was still on trial when leads over it were counted.
        may_choose = seen.may_change and seen.may_begin and seen.in_force in seen.allowed
        is_open = not found[i] and not seen.is_held and state.wanted is None
        if ready.any[i] and may_choose and is_open:
            found[i] += choose.choose(state, seen, known, ready, i)
    return found
