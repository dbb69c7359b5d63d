# SPDX-License-Identifier: Apache-2.0
"""The allocation problem of one node as arrays: the choices of each tenant and their values.

A tenant without an SLO keeps a share of its first throughput: the throughput predicted with its
first memory, the limit that it had when it was first seen.
"""

import math
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.objectives.objective import Goal
from cachepilot.domain.snapshot import BoolArray, FloatArray, IntArray
from cachepilot.model.throughput import Throughput
from cachepilot.plan.problem.config import Config
from cachepilot.plan.problem.packed_curves import PackedCurves
from cachepilot.plan.problem.step_errors import StepErrors
from cachepilot.sizes import PAGE_BYTES

SLO_MARGIN = 1e-9
"""How far a miss ratio may exceed what an SLO needs, as a share of itself: rounding only."""
OPS_MIN = 1e-9
"""Operations per second; the logarithm of a smaller throughput is taken of this value."""


@dataclass(frozen=True)
class Load:
    """The assumed load of the device.

    `wait_us` is the wait per read in microseconds. `read_price` is what one more read per second
    costs all tenants, in the unit of values.
    """

    wait_us: float = 0.0
    read_price: float = 0.0


@dataclass(frozen=True)
class Allocation:
    """The policy, an index into the tenant's curves, and the limit of every tenant; both (N,).

    `bound` is an upper bound on the value of any allocation; None from allocators that prove none.
    """

    policy: IntArray
    limit_bytes: IntArray
    bound: float | None = None


@dataclass(frozen=True)
class Problem:
    """N tenants that share `budget_bytes`; arrays have shape (N,) unless another is given.

    If the limits that may not change exceed the node's budget, by `over_bytes`, their sum counts as
    the budget.

    A limit must be in [low_bytes, high_bytes]. The bound on movement narrows this range from
    [least_bytes, most_bytes]. A tenant that is not `movable` keeps its limit and its policy. Its
    value follows from its measured miss ratio, that of a movable tenant from its curve:
    `present_miss` is the one or the other. `allowed`, (N, P), marks the policies that a tenant may
    switch to. The present policy is never among them; `stay` says whether the tenant may keep it.
    `given` is the policy under allocators that choose no policies.

    `min_ops` is the least throughput (0 without an SLO) and `max_miss` the greatest miss ratio (1
    without one) that meet the SLOs; `aim_ops` and `aim_miss` are the same with the margins of the
    SLOs. A tenant without an SLO keeps the share `keep` (0: nothing) of its throughput with its
    first memory, `first_bytes`. `first_miss` is the miss ratio there on its curve of the kernel's
    default: what it would have without any controller. For a tenant whose curves have low
    confidence it is the miss ratio that was measured with the first memory, 0 if none was. `errors`
    are the errors of differences on the curve of the present policy.

    The unit of values is that of `worth`: weighted operations per second, or under proportional
    fairness weighted logarithms of them.
    """

    budget_bytes: int
    curves: PackedCurves
    model: Throughput
    allowed: BoolArray
    stay: BoolArray
    present: IntArray
    given: IntArray
    current_bytes: IntArray
    least_bytes: IntArray
    most_bytes: IntArray
    low_bytes: IntArray
    high_bytes: IntArray
    movable: BoolArray
    present_miss: FloatArray
    weight: FloatArray
    priority: IntArray
    min_ops: FloatArray
    max_miss: FloatArray
    aim_ops: FloatArray
    aim_miss: FloatArray
    keep: FloatArray
    first_bytes: IntArray
    first_miss: FloatArray
    errors: StepErrors
    goal: Goal
    config: Config
    widened: bool
    over_bytes: int
    load: Load = Load()

    @property
    def has_slo(self) -> BoolArray:
        """Mark the movable tenants that have an SLO, (N,)."""
        found: BoolArray = self.movable & ((self.min_ops > 0) | (self.max_miss < 1))
        return found

    @property
    def has_margin(self) -> BoolArray:
        """Mark the tenants for which a plan aims above the SLO by a margin, (N,)."""
        found: BoolArray = (self.aim_ops > self.min_ops) | (self.aim_miss < self.max_miss)
        return found

    @property
    def is_fair(self) -> bool:
        """Whether the value of a throughput is its logarithm (proportional fairness)."""
        return self.goal is Goal.PROPORTIONAL_FAIRNESS

    @property
    def is_kept(self) -> BoolArray:
        """Mark the movable tenants without an SLO that keep a share of their first throughput."""
        found: BoolArray = self.movable & (self.keep > 0) & ~self.has_slo
        return found

    def kept_miss(self, part: float = 1.0) -> FloatArray:
        """The greatest miss ratio at which a tenant has `part` of its keep, under the load, (N,).

        inf for a tenant that keeps nothing. The kept throughput and the first throughput assume the
        same load of the device. Thus what other tenants do to the device does not count against a
        tenant's keep; only its own misses do.
        """
        share = np.where(self.is_kept, self.keep * part, 0.0)
        slope = self.model.per_miss + self.model.per_wait * self.load.wait_us
        with np.errstate(divide="ignore", over="ignore"):
            found = (self.model.base / slope + self.first_miss) / share - self.model.base / slope
        return found + SLO_MARGIN * np.where(np.isfinite(found), found, 0.0)

    def step_error(self, sizes_bytes: IntArray) -> FloatArray:
        """How much higher than predicted each tenant's miss ratio may be at smaller limits, (N, K).

        It is the error of the difference between the size and the present limit, because the level
        of the curve is calibrated at that limit. 0 at and above the present limit.
        """
        cells, here = (self.curves.cells(one) for one in (sizes_bytes, self.current_bytes[:, None]))
        below = sizes_bytes < self.current_bytes[:, None]
        return np.where(below, self.errors.between(cells, here), 0.0)

    @property
    def usable(self) -> BoolArray:
        """Mark the policies that each tenant may have from now on, shape (N, P)."""
        found = self.allowed.copy()
        found[np.arange(self.present.size), self.present] = self.stay
        return found

    def slo_miss(self, part: float = 0.0) -> FloatArray:
        """The greatest miss ratio that meets the SLOs under the load, (N,); inf without an SLO.

        `part` is the share of the margin above the SLOs that must be met, too; 1 is all of it.
        Negative if a tenant would miss its SLOs even without a single miss.
        """
        model = self.model
        slope = model.per_miss + model.per_wait * self.load.wait_us
        min_ops = self.min_ops + part * (self.aim_ops - self.min_ops)
        max_miss = self.max_miss + part * (self.aim_miss - self.max_miss)
        with np.errstate(divide="ignore"):
            by_ops = (model.scale / min_ops - model.base) / slope
        found = np.minimum(by_ops, np.where(self.max_miss < 1, max_miss, np.inf))
        return found + SLO_MARGIN * np.abs(np.where(np.isfinite(found), found, 0.0))

    def under(self, load: Load) -> "Problem":
        """Return the same problem under another load of the device."""
        # The planner calls this several times per plan; `replace` would set each field on its own.
        found = object.__new__(Problem)
        vars(found).update(vars(self), load=load)
        return found

    def miss(self, allocation: Allocation) -> FloatArray:
        """Predict the miss ratio of every tenant, (N,).

        For a tenant that is not movable it is the measured one.
        """
        if allocation.policy is self.present and allocation.limit_bytes is self.current_bytes:
            return self.present_miss
        found = self.curves.miss(allocation.limit_bytes[:, None], allocation.policy)[:, 0]
        return np.where(self.movable, found, self.present_miss)

    def unchanged(self) -> Allocation:
        """Return the allocation that changes nothing."""
        return Allocation(self.present, self.current_bytes)

    def worth(self, ops: FloatArray) -> FloatArray:
        """The value of throughputs of shape (N,) or (N, K), before any cost."""
        weight = self.weight if ops.ndim == 1 else self.weight[:, None]
        found: FloatArray = weight * (np.log(np.maximum(ops, OPS_MIN)) if self.is_fair else ops)
        return found

    def whole(self, wait_us: float) -> FloatArray:
        """The value of all of a tenant's present throughput, (N,); costs are shares of it.

        Under proportional fairness it is the weight, since a small relative change of a throughput
        changes its logarithm by the same amount.
        """
        if self.is_fair:
            return self.weight
        found: FloatArray = self.weight * self.model.ops(self.present_miss, wait_us)
        return found

    def in_ops(self, value: float) -> float:
        """Convert a sum of values to operations per second.

        For a sum of logarithms this is the weighted geometric mean.
        """
        total = float(self.weight.sum())
        return math.exp(value / total) if self.is_fair and total > 0 else value

    def cost(self, limit_bytes: IntArray, switched: BoolArray) -> FloatArray:
        """The cost of a change to limits of shape (N, K), in the unit of values.

        `switched`, which broadcasts to that shape, marks changes of policy.
        """
        worth = self.whole(self.load.wait_us)
        current = self.current_bytes[:, None]
        moved = np.minimum(np.abs(limit_bytes - current) / np.maximum(current, PAGE_BYTES), 1.0)
        share = self.config.switch_cost * switched + self.config.move_cost * moved
        cost: FloatArray = worth[:, None] * share
        return cost

    def valued(self, allocation: Allocation, miss: FloatArray | None = None) -> tuple[float, Load]:
        """Return the value of an allocation, and the load of the device that results from it.

        The value is the sum of `worth` minus the costs of change, both under that load. `miss` are
        the miss ratios of the allocation, if the caller has them already.
        """
        miss = self.miss(allocation) if miss is None else miss
        wait = self.model.wait_us(miss)
        ops = self.model.ops(miss, wait)
        per_op = self.weight / np.maximum(ops, OPS_MIN) if self.is_fair else self.weight
        load = Load(wait, self.model.read_price(miss, wait, per_op))
        switched = allocation.policy != self.present
        cost = self.under(load).cost(allocation.limit_bytes[:, None], switched[:, None])
        return float((self.worth(ops) - cost[:, 0]).sum()), load
