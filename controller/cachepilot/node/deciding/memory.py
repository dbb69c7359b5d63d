# SPDX-License-Identifier: Apache-2.0
"""The interval of a node's memory that the decider gets: present and planned limits, and worths.

A tenant without an SLO keeps a share (`keep`) of the throughput that the kernel's default would
give it with its first memory, the limit that it had when it was first seen. The protected
memory of a tenant is a share of its first memory; see `cachepilot.node.protection`.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.memory.interval import MemoryInterval, MemoryTenant
from cachepilot.decide.memory.judging import LOSS_COSTS
from cachepilot.decide.state import is_settling
from cachepilot.domain.decisions import Reading
from cachepilot.domain.objectives.objective import Goal, Mode, Objective, size_bytes
from cachepilot.domain.planned import Action, Held, Setting
from cachepilot.model.throughput import throughput_model
from cachepilot.node.deciding.first_memory import allowed_bytes
from cachepilot.node.deciding.tenant_state import TenantState
from cachepilot.node.deciding.worth import MemoryCycle, Worth
from cachepilot.plan.problem.problem import OPS_MIN
from cachepilot.sense.collect import Seen
from cachepilot.sizes import PAGE_BYTES


def interval(cycle: MemoryCycle, config: DecideConfig) -> MemoryInterval:
    """The input of the decider's memory step in one cycle."""
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
    """The wait of a device read in microseconds with the given limits, and planned ones elsewhere.

    `limits` has some tenants; all others have their planned limits.
    """
    snapshot = cycle.collected.snapshot
    told = [(tenants[one.cgroup], limits.get(one.cgroup)) for one in snapshot.tenants]
    miss = [one.miss_at(one.planned_bytes if limit is None else limit) for one, limit in told]
    model = throughput_model(snapshot.tenants, snapshot.device, cycle.model)
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
    # An operator's pin is carried out separately. The other moves of the plan make room for it.
    is_set_elsewhere = cgroup in cycle.yielded or cgroup in cycle.ordered
    now = action.present
    then = now if is_set_elsewhere else action
    ops = now.throughput_ops
    has_slo = objective.has_slo
    aims = objective.aims if has_slo else objective
    below = _below(action.kept_now_ops, seen, now)
    done_ops = cycle.did_ops(seen)
    stays = objective.mode is not Mode.AUTO or is_set_elsewhere
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
        measured=Reading(tenant.indicators.throughput_ops, tenant.indicators.miss_ratio),
        predicted=Reading(then.throughput_ops, then.miss_ratio),
        miss_at=partial(worth.miss_by, then, now),
        ops_at=worth.throughput.ops,
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
        is_set_elsewhere=is_set_elsewhere,
        needs=may_need and _needs(cycle, cgroup, objective, done_ops),
        first_bytes=first_bytes,
        is_filling=seen.is_filling,
        is_settling=is_settling(state.policy),
        is_doubted=tenant.certain is None and not tenant.trust.trusted,
        is_certain=tenant.certain is not None,
        undone=undone if undone in state.changes[-1:] else None,
    )


def _spare_bytes(action: Action, state: TenantState, worth: Worth, config: DecideConfig) -> int:
    """The bytes that a tenant can give up within its budget if that is wrong.

    The budget is the share `loss_share` of the time for which the tenant is managed (plus
    `reserve_s`), less the seconds that it has already lost. A tenant that keeps nothing can give up
    its whole limit.
    """
    if action.kept_ops <= 0:
        return action.present.limit_bytes
    budget_s = config.loss_share * (state.managed_s + config.reserve_s)
    most_s, now_ops = (budget_s - state.owed_s) / LOSS_COSTS, worth.ops(action.present.miss_ratio)
    return worth.spare_bytes(most_s, now_ops, action.kept_ops)


def _needs(cycle: MemoryCycle, cgroup: str, objective: Objective, done_ops: float | None) -> bool:
    if cgroup in cycle.busy:
        return False
    if objective.has_slo:
        return cgroup in cycle.fallen
    if objective.keep <= 0 or done_ops is None:
        return False
    return cycle.lacks(cgroup, done_ops)


def _reached(objective: Objective, seen: Seen, setting: Action | Setting) -> float:
    """The part of its SLO that a prediction reaches, greater than 0 and at most 1.

    Of several targets the one that is reached least counts. The p99 latency is assumed to be
    proportional to the time of an operation.
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
    """The part of `kept_ops` that a tenant without an SLO is predicted to lack, 0 to 1.

    `kept_ops` and the setting must be predictions at the same load of the device. With its first
    memory or more, a tenant lacks nothing by definition.
    """
    if kept_ops <= 0 or setting.limit_bytes >= seen.tenant.first_bytes:
        return 0.0
    return max(0.0, 1 - setting.throughput_ops / kept_ops)


def _unprotected(cycle: MemoryCycle, action: Action, limit_bytes: int) -> float:
    """The part of the planned limit that a tenant lacks at `limit_bytes`, 0 to 1.

    It is 0 unless the plan gives the tenant its protected memory back.
    """
    if action.cgroup not in cycle.restored:
        return 0.0
    return max(0.0, 1 - limit_bytes / max(action.limit_bytes, PAGE_BYTES))


def _lacks_at(
    cycle: MemoryCycle, action: Action, seen: Seen, worth: Worth, limit_bytes: int
) -> float:
    """The part that is missing at a limit: of the SLO with its margin, or of what the tenant keeps.

    The miss ratio is one standard error higher than predicted.
    """
    setting, objective = worth.sure_at(limit_bytes), cycle.objectives.of(action.cgroup)
    if objective.has_slo:
        return 1 - _reached(objective.aims, seen, setting)
    return max(_below(action.kept_ops, seen, setting), _unprotected(cycle, action, limit_bytes))


def _is_forced(cycle: MemoryCycle) -> bool:
    """Whether limits must change regardless of gain.

    This is so if limits exceed the memory that tenants share and the plan lowers their sum, or if
    the plan moves a tenant towards a bound that it violates, or serves a pin. A violation that the
    plan does not reduce begins no change.
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
