# SPDX-License-Identifier: Apache-2.0
"""The least memory of tenants together at the present wait of their device.

Whoever has less memory reads more, and the device serves no more reads than it can. If all have
their least at once, reads wait longer, and tenants would need more memory than they have for what
they do now. So at the present wait the reads that are left go to those who free most memory for
each, as in a fractional knapsack (Dantzig, 1957); the others keep as many hits as they have.
"""

import numpy as np

from cachepilot.domain.snapshot import FloatArray
from cachepilot.plan.consolidation.least.needs import Needs, Point
from cachepilot.plan.problem.problem import SLO_MARGIN

SLACK = 1e-9
"""By how much of itself the capacity may be exceeded: rounding, no more."""


def _present_miss(needs: Needs) -> FloatArray:
    """What each tenant misses with what it has, (N,): with error bars where those count for it."""
    targets = needs.targets
    with_bars = needs.curves.miss(targets.current_bytes[:, None], targets.present)[:, 0]
    return np.where(targets.may_stay, targets.present_miss, with_bars)


def _shares(freed: FloatArray, added: FloatArray, left: float) -> FloatArray:
    """How much of the reads that each would add, (N,), it gets of those that are left."""
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = np.where(added > 0, freed / added, np.inf)
    got = np.zeros_like(added)
    for row in np.argsort(-worth, kind="stable").tolist():
        got[row] = min(float(added[row]), left)
        left -= max(float(got[row]), 0.0)
    return got


def at_present_wait(needs: Needs, capacity_iops: float) -> Point | None:
    """What is needed at the present wait if the reads are within the capacity; None if not so."""
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
