# SPDX-License-Identifier: Apache-2.0
"""Curves of a node, calibrated by measurements, or replaced by curves that are certain.

A certain curve has no gain above the present limit and no hits below it; see `sense.turnover`. The
first memory of a tenant is the limit that it had when it was first seen.
"""

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
    """The calibrated curves of each tenant with curves, by cgroup.

    They agree with what was measured at the limits that the tenant had. `recents` caches the
    corrected curves until the curves or the errors (`shifts`) change.
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
    """Certain curves of tenants whose own curves have low confidence, by cgroup.

    A tenant gets one if the miss ratio of its page cache is known; see `sense.turnover`. A tenant
    with more than its first memory gets one in any case, with its measured miss ratio if need be,
    because without a curve no tenant keeps more than its first memory.

    Tenants with an SLO get none, because such a curve would make the SLO look unattainable. Tenants
    with a pin that the present setting does not satisfy get none either.
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
    """The miss ratio at a limit by the calibrated curve of the policy in force; None without one.

    A certain curve takes precedence. For `shifts` see `LimitCalibration.shifts`.
    """
    known = seen.tenant.certain
    if known is not None:
        return float(known.miss_ratio[0, int(limit_bytes >= seen.limit_bytes)])
    told = None if seen.measured is None else seen.measured.miss_at(seen.tenant.policy, limit_bytes)
    return None if told is None else corrected(told, limit_bytes, shifts)
