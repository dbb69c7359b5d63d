# SPDX-License-Identifier: Apache-2.0
"""What was collected of a node, with curves corrected by what was measured."""

from collections.abc import Mapping
from dataclasses import replace

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
        state, recent = states[cgroup], recents[cgroup]
        one = seen.with_bounds(seen.tenant.floor_bytes, state.held_first_bytes)
        curves, shifts = one.tenant.curves, state.shifts
        if curves is not None and any(shift for _, shift in shifts):
            known = recent.corrected
            if known is None or known[0] is not curves or known[1] != shifts:
                known = curves, shifts, corrected_curves(curves, shifts)
                recent.corrected = known
            one = replace(one, tenant=replace(one.tenant, curves=known[2]))
        found[cgroup] = one
    tenants = tuple(one.tenant for one in found.values())
    return replace(collected, snapshot=replace(collected.snapshot, tenants=tenants), seen=found)
