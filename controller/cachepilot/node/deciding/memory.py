# SPDX-License-Identifier: Apache-2.0
"""The decider's step for the memory of one node: what it is shown, and what is told of it."""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.memory.rollout import LOSS_COSTS
from cachepilot.decide.memory.state import MemoryInterval, MemoryTenant
from cachepilot.decide.state import is_settling
from cachepilot.domain.decisions import Reading
from cachepilot.domain.objectives.objective import Goal, Mode, Objective, Objectives, size_bytes
from cachepilot.domain.planned import Action, Held, Plan, Setting
from cachepilot.domain.units import US_PER_S
from cachepilot.model.limit_calibration import Shifts
from cachepilot.model.throughput import ModelKind, ops_at, ops_of, throughput_model
from cachepilot.node.deciding.calibrated import miss_at
from cachepilot.node.deciding.first_memory import allowed_bytes
from cachepilot.node.deciding.tenant_state import TenantState
from cachepilot.plan.problem.problem import OPS_MIN
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sizes import PAGE_BYTES


@dataclass(frozen=True)
class MemoryCycle:
    """One cycle of a node. `collected` has calibrated curves, `objectives` are those of the plan.

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

    def ops(self, miss_ratio: float) -> float:
        """Operations per second at a miss ratio."""
        return ops_of(self._seen.tenant.demand, self._cycle.read_us, miss_ratio)

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


def interval(cycle: MemoryCycle, config: DecideConfig) -> MemoryInterval:
    """What the decider is shown."""
    found: dict[str, MemoryTenant] = {}
    for action in cycle.plan.actions:
        seen, state = cycle.collected.seen[action.cgroup], cycle.states[action.cgroup]
        found[action.cgroup] = _tenant(cycle, action, seen, state, config)
    return MemoryInterval(
        time_s=cycle.collected.time_s,
        elapsed_s=cycle.elapsed_s,
        tenants=found,
        step_bytes=cycle.step_bytes,
        goal=cycle.objectives.goal.value,
        free_bytes=_free_bytes(cycle),
        away=cycle.away,
        is_forced=_is_forced(cycle),
        may_begin=cycle.may_begin,
        is_gap=cycle.is_gap,
        wait_at=partial(_wait_at, cycle, found),
    )


def _wait_at(
    cycle: MemoryCycle, tenants: Mapping[str, MemoryTenant], limits: Mapping[str, int]
) -> float:
    """What a read of the device waits with those limits, and those of the plan of all others."""
    snapshot = cycle.collected.snapshot
    told = [(tenants[one.cgroup], limits.get(one.cgroup)) for one in snapshot.tenants]
    miss = [one.miss_at(one.planned_bytes if limit is None else limit) for one, limit in told]
    model = throughput_model(snapshot.tenants, snapshot.device, ModelKind.SERVICE)
    return model.wait_us(np.array(miss))


def _free_bytes(cycle: MemoryCycle) -> int:
    if cycle.objectives.goal is not Goal.LEAST_MEMORY:
        return 0
    return cycle.collected.free_bytes


def _tenant(
    cycle: MemoryCycle, action: Action, seen: Seen, state: TenantState, config: DecideConfig
) -> MemoryTenant:
    cgroup, tenant, told = action.cgroup, seen.tenant, seen.wire
    objective = cycle.objectives.of(cgroup)
    worth = Worth(cycle, seen, objective.weight)
    # An order is done by itself, and whatever else the plan moves makes room for it.
    is_yielded, is_ordered = cgroup in cycle.yielded, cgroup in cycle.ordered
    now = action.present
    then = now if is_yielded or is_ordered else action
    ops = now.throughput_ops
    has_slo = objective.has_slo
    aims = objective.aims if has_slo else objective
    below = _below(action.kept_now_ops, seen, now)
    done_ops = did_ops(seen, cycle.read_us)
    stays = objective.mode is not Mode.AUTO or is_ordered or is_yielded
    first_bytes = allowed_bytes(objective, seen.tenant, cycle.budget_bytes)
    may_need = not stays and tenant.limit_bytes <= first_bytes - PAGE_BYTES
    undone = told.unconfirmed.epoch if told.unconfirmed.undone else None
    return MemoryTenant(
        cgroup_id=told.cgroup_id,
        policy=tenant.policy,
        limit_bytes=tenant.limit_bytes,
        planned_bytes=then.limit_bytes,
        worth_now=worth.of(ops, now.limit_bytes),
        worth_planned=worth.of(then.throughput_ops, then.limit_bytes),
        worth_measured=None if done_ops is None else worth.of(done_ops, seen.limit_bytes),
        worth_at=worth.at,
        whole=worth.whole(ops, now.limit_bytes),
        error=worth.error_at(then.limit_bytes),
        reread_s=worth.reread_at(then.limit_bytes),
        measured=Reading(tenant.indicators.throughput_ops, tenant.indicators.miss_ratio),
        predicted=Reading(then.throughput_ops, then.miss_ratio),
        miss_at=partial(worth.miss_by, then, now),
        ops_at=partial(ops_at, tenant.demand, cycle.collected.snapshot.device),
        worth_of=worth.of,
        lacks_at=partial(_lacks_at, cycle, action, seen, worth),
        error_at=worth.error_at,
        reread_at=worth.reread_at,
        spare_bytes=_spare_bytes(action, state, worth, config),
        weight=worth.weight,
        priority=objective.priority,
        has_slo=has_slo,
        reached=_reached(objective, seen, now) if has_slo else 1.0,
        reached_planned=_reached(objective, seen, then) if has_slo else 1.0,
        aimed=_reached(aims, seen, now) if has_slo else 1.0,
        aimed_planned=_reached(aims, seen, then) if has_slo else 1.0,
        is_short=cgroup in cycle.short,
        is_left_out=cgroup in cycle.left_out,
        below=max(below, _unprotected(cycle, action, now.limit_bytes)),
        below_planned=below if then is now else _below(action.kept_ops, seen, then),
        is_free=action.held is Held.NOT and cgroup not in cycle.busy,
        stays=stays,
        is_ordered=is_ordered,
        is_yielded=is_yielded,
        needs=may_need and _needs(cycle, cgroup, objective, done_ops),
        first_bytes=first_bytes,
        is_filling=seen.is_filling,
        is_settling=is_settling(state.policy),
        is_doubted=tenant.certain is None and not tenant.trust.trusted,
        is_certain=tenant.certain is not None,
        undone=undone if undone in state.changes[-1:] else None,
    )


def _spare_bytes(action: Action, state: TenantState, worth: Worth, config: DecideConfig) -> int:
    """What a tenant can give up within its budget, were that wrong; all where it keeps nothing."""
    if action.kept_ops <= 0:
        return action.present.limit_bytes
    budget_s = config.loss_share * (state.managed_s + config.reserve_s)
    most_s, now_ops = (budget_s - state.owed_s) / LOSS_COSTS, worth.ops(action.present.miss_ratio)
    return worth.spare_bytes(most_s, now_ops, action.kept_ops)


def did_ops(seen: Seen, read_us: float) -> float | None:
    """Operations per second by what was missed in the interval; None where nothing was accessed.

    A read of the device takes `read_us`.
    """
    pages = seen.pages
    if pages is None or pages.accesses <= 0:
        return None
    return ops_of(seen.tenant.demand, read_us, min(1.0, pages.misses / pages.accesses))


def _needs(cycle: MemoryCycle, cgroup: str, objective: Objective, done_ops: float | None) -> bool:
    if cgroup in cycle.busy:
        return False
    if objective.has_slo:
        return cgroup in cycle.fallen
    if objective.keep <= 0 or done_ops is None:
        return False
    return cycle.lacks(cgroup, done_ops)


def _reached(objective: Objective, seen: Seen, setting: Action | Setting) -> float:
    """The part of its SLO that a prediction reaches, above 0 to 1.

    The p99 is taken to stay in proportion to the time of an operation.
    """
    found, readings, ops = 1.0, seen.tenant.indicators, setting.throughput_ops
    if objective.throughput_ops is not None:
        found = min(found, ops / objective.throughput_ops)
    if objective.hit_ratio is not None:
        found = min(found, (1 - setting.miss_ratio) / objective.hit_ratio)
    if objective.latency_p99_us is not None and readings.latency_p99_us is not None:
        p99_us = readings.latency_p99_us * readings.throughput_ops / max(ops, OPS_MIN)
        found = min(found, objective.latency_p99_us / max(p99_us, OPS_MIN))
    return max(found, OPS_MIN)


def _below(kept_ops: float, seen: Seen, setting: Action | Setting) -> float:
    """The part of what a tenant keeps without an SLO that it is predicted not to have.

    Both are of the same load of the device.
    With its first memory it has what it had: where nobody knows what that is, it gets that back.
    """
    if kept_ops <= 0 or setting.limit_bytes >= seen.tenant.first_bytes:
        return 0.0
    return max(0.0, 1 - setting.throughput_ops / kept_ops)


def _unprotected(cycle: MemoryCycle, action: Action, limit_bytes: int) -> float:
    """The part of its protected memory that a tenant lacks at a limit and is to get back."""
    if action.cgroup not in cycle.restored:
        return 0.0
    return max(0.0, 1 - limit_bytes / max(action.limit_bytes, PAGE_BYTES))


def _lacks_at(
    cycle: MemoryCycle, action: Action, seen: Seen, worth: Worth, limit_bytes: int
) -> float:
    """The part missing at a limit: of the SLO with its margin, or of what it keeps."""
    setting, objective = worth.sure_at(limit_bytes), cycle.objectives.of(action.cgroup)
    if objective.has_slo:
        return 1 - _reached(objective.aims, seen, setting)
    return max(_below(action.kept_ops, seen, setting), _unprotected(cycle, action, limit_bytes))


def _is_forced(cycle: MemoryCycle) -> bool:
    """Whether the plan mends a budget that is exceeded, a bound that is not kept, or serves a pin.

    What no plan can mend begins no change.
    """
    budget, actions = cycle.collected.snapshot.node.budget_bytes, cycle.plan.actions
    present = sum(one.present.limit_bytes for one in actions)
    shared = cycle.collected.snapshot.node.shared_bytes
    if present > shared and sum(one.limit_bytes for one in actions) < present:
        return True
    return any(_is_mended(one, cycle, budget) for one in actions)


def _is_mended(action: Action, cycle: MemoryCycle, budget: int) -> bool:
    seen, objective = cycle.collected.seen[action.cgroup], cycle.objectives.of(action.cgroup)
    now, more = action.present.limit_bytes, action.limit_bytes - action.present.limit_bytes
    if action.cgroup in cycle.ordered:
        return more > 0
    if objective.mode is not Mode.AUTO or action.cgroup in cycle.busy or abs(more) < PAGE_BYTES:
        return False
    low, high = seen.wire.floor_bytes, budget
    if objective.memory_min is not None:
        low = max(low, size_bytes(objective.memory_min, budget))
    if objective.memory_max is not None:
        high = size_bytes(objective.memory_max, budget)
    return now <= low - PAGE_BYTES if more > 0 else now >= high + PAGE_BYTES
