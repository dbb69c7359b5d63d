# SPDX-License-Identifier: Apache-2.0
"""Curves for predictions that must hold: do not rely on a correction below the present limit.

A measurement at one limit corrects a curve at all of its sizes
(`cachepilot.model.limit_calibration`). But if a curve falls steeply between two sizes, an error
there does not apply elsewhere. For example, a loop misses nothing if it just fits, and everything
with less. Below a tenant's present limit the worse of the agent's curve and the corrected one
counts.
"""

from dataclasses import replace

import numpy as np

from cachepilot.domain.snapshot import Curves, Snapshot, Tenant
from cachepilot.sense.collect import Collected
from cachepilot.sense.curves.wire_curves import Measured


def sure_snapshot(collected: Collected) -> Snapshot:
    """Return the collected snapshot of a node, with curves that are safe for moving tenants."""
    tenants = tuple(
        _sure(one, collected.seen[one.cgroup].measured) for one in collected.snapshot.tenants
    )
    return replace(collected.snapshot, tenants=tenants)


def _sure(tenant: Tenant, measured: Measured | None) -> Tenant:
    curves = tenant.curves
    if curves is None or measured is None or measured.curves is curves:
        return tenant
    told = measured.curves
    if told.policies != curves.policies:
        return tenant
    known = np.concatenate(([0], told.sizes_bytes))
    rows = [
        np.interp(curves.sizes_bytes, known, np.concatenate(([1.0], row)))
        for row in told.miss_ratio
    ]
    is_below = curves.sizes_bytes < tenant.limit_bytes
    worse = np.where(is_below, np.maximum(rows, curves.miss_ratio), curves.miss_ratio)
    sure = Curves(curves.policies, curves.sizes_bytes, worse, curves.error_bar, curves.step_bar)
    return replace(tenant, curves=sure)
