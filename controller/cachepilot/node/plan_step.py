# SPDX-License-Identifier: Apache-2.0
"""The plan step: how one node's memory and policies should be in the end.

If memory cannot be planned, policies still are, with every limit left as it is.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from cachepilot.domain.objectives.objective import Goal, Mode, Objective, Objectives, size_bytes
from cachepilot.domain.planned import Plan, SloOutcome
from cachepilot.domain.snapshot import Snapshot
from cachepilot.domain.units import BYTES_MAX
from cachepilot.node.deciding.config import NodeConfig
from cachepilot.node.protection import with_protection_back
from cachepilot.plan.plan import BEYOND, plan
from cachepilot.plan.problem.config import Config
from cachepilot.plan.problem.limits import InfeasibleError
from cachepilot.plan.slo_outcomes import meets, part_reached
from cachepilot.sense.collect import Collected
from cachepilot.sizes import PAGE_BYTES, Size, pages_up

NO_LIMITS = "the node sets no limits: only policies are planned"


@dataclass(frozen=True)
class Planned:
    """A plan with its input. `problem` says why its limits must not be applied, if so.

    `restored` are tenants that get back the protected share of their first memory (see
    `protection`).
    """

    plan: Plan
    snapshot: Snapshot
    objectives: Objectives
    config: Config
    problem: str = ""
    restored: frozenset[str] = frozenset()

    @property
    def limits_fixed(self) -> bool:
        """Whether only policies are planned."""
        return bool(self.problem)


def _without_memory(one: Objective) -> Objective:
    return replace(_without_pinned_limit(one), memory_min=None, memory_max=None)


def _without_pinned_limit(one: Objective) -> Objective:
    if one.fixed is None:
        return one
    policy = one.fixed.policy
    fixed = None if policy is None else replace(one.fixed, limit_bytes=None)
    return replace(one, fixed=fixed)


def _where_they_are(
    collected: Collected, objectives: Objectives, config: Config, problem: str
) -> Planned:
    """Plan policies only, with every tenant at its present limit.

    The budget is at least the sum of the present limits, so that the plan is feasible in any case.
    """
    snapshot = collected.snapshot
    tenants = tuple(
        replace(tenant, floor_bytes=min(tenant.floor_bytes, tenant.limit_bytes))
        for tenant in snapshot.tenants
    )
    held = sum(tenant.limit_bytes for tenant in tenants) + snapshot.node.away_bytes
    budget = min(BYTES_MAX, max(snapshot.node.budget_bytes, held))
    fixed = replace(snapshot, node=replace(snapshot.node, budget_bytes=budget), tenants=tenants)
    stated = tuple(_without_memory(one) for one in objectives.tenants)
    pinned = tuple(_without_memory(one) for one in objectives.pinned)
    asked = replace(objectives, tenants=stated, pinned=pinned)
    still = replace(config, movement_share=0.0)
    return Planned(plan(fixed, asked, still), fixed, asked, still, problem)


def _lost(found: Plan) -> int:
    """The number of SLOs that a plan gives up."""
    return sum(one.is_given_up for one in found.slos)


def _lacking(found: Plan, objectives: Objectives) -> dict[int, float]:
    """By priority, the sum of the shares by which a plan misses SLOs with their margins."""
    lacking: dict[int, float] = {}
    for one in found.slos:
        if one.value is None:
            continue
        objective = objectives.of(one.cgroup)
        part = part_reached(one.kind, one.value, getattr(objective.aims, one.kind))
        if part < 1:
            lacking[objective.priority] = lacking.get(objective.priority, 0.0) + 1 - part
    return lacking


def _without_protection(collected: Collected, objectives: Objectives, below: float) -> Snapshot:
    """The snapshot without the protected floors of tenants below a priority (see `protection`)."""
    tenants = tuple(
        replace(one.tenant, floor_bytes=min(one.tenant.floor_bytes, one.wire.floor_bytes))
        if objectives.of(one.tenant.cgroup).priority < below
        else one.tenant
        for one in collected.seen.values()
    )
    return replace(collected.snapshot, tenants=tenants)


def _slos_before_protection(
    collected: Collected, objectives: Objectives, config: Config, found: Plan, least_gain: float
) -> tuple[Plan, Snapshot]:
    """Return a better plan without protected floors if they cost an SLO or a margin; else `found`.

    A margin is what a plan aims for above an SLO. For an SLO that is lost, all protected floors go.
    For a margin, only those of tenants with a lower priority go, and the other plan must bring the
    margins of the highest priority nearer by `least_gain` or more. The snapshot is that of the
    returned plan.
    """
    snapshot = collected.snapshot
    lost, lacking = _lost(found), _lacking(found, objectives)
    if not lost and not lacking:
        return found, snapshot
    highest = max(lacking, default=0)
    below = math.inf if lost else highest
    without = _without_protection(collected, objectives, below)
    if without.tenants == snapshot.tenants:
        return found, snapshot
    other = plan(without, objectives, config)
    nearer = lacking.get(highest, 0.0) - _lacking(other, objectives).get(highest, 0.0)
    is_better = _lost(other) < lost or (_lost(other) == lost and nearer >= least_gain)
    return (other, without) if is_better else (found, snapshot)


def _is_margin_lost(
    before: SloOutcome, after: SloOutcome, objectives: Objectives, priority: int
) -> bool:
    """Whether an SLO of a higher priority loses a part of its margin from plan to plan."""
    objective = objectives.of(before.cgroup)
    if objective.priority <= priority or before.value is None or after.value is None:
        return False
    aim = getattr(objective.aims, before.kind)
    return not (
        meets(before.kind, after.value, aim) or meets(after.kind, after.value, before.value)
    )


def _restored(collected: Collected, planned: Planned, share: float) -> Planned | None:
    """Return a plan that gives tenants back their protected share; None if that is not possible.

    It is not possible if the limits do not fit, if it costs an SLO, or if it costs a margin of an
    SLO whose priority is above those of all tenants that get memory back.
    """
    back = with_protection_back(collected, planned.objectives, share)
    if back is None:
        return None
    snapshot, cgroups = back
    try:
        found = plan(snapshot, planned.objectives, planned.config)
    except InfeasibleError:
        return None
    if _lost(found) > _lost(planned.plan):
        return None
    most = max(planned.objectives.of(one).priority for one in cgroups)
    outcomes = zip(planned.plan.slos, found.slos, strict=True)
    if any(_is_margin_lost(*pair, planned.objectives, most) for pair in outcomes):
        return None
    return replace(planned, plan=found, snapshot=snapshot, restored=cgroups)


def _is_beyond(found: Plan) -> bool:
    return any(one.startswith(BEYOND) for one in found.notes)


def plan_step(
    collected: Collected,
    objectives: Objectives,
    config: NodeConfig,
    can_limit: bool,
    guarded: Collected | None = None,
) -> Planned:
    """Return the plan of a node: the limits that it should have in the end, and the policies.

    Protected floors give way to an SLO that could not be met otherwise, and to the margin above an
    SLO of a higher priority. A tenant with less than `least_share` of its first memory gets that
    back as soon as it costs neither. A margin that comes nearer by less than `least_gain` is no
    reason to lower a floor. If tenants that must not be changed leave no room for the others, every
    limit stays, `problem` gives the reason, and only policies are planned. The same holds without
    `can_limit`.

    `guarded` is the same node with higher floors for tenants whose policy is on trial. They count
    if there is room for them, beside pins and whatever else must not be changed.

    Raises InputError for input that no plan can be made of.
    """
    if not can_limit:
        return _where_they_are(collected, objectives, config.planner, NO_LIMITS)
    if guarded is not None:
        planned = plan_step(guarded, objectives, config, can_limit)
        if not planned.problem and not _is_beyond(planned.plan):
            return planned
    planner, least_gain = in_the_end(config.planner), config.decide.least_gain
    try:
        found = plan(collected.snapshot, objectives, planner)
        made = _slos_before_protection(collected, objectives, planner, found, least_gain)
        planned = Planned(*made, objectives, planner)
        return _restored(collected, planned, config.least_share) or planned
    except InfeasibleError as error:
        problem = f"{error}: limits stay as they are, only policies are planned"
        return _where_they_are(collected, objectives, planner, problem)


def in_the_end(config: Config) -> Config:
    """The planner's configuration without a bound on how much memory one cycle moves.

    A configuration that moves no memory stays as it is.
    """
    return replace(config, movement_share=1.0) if config.movement_share > 0 else config


def held_fast(
    objectives: Objectives,
    collected: Collected,
    limits_held: Collection[str],
    margin: float,
    left_alone: Collection[str] = (),
    least_bytes: Mapping[str, int] = MappingProxyType({}),
) -> Objectives:
    """Objectives that fix the policies that the decider changes, and the limits that are held.

    The decider, not the plan, replaces policies of tenants in mode `auto`. The plan chooses a
    policy if the objectives do not allow the present one, or if the tenant only gets
    recommendations.

    Each keep is raised by the share `margin`, because the decider ignores losses up to that. Limits
    of tenants that are `left_alone` are not pinned. With the goal `least_memory` no limit is
    planned below `least_bytes`, by cgroup.
    """
    found = []
    budget = collected.snapshot.node.budget_bytes
    takes_all = objectives.goal is Goal.LEAST_MEMORY
    for cgroup, seen in collected.seen.items():
        objective = objectives.of(cgroup)
        if cgroup in left_alone:
            objective = _without_pinned_limit(objective)
        present, known = seen.tenant.policy, seen.measured is not None
        allowed = not objective.policies or present in objective.policies
        policies = (present,) if known and objective.mode is Mode.AUTO and allowed else None
        is_held = cgroup in limits_held and cgroup not in left_alone
        size = _fixed_size(seen.limit_bytes) if is_held else None
        least = size
        if takes_all and size is None and cgroup in least_bytes and objective.fixed is None:
            least = _least_size(min(least_bytes[cgroup], seen.limit_bytes), objective, budget)
        found.append(objective.narrowed(cgroup, policies, least, size, margin))
    return replace(objectives, pinned=(*found, *objectives.pinned))


def _least_size(limit_bytes: int, objective: Objective, budget_bytes: int) -> Size:
    """A limit, clamped to the objective's `memory_min` and `memory_max`."""
    low, high = objective.memory_min, objective.memory_max
    least = limit_bytes if low is None else max(limit_bytes, size_bytes(low, budget_bytes))
    return _fixed_size(least if high is None else min(least, size_bytes(high, budget_bytes)))


def _fixed_size(amount_bytes: int) -> Size:
    """A number of bytes as a size in whole pages, at least one."""
    return Size(f"{amount_bytes} B", pages=max(1, pages_up(amount_bytes) // PAGE_BYTES))
