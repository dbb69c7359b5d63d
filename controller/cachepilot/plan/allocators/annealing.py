# SPDX-License-Identifier: Apache-2.0
"""`annealing`: memory by simulated annealing, after HOLPACA (ICPE '26), for comparison.

HOLPACA's algorithm for performance moves memory from one random tenant to another. The limit of
each tenant stays within a share of the whole from its present limit. Its algorithm for guarantees
adds that a tenant below its SLO gives nothing away. Policies stay, unless pinned. A worse
allocation is accepted with the probability of Metropolis et al. (1953), less often as the
temperature falls. The result is the best allocation seen.
"""

import math
from dataclasses import replace

import numpy as np

from cachepilot.domain.snapshot import IntArray
from cachepilot.plan.allocators.slo_first import with_kept
from cachepilot.plan.allocators.water_filling import water_fill
from cachepilot.plan.problem.problem import OPS_MIN, Allocation, Problem
from cachepilot.sizes import PAGE_BYTES, pages_down

STEPS = 4000
HOT, COLD = 1e-2, 1e-6
"""First and last temperature: the loss that a step may typically cause.

A share of all throughput, or under proportional fairness of the geometric mean.
"""


def _guarded(problem: Problem) -> Problem:
    """Raise the least limits so that no tenant below its SLO gives memory away, if that fits."""
    miss = problem.miss(Allocation(problem.given, problem.current_bytes))
    short = problem.has_slo & (miss > problem.slo_miss())
    low = np.where(short, np.maximum(problem.low_bytes, problem.current_bytes), problem.low_bytes)
    low = np.minimum(low, problem.high_bytes)
    fits = int(low.sum()) <= problem.budget_bytes
    return replace(problem, low_bytes=low) if fits else problem


class _Worth:
    """The worth of single tenants minus the costs of change, at the present load."""

    def __init__(self, problem: Problem) -> None:
        model, load = problem.model, problem.load
        rows = np.arange(problem.present.size)
        self.sizes = problem.curves.sizes_bytes
        self.curve = problem.curves.miss_ratio[rows, problem.given]
        self.is_fair = problem.is_fair
        self.weight = problem.weight.tolist()
        self.scale = model.scale.tolist()
        self.base = model.base.tolist()
        self.slope = (model.per_miss + model.per_wait * load.wait_us).tolist()
        # The cost is linear from the present limit up to twice that, and down to zero.
        stays = np.zeros((problem.present.size, 1), dtype=np.bool_)
        double = 2 * np.maximum(problem.current_bytes, PAGE_BYTES)
        self.full_cost = problem.cost(double[:, None], stays)[:, 0].tolist()
        self.current = problem.current_bytes.tolist()

    def of(self, row: int, limit_bytes: int) -> float:
        """The worth of a tenant at a limit."""
        miss = float(np.interp(limit_bytes, self.sizes[row], self.curve[row]))
        current = self.current[row]
        moved = min(1.0, abs(limit_bytes - current) / max(current, PAGE_BYTES))
        ops = self.scale[row] / (self.base[row] + self.slope[row] * miss)
        worth = math.log(max(ops, OPS_MIN)) if self.is_fair else ops
        return float(self.weight[row] * worth - self.full_cost[row] * moved)


def _start(problem: Problem) -> IntArray:
    """The present limits, scaled to the whole budget within the bounds."""
    share = np.maximum(problem.current_bytes, PAGE_BYTES).astype(np.float64)
    return water_fill(share, problem.low_bytes, problem.high_bytes, problem.budget_bytes)


def allocate(problem: Problem, random: np.random.Generator) -> Allocation:
    """Return the best allocation seen; it is at least as good as the one at the start."""
    here = Allocation(problem.given, problem.current_bytes)
    load = problem.valued(here)[1] if problem.given.size else problem.load
    problem = with_kept(_guarded(problem.under(load)))
    limits = _start(problem).tolist()
    rows = np.flatnonzero(problem.movable)
    if rows.size < 2:
        return Allocation(problem.given, np.array(limits, dtype=np.int64))
    low, high = problem.low_bytes.tolist(), problem.high_bytes.tolist()
    worth = _Worth(problem)
    now = [worth.of(row, limit) for row, limit in enumerate(limits)]
    gain, best_gain, best = 0.0, 0.0, list(limits)
    # Logarithms are relative to each tenant's own throughput, so the unit is the sum of weights.
    whole = float(problem.weight.sum()) if problem.is_fair else abs(math.fsum(now))
    unit = max(whole, 1e-12)
    draws = random.random((STEPS, 4))
    for step, (a, b, amount, luck) in enumerate(draws.tolist()):
        giver = int(rows[int(a * rows.size)])
        taker = int(rows[int(b * rows.size)])
        most = min(limits[giver] - low[giver], high[taker] - limits[taker])
        given = pages_down(int(amount * most))
        if giver == taker or given <= 0:
            continue
        less, more = limits[giver] - given, limits[taker] + given
        new_giver, new_taker = worth.of(giver, less), worth.of(taker, more)
        change = new_giver + new_taker - now[giver] - now[taker]
        temperature = unit * HOT * (COLD / HOT) ** (step / STEPS)
        if change < 0 and luck >= math.exp(change / temperature):
            continue
        limits[giver], limits[taker] = less, more
        now[giver], now[taker] = new_giver, new_taker
        gain += change
        if gain > best_gain:
            best_gain, best = gain, list(limits)
    return Allocation(problem.given, np.array(best, dtype=np.int64))
