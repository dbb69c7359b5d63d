# SPDX-License-Identifier: Apache-2.0
"""The inputs of one memory decision of a node, and the worth of throughputs and limits.

The worth is measured in the unit of the goal. A tenant without an SLO keeps a share (`keep`) of the
throughput that the kernel's default would give it with its first memory, the limit that it had when
it was first seen.
"""

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

    `model` is the throughput model of the plan, so that a part of the plan is valued in the same
    way as the whole. `short` are tenants that miss an SLO, `fallen` those that missed one in the
    last interval by more than intervals scatter, `busy` those whose limit must not change now,
    `ordered` those whose limit an operator pinned, `restored` those that get their protected memory
    back, and `yielded` those whose limit others set. `shifts` are the errors of each tenant's curve
    at the limits that it had.

    `lacks` returns whether a tenant without an SLO has less than it keeps if it does the given
    operations per second (see `Kept`). `hits` returns the hits of a tenant while its page cache is
    read again once, None while they are unknown. See `MemoryInterval` for the other fields.
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
        """Tenants with an SLO that the plan cannot meet."""
        return frozenset(one.cgroup for one in self.plan.slos if one.is_given_up)

    def throughput(self, seen: Seen) -> TenantThroughput:
        """The throughput model of a tenant, of the same kind as in the plan."""
        return tenant_throughput(seen.tenant, self.collected.snapshot.device, self.model)

    def did_ops(self, seen: Seen) -> float | None:
        """Operations per second from the measured miss ratio of the interval; None if no accesses.

        Device reads are assumed to wait as long as planned.
        """
        pages = seen.pages
        if pages is None or pages.accesses <= 0:
            return None
        miss = min(1.0, pages.misses / pages.accesses)
        return self.throughput(seen).ops(self.plan.device_wait_us, miss)

    @cached_property
    def read_us(self) -> float:
        """The time of a device read in microseconds, with the planned wait."""
        return self.collected.snapshot.device.miss_cost_us + self.plan.device_wait_us

    @cached_property
    def budget_bytes(self) -> int:
        """The memory capacity of the node in bytes."""
        return self.collected.snapshot.node.budget_bytes


class Worth:
    """The worth per second of one tenant's throughputs and limits, in the unit of the goal."""

    def __init__(self, cycle: MemoryCycle, seen: Seen, weight: float) -> None:
        self._goal = cycle.objectives.goal
        self.weight = 1.0 if self._goal is Goal.LEAST_MEMORY else weight
        self._cycle, self._seen = cycle, seen
        self.throughput = cycle.throughput(seen)

    def ops(self, miss_ratio: float) -> float:
        """Operations per second at a miss ratio, with the planned wait of device reads."""
        return self.throughput.ops(self._cycle.plan.device_wait_us, miss_ratio)

    def of(self, ops: float, limit_bytes: int) -> float:
        """The worth of a throughput and a limit.

        For proportional fairness it is the logarithm of the throughput, for total throughput the
        throughput, both times the weight. For least memory it is the limit as a negative part of
        the node's memory.
        """
        if self._goal is Goal.PROPORTIONAL_FAIRNESS:
            return self.weight * math.log(ops if ops > OPS_MIN else OPS_MIN)
        if self._goal is Goal.TOTAL_THROUGHPUT:
            return self.weight * ops
        return -limit_bytes / self._cycle.budget_bytes

    def whole(self, ops: float, limit_bytes: int) -> float:
        """The worth of all of a throughput, or for the goal of least memory of a limit."""
        if self._goal is Goal.LEAST_MEMORY:
            return limit_bytes / self._cycle.budget_bytes
        return self.weight * (ops if self._goal is Goal.TOTAL_THROUGHPUT else 1.0)

    def miss_at(self, limit_bytes: int) -> float:
        """The calibrated miss ratio at a limit under the policy in force.

        Without a curve it is the measured miss ratio.
        """
        miss = miss_at(self._seen, limit_bytes, self._cycle.shifts[self._seen.tenant.cgroup])
        return self._seen.tenant.indicators.miss_ratio if miss is None else miss

    def miss_by(self, then: Action | Setting, now: Setting, limit_bytes: int) -> float:
        """The miss ratio at a limit, as the plan predicted it for the present and planned limits.

        At all other limits it is that of `miss_at`.
        """
        known = {one.limit_bytes: one.miss_ratio for one in (now, then)}
        return known[limit_bytes] if limit_bytes in known else self.miss_at(limit_bytes)

    def sure_at(self, limit_bytes: int) -> Setting:
        """The setting of a limit with a miss ratio one standard error higher than predicted.

        An error bar holds 95%, so half of it is a standard error.
        """
        miss, measured = self.miss_at(limit_bytes), self._seen.measured
        policy = self._seen.tenant.policy
        if measured is not None and self._seen.tenant.certain is None:
            error = measured.error_between(policy, self._seen.limit_bytes, limit_bytes)
            miss = min(1.0, miss + error / 2)
        return Setting(policy, limit_bytes, miss, self.ops(miss))

    def at(self, limit_bytes: int) -> float:
        """The worth of a limit under the policy in force."""
        return self.of(self.ops(self.miss_at(limit_bytes)), limit_bytes)

    def error_at(self, limit_bytes: int) -> float:
        """How much less a limit may be worth: its miss ratio a quarter of an error bar higher.

        The bar is that of the difference between this limit and the present one, because the level
        of the curve is calibrated at the present limit. It holds 95% nominally and 96 to 100% by
        measurement (tests of steps in `models`). A quarter of it is therefore half a standard error
        to one, and two plans in three are worth at least what remains. That is enough: the evidence
        for a plan has to exceed what the plan costs if it is wrong, and what wrong plans have cost
        is added to that. The result is 0 where nothing is uncertain: at the present limit, with a
        curve that is certain, without a curve, and for the goal of least memory.
        """
        measured, here = self._seen.measured, self._seen.limit_bytes
        is_sure = self._seen.tenant.certain is not None or limit_bytes == here
        if measured is None or is_sure or self._goal is Goal.LEAST_MEMORY:
            return 0.0
        off = measured.error_between(self._seen.tenant.policy, here, limit_bytes) / 4
        return self._lost(self.miss_at(limit_bytes), limit_bytes, off)

    def swap_error(self, action: Action) -> float:
        """The same for a plan with another policy, where no measurement calibrates the level.

        Two error bars are combined, as the root of the sum of their squares: that of the difference
        between the two limits under the new policy, and the larger one of the two policies at the
        present limit.
        """
        measured = self._seen.measured
        if measured is None or self._goal is Goal.LEAST_MEMORY:
            return 0.0
        here, policies = action.present.limit_bytes, (action.policy, action.present.policy)
        level = max(measured.error_at(policy, here) for policy in policies)
        step = measured.error_between(action.policy, here, action.limit_bytes)
        return self._lost(action.miss_ratio, action.limit_bytes, math.hypot(level, step) / 4)

    def _lost(self, miss_ratio: float, limit_bytes: int, off: float) -> float:
        """The worth that is lost if the miss ratio is higher than predicted by `off`."""
        told, worse = self.ops(miss_ratio), self.ops(min(1.0, miss_ratio + off))
        return self.of(told, limit_bytes) - self.of(worse, limit_bytes)

    @cached_property
    def _page_s(self) -> float:
        return self._cycle.read_us / US_PER_S / self._seen.tenant.demand.concurrency

    def reread_at(self, limit_bytes: int) -> float:
        """The seconds that the tenant takes to read again the pages that it gives up for a limit.

        If its hits are known, at most so many pages count: a page that would not have been hit
        before its eviction is read from the device with either limit.
        """
        given = max(0, self._seen.limit_bytes - limit_bytes) / PAGE_BYTES
        if not given:
            return 0.0
        hits = self._cycle.hits(self._seen.tenant.cgroup)
        return self._page_s * (given if hits is None else min(given, hits))

    def spare_bytes(self, most_s: float, now_ops: float, kept_ops: float) -> int:
        """The bytes that it can give up and lose at most `most_s` seconds of what it keeps.

        `now_ops` is its present throughput and `kept_ops` the one that it keeps. While it reads the
        pages again, its throughput is at least that without a page cache. The read time of a page
        is lost at the rate at which this throughput is below the present one, or below `kept_ops`
        if that is larger, which yields the duration. Of the duration, the part by which this
        throughput is below `kept_ops` is a loss of what the tenant keeps.
        """
        if most_s < 0:
            return 0
        least_ops, limit = self.ops(1.0), self._seen.limit_bytes
        below, lost = 1 - least_ops / kept_ops, 1 - least_ops / max(now_ops, kept_ops)
        page_s = self._page_s * below / lost if below > 0 else 0.0
        is_all = limit / PAGE_BYTES * page_s <= most_s
        return limit if is_all else int(most_s / page_s) * PAGE_BYTES
