# SPDX-License-Identifier: Apache-2.0
"""One interval of a node, as the decider for memory is given it: its tenants and their plan.

A tenant without an SLO keeps a share (`keep`) of the throughput that the kernel's default would
give it with its first memory, the limit it had when it was first seen.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from cachepilot.domain.decisions import Reading
from cachepilot.quick_records import quickly_made
from cachepilot.sizes import PAGE_BYTES

STEP_SHARE_MIN = 0.005
"""Share of a limit: smaller changes are not made."""


@quickly_made
@dataclass(frozen=True, slots=True)
class MemoryTenant:
    """One tenant in one interval.

    `planned_bytes` is its limit in the plan. Worths are in the unit of the goal per second of this
    tenant. `worth_now` and `worth_planned` are those of the present and the planned setting,
    `worth_at` that of a limit by the calibrated curve, and `worth_measured` that of the measurement
    (None if the tenant did nothing). `whole` is the worth of all of its throughput. `error_at` is
    how much less a limit may be worth if the curve is wrong. All of these contain the factor
    `weight`.

    `reread_at` is the time to read again what the tenant gives for a limit, should that be wrong.
    It can give `spare_bytes` within its budget.
    `reached` and `reached_planned` are the parts of its SLO that are predicted to be reached now
    and by the plan, at most 1. `aimed` and `aimed_planned` are the same for the SLO with the margin
    above it. `is_short` says that the tenant measurably misses its SLO, `is_left_out` that the plan
    cannot meet it. For a tenant without an SLO, `below` and `below_planned` are the parts of what
    it keeps that it is predicted to lack.

    `lacks_at` is the part that a limit leaves missing of the SLO with its margin, or of what the
    tenant keeps, under the policy in force and the planned load, if the curve is wrong by a
    standard error. For any load, `miss_at` is the miss ratio of a limit, `ops_at` the throughput at
    a wait per device read and a miss ratio, and `worth_of` the worth of a throughput and a limit.

    `is_free` says that the limit may be changed now, `stays` that it is not the decider's to
    change, and `is_set_elsewhere` that an operator pinned it or others set it. `needs` says that
    the tenant has less than its first memory, `first_bytes`, and measurably lacks its SLO or keep
    by more than intervals scatter.

    `is_filling` says that the page cache has not yet filled its limit, and `is_settling` that it
    turns over after a change of policy. `is_doubted` says that the curves have low confidence and
    limits cannot be compared, `is_certain` that only the hits at the present limit are certain.
    `undone` is the epoch of a change that the node rolled back by itself. `swaps` says that the
    policy changes with the limit, which only happens in recommendations.
    """

    cgroup_id: int
    policy: str
    limit_bytes: int
    planned_bytes: int
    worth_now: float
    worth_planned: float
    worth_measured: float | None
    worth_at: Callable[[int], float]
    whole: float
    measured: Reading
    predicted: Reading
    miss_at: Callable[[int], float]
    ops_at: Callable[[float, float], float]
    worth_of: Callable[[float, int], float]
    lacks_at: Callable[[int], float]
    error_at: Callable[[int], float]
    reread_at: Callable[[int], float]
    spare_bytes: int
    weight: float = 1.0
    priority: int = 0
    has_slo: bool = False
    reached: float = 1.0
    reached_planned: float = 1.0
    aimed: float = 1.0
    aimed_planned: float = 1.0
    is_short: bool = False
    is_left_out: bool = False
    below: float = 0.0
    below_planned: float = 0.0
    is_free: bool = True
    stays: bool = False
    is_set_elsewhere: bool = False
    needs: bool = False
    first_bytes: int = 0
    is_filling: bool = False
    is_settling: bool = False
    is_doubted: bool = False
    is_certain: bool = False
    undone: int | None = None
    swaps: bool = False

    def planned_at(self, limit_bytes: int, wait_us: float) -> "MemoryTenant":
        """The same tenant with another planned limit, where a device read waits `wait_us`."""
        miss = self.miss_at(limit_bytes)
        ops = self.ops_at(wait_us, miss)
        return replace(
            self,
            planned_bytes=limit_bytes,
            worth_planned=self.worth_of(ops, limit_bytes),
            predicted=Reading(ops, miss),
        )

    def swapped(self, error: float, reread_s: float) -> "MemoryTenant":
        """The same tenant if the policy changes with the limit, with the error and cost of both."""
        return replace(self, swaps=True, error_at=lambda _: error, reread_at=lambda _: reread_s)

    @property
    def lacks(self) -> bool:
        """Whether it lacks a part of its SLO, of the margin above it, or of what it keeps."""
        return self.needs or self.is_short or self.aimed < 1 or self.below > 0

    @property
    def grows(self) -> bool:
        """Whether the plan gives it memory."""
        return self.planned_bytes > self.limit_bytes

    @property
    def error(self) -> float:
        """How much less the planned limit may be worth if the curve is wrong."""
        return self.error_at(self.planned_bytes)

    @property
    def reread_s(self) -> float:
        """The time to read again what the tenant gives by the plan, should that be wrong."""
        return self.reread_at(self.planned_bytes)

    @property
    def moved_bytes(self) -> int:
        """The amount by which the plan changes its limit."""
        return abs(self.planned_bytes - self.limit_bytes)

    @property
    def step_bytes(self) -> float:
        """The least change of its limit that is worth making."""
        return max(PAGE_BYTES, STEP_SHARE_MIN * self.limit_bytes)

    @property
    def is_step(self) -> bool:
        """Whether the plan changes its limit by a worthwhile step, or its policy with it."""
        return self.swaps or self.moved_bytes >= self.step_bytes


@dataclass(frozen=True)
class MemoryInterval:
    """All tenants of a node in one interval.

    Worths are in the unit of `goal`. `away` are tenants that are missing from the snapshot and may
    come back. No limit changes by more than `step_bytes` at once, except that `free_bytes`, the
    memory that the goal of least memory leaves in no limit, are given at once. `is_forced` says
    that limits must change regardless of gain. Without `may_begin` no change begins. `is_gap` says
    that the interval is not whole. `wait_at` is the wait of a device read, in microseconds, if some
    tenants have the given limits and all others the planned ones.
    """

    time_s: float
    elapsed_s: float
    tenants: Mapping[str, MemoryTenant]
    step_bytes: int
    goal: str
    free_bytes: int = 0
    away: frozenset[str] = frozenset()
    is_forced: bool = False
    may_begin: bool = True
    is_gap: bool = False
    wait_at: Callable[[Mapping[str, int]], float] = lambda _: 0.0

    def planned_at(self, limits: Mapping[str, int]) -> "MemoryInterval":
        """The same interval with other limits planned for some tenants: a part of the plan.

        The load of the device is that of this part, not that of the whole plan.
        """
        wait_us = self.wait_at(limits)
        tenants = self.tenants.items()
        planned = {
            name: one.planned_at(limits.get(name, one.planned_bytes), wait_us)
            for name, one in tenants
        }
        return replace(self, tenants=planned)

    @cached_property
    def movers(self) -> dict[str, MemoryTenant]:
        """Tenants whose limits the plan changes, if it changes any by a step.

        A step for a receiving tenant may be less than a step for a larger giving one. A change also
        counts if it is at least `STEP_SHARE_MIN` of the largest change of the plan.
        """
        tenants = self.tenants.values()
        if not self.is_forced and not any(one.is_step for one in tenants):
            return {}
        most = max((one.moved_bytes for one in tenants), default=0)
        least = max(PAGE_BYTES, STEP_SHARE_MIN * most)
        return {
            name: one
            for name, one in self.tenants.items()
            if one.is_step or one.moved_bytes >= least
        }
