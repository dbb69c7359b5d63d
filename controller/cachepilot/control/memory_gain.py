# SPDX-License-Identifier: Apache-2.0
"""Whether moving memory is worth a trial.

Curves wobble and the plan follows them. Memory that follows too would move for ever.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.memory_course import Mark, doubled_s, mark_of
from cachepilot.control.predict import predicted
from cachepilot.domain.objectives.objective import Goal, Mode, Objective, Objectives, size_bytes
from cachepilot.domain.planned import Action, Held, Plan, SloState
from cachepilot.domain.snapshot import Tenant
from cachepilot.plan.slo_outcomes import measured, meets
from cachepilot.sense.collect import Collected
from cachepilot.sizes import PAGE_BYTES

Ahead = Callable[[], Plan]
"""Where memory alone goes in many cycles, every tenant under its present policy."""


STEP_SHARE_MIN = 0.005
"""Of a limit: a smaller change is not made."""
OWED_SHARE = 0.02
"""Of what a tenant keeps: it may be predicted to have so much less without memory being moved for
that alone, as curves wobble."""


@dataclass
class Patience:
    """How long memory stays where it is; outlives a restart.

    `idle` counts trials in a row that nobody gained by, `agreed` cycles in a row that promised
    enough. `marks` are working points when memory came to rest: a phase ends the wait.
    """

    idle: int = 0
    until_s: float = 0.0
    agreed: int = 0
    ask_again_s: float = 0.0
    ask_far_s: float = 0.0
    marks: dict[str, Mark] = field(default_factory=dict)

    def move_back(self, seconds: float) -> None:
        """With a clock that went back so far."""
        self.until_s -= seconds
        self.ask_again_s -= seconds
        self.ask_far_s -= seconds


def is_a_step(action: Action) -> bool:
    """Whether a plan changes a limit by as much as is worth changing it for."""
    here = action.present.limit_bytes
    return abs(action.limit_bytes - here) >= max(PAGE_BYTES, STEP_SHARE_MIN * here)


def grows(plan: Plan) -> frozenset[str]:
    """Who gets more by a plan."""
    found = (one for one in plan.actions if one.limit_bytes > one.present.limit_bytes)
    return frozenset(one.cgroup for one in found if is_a_step(one))


def promised(plan: Plan, *states: SloState) -> frozenset[str]:
    """Tenants with an SLO that a plan leaves in one of these states."""
    return frozenset(one.cgroup for one in plan.slos if one.state in states)


def needs_memory(plan: Plan) -> frozenset[str]:
    """Tenants with an SLO that is not kept and that memory would help."""
    return promised(plan, SloState.APPROACHING)


def falls_short(collected: Collected, plan: Plan) -> frozenset[str]:
    """Tenants that measure worse than what the plan aims at for their SLO.

    Also where it cannot reach that: whoever states an SLO wants all that there is for it.
    """
    found = set()
    for one in plan.slos:
        if one.state in (SloState.KEPT, SloState.UNATTAINABLE):
            value = measured(one.kind, collected.seen[one.cgroup].tenant)
            if value is not None and not meets(one.kind, value, one.target):
                found.add(one.cgroup)
    return frozenset(found)


def _is_out_of_bounds(tenant: Tenant, objective: Objective, budget_bytes: int) -> bool:
    low, high = tenant.floor_bytes, budget_bytes
    if objective.memory_min is not None:
        low = max(low, size_bytes(objective.memory_min, budget_bytes))
    if objective.memory_max is not None:
        high = max(low, size_bytes(objective.memory_max, budget_bytes))
    return not low - PAGE_BYTES < tenant.limit_bytes < high + PAGE_BYTES


def _grows_by_order(plan: Plan, objectives: Objectives) -> bool:
    """Whether a pinned limit takes memory that others hold."""
    pins = ((one.pattern, one.fixed) for one in objectives.pinned)
    limited = {name for name, fixed in pins if fixed is not None and fixed.limit_bytes is not None}
    return any(
        one.cgroup in limited and one.limit_bytes > one.present.limit_bytes for one in plan.actions
    )


def _is_owed(action: Action) -> bool:
    """Whether a tenant is predicted to do clearly less than what it keeps without an SLO."""
    return action.present.throughput_ops < (1 - OWED_SHARE) * action.kept_ops


def is_forced(
    collected: Collected, plan: Plan, objectives: Objectives, moves: Mapping[str, Action]
) -> bool:
    """Whether memory must move whatever is gained.

    For a pin, an SLO, a bound, the budget, or what a tenant without an SLO keeps.
    """
    if not moves:
        return False
    if _grows_by_order(plan, objectives):
        return True
    budget = collected.snapshot.node.budget_bytes
    if sum(one.limit_bytes for one in collected.seen.values()) > budget:
        return True
    needy = needs_memory(plan) | falls_short(collected, plan)
    for cgroup, action in moves.items():
        tenant, objective = collected.seen[cgroup].tenant, objectives.of(cgroup)
        grows = action.limit_bytes > action.present.limit_bytes
        if grows and (cgroup in needy or _is_owed(action)):
            return True
        if objective.mode is Mode.AUTO and _is_out_of_bounds(tenant, objective, budget):
            return True
    return False


def under_present_policies(objectives: Objectives, collected: Collected) -> Objectives:
    """Objectives under which no policy changes that the decider may change.

    Of whom the present policy is not allowed, or that is only recommended to, another is planned.
    """
    still = []
    for cgroup, seen in collected.seen.items():
        objective, present = objectives.of(cgroup), seen.tenant.policy
        allowed = not objective.policies or present in objective.policies
        if seen.measured is not None and objective.mode is Mode.AUTO and allowed:
            still.append(objective.narrowed(pattern=cgroup, policies=(present,)))
    return replace(objectives, tenants=(*still, *objectives.tenants))


def _spread_ops(collected: Collected, plan: Plan, action: Action) -> float:
    """By how much less than predicted one tenant may do, by a quarter of its error bar of 95%.

    What is promised is tried, measured, and taken back when it was wrong, and trials in vain become
    rare by themselves: two in three that are right, which is half a standard error, are enough to
    begin one. By how much more does not matter: near a miss ratio of 0 that has no bound.
    """
    seen, device = collected.seen[action.cgroup], collected.snapshot.device
    found = predicted(seen, device, plan.device_wait_us, action.policy, action.limit_bytes)
    if seen.measured is None or found is None:
        return 0.0
    bar = seen.measured.error_at(action.policy, action.limit_bytes) / 4
    demand = seen.tenant.demand
    missed_us = demand.accesses_per_op * (device.miss_cost_us + plan.device_wait_us)
    time_us = demand.service_us + (found.miss_ratio or 0.0) * missed_us
    slower = bar * missed_us / time_us
    return (found.ops or 0.0) * slower / (1 + slower)


def promised_pct(collected: Collected, plan: Plan, objectives: Objectives) -> tuple[float, float]:
    """What a plan gains in percent of what there is, and how much of that may be error.

    By the goal: the weighted geometric mean of throughputs, their weighted sum, or the memory that
    the plan frees. A tenant that is predicted to do nothing counts for neither mean.
    """
    free = [one for one in plan.actions if one.held is Held.NOT]
    if objectives.goal is Goal.LEAST_MEMORY:
        held = sum(one.present.limit_bytes for one in free)
        freed = held - sum(one.limit_bytes for one in free)
        return 100 * freed / max(held, 1), 0.0
    if objectives.goal is Goal.PROPORTIONAL_FAIRNESS:
        return _mean_gain_pct(collected, plan, objectives, free)
    before = after = variance = 0.0
    for one in free:
        weight = objectives.of(one.cgroup).weight
        before += weight * one.present.throughput_ops
        after += weight * one.throughput_ops
        if one.limit_bytes != one.present.limit_bytes:
            variance += (weight * _spread_ops(collected, plan, one)) ** 2
    least = max(before, 1e-9)
    return 100 * (after - before) / least, 100 * variance**0.5 / least


def _mean_gain_pct(
    collected: Collected, plan: Plan, objectives: Objectives, free: Sequence[Action]
) -> tuple[float, float]:
    """`promised_pct` of the weighted geometric mean of throughputs."""
    total = gained = variance = 0.0
    for one in free:
        before, after = one.present.throughput_ops, one.throughput_ops
        if min(before, after) <= 0:
            continue
        weight = objectives.of(one.cgroup).weight
        total += weight
        gained += weight * math.log(after / before)
        if one.limit_bytes != one.present.limit_bytes:
            variance += (weight * _spread_ops(collected, plan, one) / after) ** 2
    total = max(total, 1e-9)
    return 100 * math.expm1(gained / total), 100 * math.sqrt(variance) / total


def ways(plan: Plan) -> dict[str, bool]:
    """Who gets more (True) or less of those whose limits a plan changes."""
    return {
        one.cgroup: one.limit_bytes > one.present.limit_bytes
        for one in plan.actions
        if one.limit_bytes != one.present.limit_bytes
    }


def worth_it(
    patience: Patience,
    collected: Collected,
    objectives: Objectives,
    ahead: Ahead,
    config: GuardConfig,
    is_far: bool = False,
) -> Plan | None:
    """Where memory is going if that promises enough for long enough, else None.

    Asks where that is only when a trial may begin, for it takes a plan of its own. `is_far` when no
    single step promises anything: that is asked apart, lest it delays what a step would promise.
    """
    time_s = collected.time_s
    if time_s < patience.until_s:
        seen = collected.seen
        past = [name for name, mark in patience.marks.items() if name in seen]
        if not any(patience.marks[name].is_past(seen[name], config) for name in past):
            patience.agreed = 0
            return None
        patience.idle, patience.until_s, patience.marks = 0, time_s, {}
    if time_s < (patience.ask_far_s if is_far else patience.ask_again_s):
        patience.agreed = 0
        return None
    plan = ahead()
    gain_pct, error_pct = promised_pct(collected, plan, objectives)
    moves = any(one.held is Held.NOT and is_a_step(one) for one in plan.actions)
    if not moves or gain_pct < config.memory_gain_pct + error_pct:
        patience.agreed, patience.ask_far_s = 0, time_s + config.dwell_s
        patience.ask_again_s = patience.ask_again_s if is_far else patience.ask_far_s
        return None
    patience.agreed += 1
    if patience.agreed < config.confirm_intervals:
        return None
    patience.agreed = 0
    return plan


def rest(patience: Patience, gained: bool, collected: Collected, config: GuardConfig) -> None:
    """A trial ended; the longer nothing is gained, the longer memory stays where it is."""
    patience.idle = 0 if gained else patience.idle + 1
    patience.until_s = collected.time_s + doubled_s(patience.idle, config)
    found = {cgroup: mark_of(seen) for cgroup, seen in collected.seen.items()}
    patience.marks = {cgroup: mark for cgroup, mark in found.items() if mark is not None}
