# SPDX-License-Identifier: Apache-2.0
"""One step of the decider for the policies of one tenant: what changes, and why.

Every policy is simulated on the same accesses, so none has to be tried to be compared: a change is
made when its evidence exceeds its cost, within a budget, and stays unconfirmed until what is
measured agrees with what was predicted.
"""

from cachepilot.decide import choose, evidence, rollout
from cachepilot.decide.config import DecideConfig
from cachepilot.decide.outcome import Outcome
from cachepilot.decide.state import Interval, PolicyState


def step(state: PolicyState, seen: Interval, config: DecideConfig) -> list[Outcome]:
    """Takes one interval in. `state.wanted` is the policy to attach then, None to leave it."""
    found = rollout.follow(state, seen)
    if seen.regime > state.regime:
        state.begin_regime(seen.regime, seen.time_s)
    # An agent that was restarted counts them anew: the same regime.
    state.regime = seen.regime
    told = seen.counterfactual
    if told is None or seen.elapsed_s <= 0 or seen.in_force not in told.policies:
        return found
    known = evidence.take(state, seen, told, config)
    judged = rollout.judge(state, seen, known, config)
    if judged is not None:
        found.append(judged)
    hurdle = choose.hurdles(state, known)
    # What may not be kept has no way back to it: the plan replaces it.
    may_choose = seen.may_change and seen.may_begin and seen.in_force in seen.allowed
    if may_choose and not seen.is_held and state.wanted is None:
        found += choose.choose(state, seen, known, hurdle, config)
    if state.wanted is None:
        state.bound_leads(known.index, hurdle)
    return found
