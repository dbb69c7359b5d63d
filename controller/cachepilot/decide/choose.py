# SPDX-License-Identifier: Apache-2.0
"""The choice of a policy: the one whose lead exceeds the cost of the change by most, in budget."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.costs import COLLECTED, WORST, least_share
from cachepilot.decide.evidence import Evidence
from cachepilot.decide.rollout import end, least_lost, order
from cachepilot.decide.state import Interval, PolicyState
from cachepilot.decide.trial import Trial
from cachepilot.domain.decisions import Decision, Event
from cachepilot.readable import number
from cachepilot.sense.counterfactuals import Floats

Flags = NDArray[np.bool_]
ROUNDING = 1e-9
"""Relative tolerance between two computations of the same amount."""
RETURNED = 1.5
"""A policy must have gained for more than this many intervals before it counts as returned."""


class Ready(NamedTuple):
    """Changes that are worth their cost, in arrays of the shape (tenants, policies).

    `which` marks the changes, `above` is the saving above the hurdle in pages, and `share` the
    saved share of the time of an operation. `returns` are the pages that a policy that is best
    again is expected to save, 0 if they did not count.
    """

    which: Flags
    above: Floats
    share: Floats
    returns: Floats

    def of(self, i: int) -> "Ready":
        """Return the changes of tenant `i`, in arrays of the shape (policies,)."""
        return Ready(*(one[i] for one in self))


def ready(
    states: Sequence[PolicyState],
    intervals: Sequence[Interval],
    known: Evidence,
    config: DecideConfig,
) -> Ready:
    """Find changes that saved more than they can cost and fit into the budget.

    All intervals must have the same length. Whether the objectives allow a policy is not checked
    here; `choose` does that.
    """
    # The most that the change may lose, plus what earlier changes to the policy lost. A policy that
    # is predicted wrongly, or that is ahead too briefly to fill the page cache, is only recognized
    # by such losses.
    hurdle = WORST * known.asked
    for row, state in zip(hurdle, states, strict=True):
        for name, pages in state.lost.items():
            if name in state.policies:
                row[state.policies.index(name)] += pages
    # Time per operation falls by `share`, throughput rises by share / (1 - share).
    time_share = np.array([seen.miss_time_share for seen in intervals])
    share = np.minimum(np.maximum(known.saved_ratio * time_share[:, None], 0.0), 0.999)
    may = share >= least_share(config)
    # A saving within the error of the calibration could not be measured after the change.
    may &= known.is_told & (WORST * known.stake <= known.left[:, None] * (1 + ROUNDING))
    # The change to the default is always open, except while a change is on trial. A trial is judged
    # by its total loss: a policy that gains again later may let a sum rise for a while.
    is_tried = np.array([one.trial is not None for one in states])[:, None]
    may[:, :1] = ~is_tried
    # A policy that is ahead for one interval alternates with the passes of a loop. It has not
    # returned.
    lasts = known.since_s > RETURNED * intervals[0].elapsed_s
    returns = np.where(lasts & ~is_tried, known.returns, 0.0)
    most = np.where(is_tried, known.lead, np.maximum(known.lead, returns))
    found = (most >= hurdle) & (most > 0) & may
    found[np.arange(len(known.index)), known.index] = False
    return Ready(found, most - hurdle, share, returns)


def choose(
    state: PolicyState, seen: Interval, known: Evidence, found: Ready, i: int
) -> list[Decision]:
    """Change tenant `i` to the allowed policy with the largest lead above its hurdle, if any."""
    barred = {name for name, until_s in state.barred.items() if seen.time_s < until_s}
    allowed = seen.allowed - barred
    which = found.which[i] & np.array([name in allowed for name in state.policies])
    if not which.any():
        return []
    best = int(np.argmax(np.where(which, found.above[i], -np.inf)))
    return _change(state, seen, known.of(i), found.of(i), best)


def _change(
    state: PolicyState, seen: Interval, known: Evidence, worth: Ready, best: int
) -> list[Decision]:
    policy, trial, cost, found = state.policies[best], state.trial, float(known.cost[best]), []
    share = float(worth.share[best])
    saving = _saving(known, worth, best, policy, seen.in_force)
    before, origin_factor = seen.in_force, float(known.factors[known.index])
    profile = state.totals.values[known.index].tolist()
    state.end_lead(seen.in_force, float(known.since_s[best]))
    if trial is not None:
        before, earlier, profile = trial.from_policy, trial.origin_factor, trial.profile
        origin_factor = float(known.factors[0]) if earlier is None else earlier
        rollback_cost = float(known.stake[best]) if policy == before else 0.0
        found.append(end(state, trial, Event.ABANDONED, saving, seen, rollback_cost))
    # Saved CPU time does not lower the miss ratio.
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
    told = seen.counterfactual
    # A new policy may have to collect so many pages before the measurement is its own.
    collected = COLLECTED * told.cache_pages if told is not None and best != 0 else 0.0
    order(state, policy, max(cost, collected))
    why = f"{saving}; the change may read {number(cost)} pages again"
    if known.cpu.any():
        why += "; the CPU time of both is counted as pages"
    returns = best == 0 or policy == before
    state.trial = None if returns else begun
    event, readings = Event.KEPT if returns else Event.TRIAL, (begun.baseline, begun.predicted)
    return [*found, seen.decision(event, seen.in_force, policy, why, *readings)]


def _saving(known: Evidence, worth: Ready, best: int, policy: str, in_force: str) -> str:
    """How many pages fewer `policy`, the one of index `best`, reads than the policy in force.

    They are those that it would have saved since it began to gain. For a policy that is known to
    return, they are those that it is expected to save until it is no longer the best, if they
    counted and are more.
    """
    lead, returns = float(known.lead[best]), float(worth.returns[best])
    if returns > lead:
        pages = number(returns)
        return f"{policy} is best again and is expected to read {pages} pages fewer than {in_force}"
    return f"{policy} would have read {number(lead)} pages fewer than {in_force} lately"
