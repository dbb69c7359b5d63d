# SPDX-License-Identifier: Apache-2.0
"""What was collected of a node, with curves corrected by what was measured."""

from collections.abc import Mapping
from dataclasses import replace

from cachepilot.domain.snapshot import Curves
from cachepilot.model.limit_calibration import corrected_curves
from cachepilot.node.deciding.tenant_state import Recent, TenantState
from cachepilot.sense.collect import Collected


def calibrated(
    collected: Collected, states: Mapping[str, TenantState], recents: Mapping[str, Recent]
) -> Collected:
    """Tenants with their first memory, and curves that agree with what their limits measured.

    Corrected curves are kept in `recents` while neither the curves nor their errors change.
    """
    found = {}
    for cgroup, seen in collected.seen.items():
        state, tenant = states[cgroup], seen.tenant
        curves = tenant.curves
        if curves is not None:
            curves = _corrected(curves, state.shifts, recents[cgroup])
        found[cgroup] = seen.with_bounds(tenant.floor_bytes, state.held_first_bytes, curves)
    tenants = tuple(one.tenant for one in found.values())
    return replace(collected, snapshot=replace(collected.snapshot, tenants=tenants), seen=found)


def _corrected(curves: Curves, shifts: tuple[tuple[int, float], ...], recent: Recent) -> Curves:
    if not any(shift for _, shift in shifts):
        return curves
    known = recent.corrected
    if known is None or known[0] is not curves or known[1] != shifts:
        known = recent.corrected = curves, shifts, corrected_curves(curves, shifts)
    return known[2]
