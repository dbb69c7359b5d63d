# SPDX-License-Identifier: Apache-2.0
"""Curves of a node, corrected by what was measured, or replaced by what is certain."""

from collections.abc import Mapping

from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.snapshot import Curves
from cachepilot.model.limit_calibration import corrected_curves
from cachepilot.node.deciding.tenant_state import Recent, TenantState
from cachepilot.plan.problem.asked import may_stay
from cachepilot.sense.collect import Collected
from cachepilot.sense.turnover import certain_curves
from cachepilot.sizes import PAGE_BYTES


def calibrated(
    collected: Collected, states: Mapping[str, TenantState], recents: Mapping[str, Recent]
) -> dict[str, Curves]:
    """Curves that agree with what the limits of each tenant measured, where it has any.

    Corrected curves are kept in `recents` while neither the curves nor their errors change.
    """
    return {
        cgroup: _corrected(seen.tenant.curves, states[cgroup].shifts, recents[cgroup])
        for cgroup, seen in collected.seen.items()
        if seen.tenant.curves is not None
    }


def certain(
    collected: Collected,
    objectives: Objectives,
    states: Mapping[str, TenantState],
    recents: Mapping[str, Recent],
) -> dict[str, Curves]:
    """Of tenants whose own curves cannot be trusted: see `sense.turnover`.

    What was measured at other limits in this regime, while curves were trusted, counts too: who
    gave memory for what they promised gets it back by what it had.

    None of tenants with an SLO, which these would call unattainable, nor of those under orders.
    """
    found = {}
    for cgroup, seen in collected.seen.items():
        trust, miss = seen.tenant.trust, recents[cgroup].turnover.miss_ratio
        doubted = trust.is_measured and not trust.trusted
        if doubted and miss is not None and may_stay(objectives.of(cgroup), seen.tenant.policy):
            limit = max(seen.limit_bytes, 2 * PAGE_BYTES)
            known = states[cgroup].limits.measured(limit)
            found[cgroup] = certain_curves(seen.tenant.policy, limit, miss, known)
    return found


def _corrected(curves: Curves, shifts: tuple[tuple[int, float], ...], recent: Recent) -> Curves:
    if not any(shift for _, shift in shifts):
        return curves
    known = recent.corrected
    if known is None or known[0] is not curves or known[1] != shifts:
        known = recent.corrected = curves, shifts, corrected_curves(curves, shifts)
    return known[2]
