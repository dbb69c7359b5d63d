# SPDX-License-Identifier: Apache-2.0
"""Curves of a node, corrected by what was measured, or replaced by what is certain."""

from collections.abc import Mapping

from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.snapshot import Curves
from cachepilot.model.limit_calibration import Shifts, corrected
from cachepilot.node.deciding.tenant_state import Recent, TenantState
from cachepilot.plan.problem.asked import may_stay
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sense.turnover import certain_curves
from cachepilot.sizes import PAGE_BYTES


def calibrated(
    collected: Collected, shifts: Mapping[str, Shifts], recents: Mapping[str, Recent]
) -> dict[str, Curves]:
    """Curves that agree with what the limits of each tenant measured, where it has any.

    What they are corrected by is kept in `recents` while neither curves nor limits change.
    """
    return {
        cgroup: recents[cgroup].corrections.of(seen.tenant.curves, shifts[cgroup])
        for cgroup, seen in collected.seen.items()
        if seen.tenant.curves is not None
    }


def certain(
    collected: Collected,
    objectives: Objectives,
    states: Mapping[str, TenantState],
    recents: Mapping[str, Recent],
) -> dict[str, Curves]:
    """Of tenants whose own curves cannot be trusted and that hit little: see `sense.turnover`.

    Also of those with more than their first memory, whatever they hit: without a curve nobody keeps
    more than that.

    None of tenants with an SLO, which these would call unattainable, nor of those under orders.
    """
    found = {}
    for cgroup, seen in collected.seen.items():
        tenant, first_bytes = seen.tenant, states[cgroup].held_first_bytes
        if tenant.trust.trusted or not may_stay(objectives.of(cgroup), tenant.policy):
            continue
        miss = recents[cgroup].turnover.miss_ratio if tenant.trust.is_measured else None
        if miss is None and seen.limit_bytes >= first_bytes + PAGE_BYTES:
            miss = tenant.indicators.miss_ratio
        if miss is not None:
            limit = max(seen.limit_bytes, 2 * PAGE_BYTES)
            found[cgroup] = certain_curves(tenant.policy, limit, miss)
    return found


def first_misses(
    states: Mapping[str, TenantState], recents: Mapping[str, Recent]
) -> dict[str, float]:
    """The miss ratio of each tenant with its first memory, by cgroup; 0 while it is unknown."""
    return {cgroup: recents[cgroup].at_first.miss_ratio or 0.0 for cgroup in states}


def miss_at(seen: Seen, limit_bytes: int, shifts: Shifts) -> float | None:
    """The miss ratio at a limit by the curve of the policy in force, corrected; None without.

    Where curves cannot be trusted, it is what is certain. See `LimitCalibration.shifts`.
    """
    known = seen.tenant.certain
    if known is not None:
        return float(known.miss_ratio[0, int(limit_bytes >= seen.limit_bytes)])
    told = None if seen.measured is None else seen.measured.miss_at(seen.tenant.policy, limit_bytes)
    return None if told is None else corrected(told, limit_bytes, shifts)
