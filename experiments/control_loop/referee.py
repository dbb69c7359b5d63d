# SPDX-License-Identifier: Apache-2.0
"""The referee: the allocation problem as a mixed-integer linear program, solved by HiGHS.

It is written independently from the definition of the problem, one tenant and one size at a time,
and uses none of the planner's arrays, envelopes or searches. It covers devices that keep up, no
SLOs, and weights of 1.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from cachepilot.domain.objectives.objective import Goal, Objectives
from cachepilot.domain.snapshot import Curves, FloatArray, IntArray, Snapshot, Tenant
from cachepilot.plan.problem.config import Config
from cachepilot.sizes import PAGE_BYTES

SECONDS_MAX = 60.0
REL_GAP = 1e-6


@dataclass(frozen=True)
class Verdict:
    """The optimum found (`value`) and its upper bound, in operations per second.

    It is the sum of throughputs, or their geometric mean for proportional fairness.
    """

    value: float
    bound: float


def _ops(tenant: Tenant, miss_ratio: float, miss_cost_us: float) -> float:
    demand = tenant.demand
    time_us = demand.service_us + demand.accesses_per_op * miss_ratio * miss_cost_us
    return 1e6 * demand.concurrency / time_us


def _curves(tenant: Tenant) -> Curves:
    assert tenant.curves is not None
    return tenant.curves


def _miss_ratio(tenant: Tenant, policy: int, size_bytes: float) -> float:
    curves = _curves(tenant)
    sizes = np.concatenate(([0], curves.sizes_bytes))
    ratios = np.concatenate(([1.0], curves.miss_ratio[policy]))
    return float(np.interp(size_bytes, sizes, ratios))


def _sizes(tenant: Tenant, low: int, high: int, steps: int) -> IntArray:
    """Return whole pages from `low` to `high`: `steps` even sizes and every point of the curves."""
    even = np.linspace(low, high, steps + 1).astype(np.int64) // PAGE_BYTES * PAGE_BYTES
    points = _curves(tenant).sizes_bytes
    inside = points[(points >= low) & (points <= high)]
    return np.unique(np.concatenate((np.maximum(even, low), inside, [low, high])))


def _worth(
    tenant: Tenant, size_bytes: int, config: Config, miss_cost_us: float, objectives: Objectives
) -> float:
    """Return the best worth of any policy at a size, minus the costs of change.

    A policy is allowed if it keeps the stated share of the throughput at the first memory. The
    result is -inf if no policy is allowed.
    """
    is_fair = objectives.goal is Goal.PROPORTIONAL_FAIRNESS
    present = _curves(tenant).policies.index(tenant.policy)
    first = _ops(tenant, _miss_ratio(tenant, present, tenant.first_bytes), miss_cost_us)
    least = objectives.of(tenant.cgroup).keep * first if tenant.first_bytes else 0.0
    now = _ops(tenant, _miss_ratio(tenant, present, tenant.limit_bytes), miss_cost_us)
    moved = min(1.0, abs(size_bytes - tenant.limit_bytes) / tenant.limit_bytes)
    worth = [-math.inf]
    for policy in range(len(_curves(tenant).policies)):
        ops = _ops(tenant, _miss_ratio(tenant, policy, size_bytes), miss_cost_us)
        share = config.move_cost * moved + (config.switch_cost if policy != present else 0.0)
        if ops >= least:
            worth.append(math.log(ops) - share if is_fair else ops - now * share)
    return max(worth)


def _maximum(weights: Sequence[IntArray], worths: Sequence[FloatArray], budget: int) -> Verdict:
    """Choose one size per tenant within the budget.

    Each tenant has binary variables that sum to one.
    """
    counts = [one.size for one in weights]
    total = sum(counts)
    owner = np.repeat(np.arange(len(counts)), counts)
    one_each = csr_array((np.ones(total), (owner, np.arange(total))), shape=(len(counts), total))
    memory = np.concatenate(weights)[None, :] / budget
    found = milp(
        -np.concatenate(worths),
        integrality=np.ones(total),
        bounds=Bounds(0, 1),
        constraints=[
            LinearConstraint(one_each, 1, 1),
            LinearConstraint(memory, -np.inf, 1.0),
        ],
        options={"time_limit": SECONDS_MAX, "mip_rel_gap": REL_GAP},
    )
    if found.x is None:
        raise RuntimeError(f"the reference solver found no solution: {found.message}")
    return Verdict(-float(found.fun), -float(found.mip_dual_bound))


def optimum(snapshot: Snapshot, objectives: Objectives, config: Config, steps: int) -> Verdict:
    """Return the optimum over all policies, `steps` even sizes and the points of the curves."""
    budget = snapshot.node.budget_bytes
    movement = int(config.movement_share * budget)
    weights, worths = [], []
    for tenant in snapshot.tenants:
        low = max(tenant.floor_bytes, tenant.limit_bytes - movement)
        high = min(budget, tenant.limit_bytes + movement)
        sizes = _sizes(tenant, low, high, steps)
        sizes = np.unique(np.append(sizes, tenant.limit_bytes))
        cost_us = snapshot.device.miss_cost_us
        worth = [_worth(tenant, int(size), config, cost_us, objectives) for size in sizes]
        may_be = np.isfinite(worth)
        weights.append(sizes[may_be])
        worths.append(np.array(worth)[may_be])
    found = _maximum(weights, worths, budget)
    if objectives.goal is not Goal.PROPORTIONAL_FAIRNESS:
        return found
    count = len(snapshot.tenants)
    return Verdict(math.exp(found.value / count), math.exp(found.bound / count))
