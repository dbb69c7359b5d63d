# SPDX-License-Identifier: Apache-2.0
"""One step of the decider for policies: which tenants get another policy, and why.

The agent simulates every policy on the same accesses, so policies are compared without trying them.
A change begins when its evidence exceeds its cost, within a budget. It is on trial until the
measurement agrees with the prediction, or until it is undone.
"""

from collections.abc import Sequence

import numpy as np

from cachepilot.decide import choose, evidence, rollout
from cachepilot.decide.config import DecideConfig
from cachepilot.decide.state import Interval, PolicyState
from cachepilot.domain.decisions import Decision


def step_all(
    states: Sequence[PolicyState], intervals: Sequence[Interval], config: DecideConfig
) -> list[list[Decision]]:
    """Take in one interval of each tenant; return decisions by tenant, in the order of `states`.

    Tenants are decided independently of one another. Afterwards `state.wanted` is the policy to
    attach, or None to leave the policy as it is.
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
        for i, decided in zip(group, _weigh(*some, config), strict=True):
            found[i] += decided
    return found


def _follow(state: PolicyState, seen: Interval) -> list[Decision]:
    """Update the policy in force and the regime, before policies are compared by the interval."""
    found = rollout.follow(state, seen)
    rollout.displace(state, seen)
    if seen.regime > state.regime:
        state.begin_regime(seen.regime, seen.time_s)
    # A restarted agent counts regimes from 0 again. A lower number is therefore the same regime.
    state.regime = seen.regime
    return found


def _weigh(
    states: Sequence[PolicyState], intervals: Sequence[Interval], config: DecideConfig
) -> list[list[Decision]]:
    """Judge and choose by evidence, for tenants with equally many policies and groups of pages."""
    told = [one for one in (seen.counterfactual for seen in intervals) if one is not None]
    known = evidence.take_all(states, intervals, told, config)
    found: list[list[Decision]] = []
    for i, (state, seen) in enumerate(zip(states, intervals, strict=True)):
        is_tried = rollout.is_on_trial(state)
        judged = rollout.judge(state, seen, known.of(i), config) if is_tried else None
        found.append([] if judged is None else [judged])
    ready = choose.ready(states, intervals, known, config)
    any_ready = np.any(ready.which, axis=1)
    for i, (state, seen) in enumerate(zip(states, intervals, strict=True)):
        # No policy is chosen over one that the objectives do not allow: a trial could not go back
        # to it, and the plan replaces it anyway. Nor over one confirmed just now: its trial was
        # still running when the leads over it were computed.
        may_choose = seen.may_change and seen.may_begin and seen.in_force in seen.allowed
        is_open = not found[i] and not seen.is_held and state.wanted is None
        if any_ready[i] and may_choose and is_open:
            found[i] += choose.choose(state, seen, known, ready, i)
    return found
