# SPDX-License-Identifier: Apache-2.0
"""Choice of a policy: whose lead exceeds what a change costs, within the budget."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.costs import COLLECTED, WORST, least_share
from cachepilot.decide.evidence import Evidence
from cachepilot.decide.outcome import Outcome, What
from cachepilot.decide.rollout import end, least_lost, order
from cachepilot.decide.state import Interval, PolicyState
from cachepilot.decide.trial import Trial
from cachepilot.sense.counterfactuals import Floats

Flags = NDArray[np.bool_]
ROUNDING = 1e-9
"""Of what is computed in two ways."""
RETURNED = 1.5
"""For more intervals a policy must have gained before it counts as the best again."""


def hurdles(states: Sequence[PolicyState], known: Evidence) -> Floats:
    """What each policy must save before it is chosen, pages, shape (tenants, policies).

    It is what the change may lose at worst, and what earlier changes to it lost: that it is off, or
    that its time is too short to fill the page cache, is known only as well as it was measured.
    """
    found = WORST * known.asked
    for row, state in zip(found, states, strict=True):
        for name, pages in state.lost.items():
            if name in state.policies:
                row[state.policies.index(name)] += pages
    return found


@dataclass(frozen=True)
class Ready:
    """Which changes are worth what they cost, by how much, and the share of time that they save.

    All of shape (tenants, policies); `any` says of each tenant whether there is one.
    """

    which: Flags
    above: Floats
    share: Floats
    any: list[bool]


def ready(
    states: Sequence[PolicyState],
    intervals: Sequence[Interval],
    known: Evidence,
    config: DecideConfig,
) -> Ready:
    """Changes that saved more than they can cost, within the budget; whether allowed or not.

    Of intervals of one length.
    """
    hurdle = hurdles(states, known)
    # Time per operation falls by `share`, throughput rises by share / (1 - share).
    time_share = np.array([seen.miss_time_share for seen in intervals])
    share = np.minimum(np.maximum(known.saved_ratio * time_share[:, None], 0.0), 0.999)
    may = share >= least_share(config)
    # What is measured of less would tell of the calibration, and not of the change.
    may &= known.is_told & (WORST * known.stake <= known.left[:, None] * (1 + ROUNDING))
    # The default is always open but to a change on trial. That is judged by what it lost in all: a
    # sum that rises for a while is no loss of a policy that gains in another.
    is_tried = np.array([one.trial is not None for one in states])[:, None]
    may[:, :1] = ~is_tried
    # What alternates with the passes of a loop has not returned.
    lasts = known.since_s > RETURNED * intervals[0].elapsed_s
    returns = np.where(lasts, known.returns, 0.0)
    most = np.where(is_tried, known.lead, np.maximum(known.lead, returns))
    found = (most >= hurdle) & (most > 0) & may
    found[np.arange(len(known.index)), known.index] = False
    return Ready(found, most - hurdle, share, found.any(axis=1).tolist())


def choose(
    state: PolicyState, seen: Interval, known: Evidence, found: Ready, i: int
) -> list[Outcome]:
    """Changes tenant `i` to the policy that saved most above what it can cost, if there is one."""
    which = found.which[i] & _may_have(state, seen)
    if not which.any():
        return []
    best = int(np.argmax(np.where(which, found.above[i], -np.inf)))
    return _change(state, seen, known.of(i), best, float(found.share[i, best]))


def _may_have(state: PolicyState, seen: Interval) -> Flags:
    barred = {name for name, until_s in state.barred.items() if seen.time_s < until_s}
    return np.array([name in seen.allowed - barred for name in state.policies])


def _change(
    state: PolicyState, seen: Interval, known: Evidence, best: int, share: float
) -> list[Outcome]:
    policy, trial, cost, found = state.policies[best], state.trial, float(known.cost[best]), []
    before, origin_factor = seen.in_force, float(known.factors[known.index])
    profile = state.totals.values[known.index].tolist()
    state.end_lead(seen.in_force, float(known.since_s[best]))
    if trial is not None:
        before, earlier, profile = trial.from_policy, trial.origin_factor, trial.profile
        origin_factor = float(known.factors[0]) if earlier is None else earlier
        why = f"{policy} costs less by {max(known.lead[best], known.returns[best]):.0f} pages"
        rollback_cost = float(known.stake[best]) if policy == before else 0.0
        found.append(end(state, trial, What.ABANDONED, why, seen, rollback_cost))
    # What is saved of CPU time is saved of no miss.
    of_cpu = float(known.cpu[known.index] - known.cpu[best]) / max(seen.accesses, 1.0)
    miss_ratio = max(0.0, seen.miss_ratio - (float(known.saved_ratio[best]) - of_cpu))
    begun = Trial(
        before,
        policy,
        seen.time_s,
        seen.limit_bytes,
        float(known.factors[best]),
        (seen.ops, seen.miss_ratio),
        (seen.ops / (1 - share), miss_ratio),
        origin_factor,
        list(profile),
        reread=cost,
        rollback=cost,
        cpu_us=seen.cpu_us_of(policy) - seen.cpu_us_of(before),
        excess=state.excess,
        left=float(known.left),
        may_lose=least_lost(float(known.left), float(known.stake[best])),
        displaced=0.0 if trial is None else trial.displaced,
        origin_error=float(known.error),
    )
    order(state, policy, cost if best == 0 else max(cost, _collected(seen)))
    saves, since = max((known.lead[best], "lately"), (known.returns[best], "yet, as before"))
    why = f"{saves:.0f} pages fewer to read {since}, {cost:.0f} to read again"
    if known.cpu.any():
        why += "; the CPU time of both is counted as pages"
    returns = best == 0 or policy == before
    state.trial = None if returns else begun
    what = What.CONFIRMED if returns else What.LIVE
    return [*found, Outcome(what, seen.in_force, policy, why, begun.baseline, begun.predicted)]


def _collected(seen: Interval) -> float:
    """Pages that a policy may have to collect before what is measured is its own."""
    told = seen.counterfactual
    return 0.0 if told is None else COLLECTED * told.cache_pages
