# SPDX-License-Identifier: Apache-2.0
"""Objectives as the planner may see them while the guard holds something back."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.memory_course import may_not_turn
from cachepilot.control.standing import Standing
from cachepilot.control.tenant_state import TenantState
from cachepilot.decide.state import is_settling
from cachepilot.domain.objectives.objective import Goal, Mode, Objective, Objectives, size_bytes
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sizes import PAGE_BYTES, Size, pages_up


@dataclass(frozen=True)
class Promised:
    """How promises stand; `needed` is the highest priority of those that are not kept."""

    standing: Standing
    needed: int | None


def fixed_size(amount_bytes: int) -> Size:
    """A size of so many bytes, in whole pages."""
    return Size(f"{amount_bytes} B", pages=max(1, pages_up(amount_bytes) // PAGE_BYTES))


def at_its_limit(objective: Objective, seen: Seen) -> Objective:
    """Of a tenant that has no choice but the limit that it has."""
    size = fixed_size(seen.limit_bytes)
    return objective.narrowed(pattern=seen.tenant.cgroup, memory_min=size, memory_max=size)


def without_turn(
    objective: Objective,
    seen: Seen,
    state: TenantState,
    collected: Collected,
    promised: Promised,
    config: GuardConfig,
) -> Objective:
    """With the limit at present as a bound: what went up lately does not go down, nor back.

    Who has an SLO may always grow. Who has none, or keeps its own with ease, may give memory while
    one is not kept.
    """
    course, budget = state.course, collected.snapshot.node.budget_bytes
    if course is None or not may_not_turn(course, seen, collected.time_s, config):
        return objective
    size = fixed_size(seen.limit_bytes)
    low, high = (
        None if one is None else size_bytes(one, budget)
        for one in (objective.memory_min, objective.memory_max)
    )
    if course.up:
        needed = promised.needed
        spare = not objective.has_slo or seen.tenant.cgroup in promised.standing.ample
        asked = needed is not None and (spare or objective.priority < needed)
        if asked or (high is not None and high < seen.limit_bytes):
            return objective
        return objective.narrowed(pattern=seen.tenant.cgroup, memory_min=size)
    if objective.has_slo or max(low or 0, seen.tenant.floor_bytes) > seen.limit_bytes:
        return objective
    return objective.narrowed(pattern=seen.tenant.cgroup, memory_max=size)


def without_giving(
    objective: Objective, seen: Seen, collected: Collected, promised: Promised
) -> Objective:
    """With the limit at present as the least of who hardly keeps its SLO, whatever is predicted.

    Unless it is for one of a higher priority.
    """
    if seen.tenant.cgroup not in promised.standing.tight:
        return objective
    budget = collected.snapshot.node.budget_bytes
    low, high = (
        default if one is None else size_bytes(one, budget)
        for one, default in ((objective.memory_min, 0), (objective.memory_max, budget))
    )
    outranked = promised.needed is not None and objective.priority < promised.needed
    if outranked or not low < seen.limit_bytes <= high:
        return objective
    return objective.narrowed(pattern=seen.tenant.cgroup, memory_min=fixed_size(seen.limit_bytes))


def _is_under_way(
    state: TenantState | None, seen: Seen, time_s: float, config: GuardConfig
) -> bool:
    """Whether anything could hold the limit of a tenant."""
    if state is None:
        return False
    course = state.course
    turned = course is not None and may_not_turn(course, seen, time_s, config)
    return turned or is_settling(state.policy, time_s) or time_s < state.limit_cool_until_s


def _fits(
    collected: Collected,
    objectives: Objectives,
    states: dict[str, TenantState],
    kept: Collection[str],
    config: GuardConfig,
) -> bool:
    """Whether all others can have their least beside those that are `kept`, or held otherwise."""
    budget = collected.snapshot.node.budget_bytes
    total = 0
    for cgroup, seen in collected.seen.items():
        state, objective = states.get(cgroup), objectives.of(cgroup)
        stated = objective.memory_min
        asked = 0 if stated is None else size_bytes(stated, budget)
        least = max(seen.tenant.floor_bytes, asked)
        held = objective.mode is not Mode.AUTO or not seen.tenant.trust.trusted
        held = held or cgroup in kept or _is_under_way(state, seen, collected.time_s, config)
        total += max(least, seen.limit_bytes) if held else least
    return total <= budget


def _held_back(
    collected: Collected,
    objective: Objective,
    seen: Seen,
    state: TenantState,
    promised: Promised,
    config: GuardConfig,
) -> Objective:
    found = objective
    if state.course is not None:
        found = without_turn(found, seen, state, collected, promised, config)
    return without_giving(found, seen, collected, promised)


def constrained(
    collected: Collected,
    objectives: Objectives,
    states: dict[str, TenantState],
    restoring: Collection[str],
    needy: Collection[str],
    standing: Standing,
    config: GuardConfig,
) -> Objectives:
    """A tenant whose limit is held has no choice: memory that it may not give is not promised.

    `restoring` get their memory back; of `needy` an SLO is predicted not to be kept.
    """
    short = standing.short | set(needy)
    needed = max((objectives.of(cgroup).priority for cgroup in short), default=None)
    # The least memory is what just keeps a promise: only who misses one has nothing to give.
    tight = standing.short if objectives.goal is Goal.LEAST_MEMORY else standing.tight
    tight &= collected.seen.keys()
    if tight and not _fits(collected, objectives, states, tight, config):
        tight = frozenset()
    promised = Promised(replace(standing, tight=tight), needed)
    held_bytes = sum(seen.limit_bytes for seen in collected.seen.values())
    has_room = held_bytes <= collected.snapshot.node.budget_bytes
    held, changed = [], []
    for cgroup, seen in collected.seen.items():
        state, objective = states.get(cgroup), objectives.of(cgroup)
        if state is None:
            continue
        settling = is_settling(state.policy, collected.time_s)
        fixed = settling or collected.time_s < state.limit_cool_until_s
        if fixed or cgroup in restoring:
            held.append(at_its_limit(objective, seen))
        elif has_room and objective.mode is Mode.AUTO and objective.fixed is None:
            found = _held_back(collected, objective, seen, state, promised, config)
            changed += [] if found is objective else [found]
    if not held and not changed:
        return objectives
    return replace(
        objectives,
        tenants=(*changed, *objectives.tenants),
        pinned=(*held, *objectives.pinned),
    )
