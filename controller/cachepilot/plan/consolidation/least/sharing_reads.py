# SPDX-License-Identifier: Apache-2.0
"""The least memory of tenants together at the present wait of their device.

A tenant with less memory reads more, and the device serves only so many reads. If all tenants had
their least memory at once, reads would wait longer, and tenants would need more memory than they
have for their present throughput. So at the present wait the reads that the device has left go to
the tenants that free most memory per read, as in a fractional knapsack (Dantzig, 1957). The other
tenants keep as many hits as they have.
"""

import numpy as np

from cachepilot.domain.snapshot import FloatArray
from cachepilot.plan.consolidation.least.needs import Needs, Point
from cachepilot.plan.problem.problem import SLO_MARGIN

SLACK = 1e-9
"""How far the capacity may be exceeded, as a share of itself: rounding only."""


def _present_miss(needs: Needs) -> FloatArray:
    """The miss ratio of each tenant with its present limit, (N,).

    It includes the error bar unless `may_stay` says that it does not count for the tenant.
    """
    targets = needs.targets
    with_bars = needs.curves.miss(targets.current_bytes[:, None], targets.present)[:, 0]
    return np.where(targets.may_stay, targets.present_miss, with_bars)


def _shares(freed: FloatArray, added: FloatArray, left: float) -> FloatArray:
    """How many of the reads that each tenant would add, (N,), it gets of those that are left."""
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.where(added > 0, freed / added, np.inf)
    got = np.zeros_like(added)
    for row in np.argsort(-worth, kind="stable").tolist():
        got[row] = min(float(added[row]), left)
        left -= max(float(got[row]), 0.0)
    return got


def at_present_wait(needs: Needs, capacity_iops: float) -> Point | None:
    """Return the needs at the present wait, with the reads within the capacity of the device.

    None if the capacity is not enough.
    """
    targets, model, wait = needs.targets, needs.model, needs.targets.wait_us
    full = needs.at(wait)
    most = capacity_iops * (1 + SLACK)
    if float(full.device_iops.sum()) <= most:
        return full
    present = _present_miss(needs)
    may_keep = full.kept & (present <= needs.allowed_miss(wait))
    gives = may_keep & (full.size_bytes < targets.current_bytes)
    now_iops = np.where(gives, model.device_iops(present, wait), full.device_iops)
    left = most - float(now_iops.sum())
    if left < 0:
        return None
    freed = (targets.current_bytes - full.size_bytes).astype(np.float64)
    got = _shares(np.where(gives, freed, 0.0), full.device_iops - now_iops, left)
    reads = now_iops + got
    slope = model.per_miss + model.per_wait * wait
    miss = reads * model.base / np.maximum(model.scale * model.accesses - reads * slope, 1e-300)
    found = needs.at(wait, np.where(gives, miss * (1 + SLO_MARGIN), np.inf))
    return found if float(found.device_iops.sum()) <= most else None
