# SPDX-License-Identifier: Apache-2.0
"""One cycle of the memory of a node, and what throughputs are worth in it."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from cachepilot.domain.objectives.objective import Goal, Objectives
from cachepilot.domain.planned import Action, Plan, Setting
from cachepilot.domain.units import US_PER_S
from cachepilot.model.limit_calibration import Shifts
from cachepilot.model.throughput import ModelKind, TenantThroughput, tenant_throughput
from cachepilot.node.deciding.calibrated import miss_at
from cachepilot.node.deciding.tenant_state import TenantState
from cachepilot.plan.problem.problem import OPS_MIN
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sizes import PAGE_BYTES


@dataclass(frozen=True)
class MemoryCycle:
    """One cycle of a node. `collected` has calibrated curves, `objectives` are those of the plan.

    `model` is that of the plan, so that parts of it are worth what the plan says of the whole.
    `short` are tenants that miss an SLO, `fallen` those that missed one in the last interval by
    more than intervals scatter, `busy` those whose limit must not change now, `ordered` those
    whose limit an operator pinned, `restored` those that get back what is protected, `yielded`
    those whose limit others set, `shifts` by how much curves are off at limits that each had.
    Of a tenant `lacks` tells whether it lacks, with so many operations per second, what it keeps
    without an SLO (see `Kept`), and `hits` what its page cache hits while it is read again once,
    None while that is not known. See `MemoryInterval` for the rest.
    """

    collected: Collected
    plan: Plan
    objectives: Objectives
    model: ModelKind
    states: Mapping[str, TenantState]
    shifts: Mapping[str, Shifts]
    elapsed_s: float
    step_bytes: int
    short: Collection[str]
    busy: Collection[str]
    ordered: Collection[str]
    away: frozenset[str]
    may_begin: bool
    is_gap: bool
    restored: Collection[str] = ()
    yielded: Collection[str] = ()
    fallen: Collection[str] = ()
    lacks: Callable[[str, float], bool] = lambda *_: False
    hits: Callable[[str], int | None] = lambda _: None

    @cached_property
    def left_out(self) -> frozenset[str]:
        """Tenants with an SLO that the plan cannot keep."""
        return frozenset(one.cgroup for one in self.plan.slos if one.is_given_up)

    def throughput(self, seen: Seen) -> TenantThroughput:
        """The model of a tenant, which is that of the plan."""
        return tenant_throughput(seen.tenant, self.collected.snapshot.device, self.model)

    def did_ops(self, seen: Seen) -> float | None:
        """Operations per second by what a tenant missed in the interval; None without accesses.

        A read of the device waits as planned.
        """
        pages = seen.pages
        if pages is None or pages.accesses <= 0:
            return None
        miss = min(1.0, pages.misses / pages.accesses)
        return self.throughput(seen).ops(self.plan.device_wait_us, miss)

    @cached_property
    def read_us(self) -> float:
        """What a read of the device takes as planned."""
        return self.collected.snapshot.device.miss_cost_us + self.plan.device_wait_us

    @cached_property
    def budget_bytes(self) -> int:
        """Of the node."""
        return self.collected.snapshot.node.budget_bytes


class Worth:
    """What throughputs of one tenant are worth, per second, in the unit of the goal."""

    def __init__(self, cycle: MemoryCycle, seen: Seen, weight: float) -> None:
        self._goal = cycle.objectives.goal
        self.weight = 1.0 if self._goal is Goal.LEAST_MEMORY else weight
        self._cycle, self._seen = cycle, seen
        self.throughput = cycle.throughput(seen)

    def ops(self, miss_ratio: float) -> float:
        """Operations per second at a miss ratio, while reads wait as planned."""
        return self.throughput.ops(self._cycle.plan.device_wait_us, miss_ratio)

    def of(self, ops: float, limit_bytes: int) -> float:
        """What a throughput and a limit are worth."""
        if self._goal is Goal.PROPORTIONAL_FAIRNESS:
            return self.weight * math.log(ops if ops > OPS_MIN else OPS_MIN)
        if self._goal is Goal.TOTAL_THROUGHPUT:
            return self.weight * ops
        return -limit_bytes / self._cycle.budget_bytes

    def whole(self, ops: float, limit_bytes: int) -> float:
        """What all of a throughput, or of a limit, counts for."""
        if self._goal is Goal.LEAST_MEMORY:
            return limit_bytes / self._cycle.budget_bytes
        return self.weight * (ops if self._goal is Goal.TOTAL_THROUGHPUT else 1.0)

    def miss_at(self, limit_bytes: int) -> float:
        """The miss ratio at a limit under the policy in force."""
        miss = miss_at(self._seen, limit_bytes, self._cycle.shifts[self._seen.tenant.cgroup])
        return self._seen.tenant.indicators.miss_ratio if miss is None else miss

    def miss_by(self, then: Action | Setting, now: Setting, limit_bytes: int) -> float:
        """The same, but of limits of the plan and of now as they were predicted for it."""
        known = {one.limit_bytes: one.miss_ratio for one in (now, then)}
        return known[limit_bytes] if limit_bytes in known else self.miss_at(limit_bytes)

    def sure_at(self, limit_bytes: int) -> Setting:
        """With a miss ratio a standard error higher than told; error bars hold 95%."""
        miss, measured = self.miss_at(limit_bytes), self._seen.measured
        policy = self._seen.tenant.policy
        if measured is not None and self._seen.tenant.certain is None:
            error = measured.error_between(policy, self._seen.limit_bytes, limit_bytes)
            miss = min(1.0, miss + error / 2)
        return Setting(policy, limit_bytes, miss, self.ops(miss))

    def at(self, limit_bytes: int) -> float:
        """What a limit is worth under the policy in force."""
        return self.of(self.ops(self.miss_at(limit_bytes)), limit_bytes)

    def error_at(self, limit_bytes: int) -> float:
        """By how much less a limit may be worth: a miss ratio a quarter of an error bar higher.

        The bar is that of the difference between the two limits, since the level of the curve is
        calibrated at the present one. It holds 95% nominally and 96 to 100% by measurement (tests
        of steps in `models`), so that a quarter of it is half a standard error to one: two plans in
        three are worth as much at least. That is enough, since what a plan that is not may cost is
        what its evidence has to exceed, and what such plans cost is added to that.
        """
        measured, here = self._seen.measured, self._seen.limit_bytes
        is_sure = self._seen.tenant.certain is not None or limit_bytes == here
        if measured is None or is_sure or self._goal is Goal.LEAST_MEMORY:
            return 0.0
        off = measured.error_between(self._seen.tenant.policy, here, limit_bytes) / 4
        return self._lost(self.miss_at(limit_bytes), limit_bytes, off)

    def swap_error(self, action: Action) -> float:
        """The same of a plan with another policy, whose level nothing calibrates.

        The bar is that of the difference between the limits, and the greater one of the levels of
        both policies at the present limit.
        """
        measured = self._seen.measured
        if measured is None or self._goal is Goal.LEAST_MEMORY:
            return 0.0
        here, policies = action.present.limit_bytes, (action.policy, action.present.policy)
        level = max(measured.error_at(policy, here) for policy in policies)
        step = measured.error_between(action.policy, here, action.limit_bytes)
        return self._lost(action.miss_ratio, action.limit_bytes, math.hypot(level, step) / 4)

    def _lost(self, miss_ratio: float, limit_bytes: int, off: float) -> float:
        """What a miss ratio that is higher by so much than planned costs."""
        told, worse = self.ops(miss_ratio), self.ops(min(1.0, miss_ratio + off))
        return self.of(told, limit_bytes) - self.of(worse, limit_bytes)

    @cached_property
    def _page_s(self) -> float:
        return self._cycle.read_us / US_PER_S / self._seen.tenant.demand.concurrency

    def reread_at(self, limit_bytes: int) -> float:
        """The time that the tenant takes to read again what it gives up.

        Pages that are not hit before they go are read as often without it.
        """
        given = max(0, self._seen.limit_bytes - limit_bytes) / PAGE_BYTES
        if not given:
            return 0.0
        hits = self._cycle.hits(self._seen.tenant.cgroup)
        return self._page_s * (given if hits is None else min(given, hits))

    def spare_bytes(self, most_s: float, now_ops: float, kept_ops: float) -> int:
        """What it can give up, and by reading that again lose at most `most_s` of what it keeps.

        While it reads that it does no less than without a page cache. By as much as that is below
        what it does now it loses time, and by as much as it is below what it keeps, of that.
        """
        if most_s < 0:
            return 0
        least_ops, limit = self.ops(1.0), self._seen.limit_bytes
        below, lost = 1 - least_ops / kept_ops, 1 - least_ops / max(now_ops, kept_ops)
        page_s = self._page_s * below / lost if below > 0 else 0.0
        is_all = limit / PAGE_BYTES * page_s <= most_s
        return limit if is_all else int(most_s / page_s) * PAGE_BYTES
