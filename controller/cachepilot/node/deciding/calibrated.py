# SPDX-License-Identifier: Apache-2.0
"""Curves of a node, corrected by what was measured."""

from collections.abc import Mapping

from cachepilot.domain.snapshot import Curves
from cachepilot.model.limit_calibration import corrected_curves
from cachepilot.node.deciding.tenant_state import Recent, TenantState
from cachepilot.sense.collect import Collected


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


def _corrected(curves: Curves, shifts: tuple[tuple[int, float], ...], recent: Recent) -> Curves:
    if not any(shift for _, shift in shifts):
        return curves
    known = recent.corrected
    if known is None or known[0] is not curves or known[1] != shifts:
        known = recent.corrected = curves, shifts, corrected_curves(curves, shifts)
    return known[2]
