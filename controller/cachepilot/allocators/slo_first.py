# SPDX-License-Identifier: Apache-2.0
"""SLOs before everything else: what each tenant is assured of, in the order of priorities.

Memory that nobody must have is spent on SLOs, those of the highest priority first and of one
priority the cheapest first, so that as many as possible are kept. What then is left goes to those
that cannot be kept, so that they cost no other tenant an SLO that can.
"""

from dataclasses import dataclass

import numpy as np

from cachepilot.allocators.options import Options
from cachepilot.planner.problem import Problem
from cachepilot.planner.snapshot import BoolArray, FloatArray, IntArray
from cachepilot.sizes import pages_up


@dataclass(frozen=True)
class Assured:
    """The greatest miss ratio and the least limit of each tenant, shape (N,)."""

    miss: FloatArray
    least_bytes: IntArray

    def allows(self, options: Options) -> BoolArray:
        """Which options keep what is assured."""
        enough = options.sizes_bytes >= self.least_bytes[:, None]
        found: BoolArray = options.usable & enough & (options.miss <= self.miss[:, None])
        return found


def sizes_for_slo(problem: Problem) -> IntArray:
    """The least sizes at which SLOs are kept, by the present and by the best other policy, (N, 2).

    Whole pages within the bounds of each tenant.
    """
    first = problem.curves.first_size(problem.slo_miss)
    rows = np.arange(problem.present.size)
    other = np.where(problem.allowed, first, np.inf).min(axis=1, initial=np.inf)
    wanted = np.stack((first[rows, problem.present], other), axis=1)
    low, high = problem.low_bytes[:, None], problem.high_bytes[:, None]
    pages = pages_up(np.ceil(np.minimum(wanted, high)).astype(np.int64))
    found: IntArray = np.clip(pages, low, high)
    return found


def reach_bytes(problem: Problem) -> IntArray:
    """What each tenant could get in time if all others had their least, shape (N,)."""
    others = int(problem.least_bytes.sum()) - problem.least_bytes
    found: IntArray = np.minimum(problem.most_bytes, problem.budget_bytes - others)
    return found


def _is_above(problem: Problem) -> BoolArray:
    """Whose SLO takes more than may be given now, but no more than it could get in time."""
    first = problem.curves.first_size(problem.slo_miss)
    needed = np.where(problem.usable, first, np.inf).min(axis=1, initial=np.inf)
    found: BoolArray = (needed > problem.high_bytes) & (needed <= reach_bytes(problem))
    return found


def assure(problem: Problem, options: Options) -> Assured:
    """What is assured to each tenant; together it fits into the budget."""
    slo_miss = problem.slo_miss
    assured = Assured(np.full(slo_miss.size, np.inf), problem.low_bytes.copy())
    rows = np.flatnonzero(problem.has_slo)
    if rows.size == 0:
        return assured
    meets = options.usable[rows] & (options.miss[rows] <= slo_miss[rows, None])
    far = np.iinfo(np.int64).max
    least = np.where(meets, options.sizes_bytes[rows], far).min(axis=1, initial=far)
    is_above = _is_above(problem)[rows] & (least == far)
    extra = np.where(is_above, problem.high_bytes[rows], least) - problem.low_bytes[rows]
    spare = problem.budget_bytes - int(problem.low_bytes.sum())
    order = np.lexsort((extra, -problem.priority[rows]))
    left_out = []
    for i in order:
        row = rows[i]
        if extra[i] > spare:
            left_out.append(row)
            continue
        spare -= int(extra[i])
        if is_above[i]:
            assured.least_bytes[row] = problem.high_bytes[row]
        else:
            assured.miss[row] = slo_miss[row]
    for row in left_out:
        spare -= _assure_best(assured, options, row, spare)
    return assured


def _assure_best(assured: Assured, options: Options, row: int, spare: int) -> int:
    """Assures a tenant of the least miss ratio that `spare` buys; returns the bytes it takes."""
    low = int(assured.least_bytes[row])
    sizes = options.sizes_bytes[row]
    affordable = options.usable[row] & (sizes <= low + spare)
    best = float(options.miss[row][affordable].min())
    assured.miss[row] = best
    return int(sizes[affordable & (options.miss[row] <= best)].min()) - low
