# SPDX-License-Identifier: Apache-2.0
"""The memory that a tenant keeps unasked: a share of what it had before the autopilot came.

Weighted throughput alone gives everything to whoever does most operations per byte.
"""

from dataclasses import replace

from cachepilot.control.collect import Collected, Seen
from cachepilot.planner.objectives import Goal, Mode, Objective, Objectives, size_bytes
from cachepilot.sizes import human_bytes, pages_down

AT_FLOOR_SHARE = 0.01
"""Of a floor: a limit that is above it by less is at it."""


def _kept_bytes(
    seen: Seen, objective: Objective, held_first_bytes: int, share: float, budget_bytes: int
) -> int:
    """The protection of one tenant; 0 where an operator said something else, or nothing is done."""
    if (
        objective.mode is Mode.OBSERVE
        or objective.memory_min is not None
        or objective.fixed is not None
    ):
        return 0
    had = seen.wire.initial_limit_bytes or held_first_bytes
    kept = pages_down(int(share * min(had, budget_bytes)))
    if objective.memory_max is not None:
        kept = min(kept, size_bytes(objective.memory_max, budget_bytes))
    return min(kept, seen.limit_bytes)


def _least(seen: Seen, objective: Objective, budget_bytes: int) -> int:
    """What a tenant must have without protection, when it is to be planned."""
    if objective.mode is not Mode.AUTO:
        return 0
    stated = objective.memory_min
    asked = 0 if stated is None else size_bytes(stated, budget_bytes)
    return max(seen.tenant.floor_bytes, asked)


def protected(
    collected: Collected, objectives: Objectives, held_first: dict[str, int], share: float
) -> Collected:
    """With floors that leave every tenant `share` of the memory that it had.

    `held_first` is what tenants held when they were first seen, for those without a limit. Where
    the budget has no room for all of that, each gets the same part of it. Nobody is made to grow:
    who fell below for an SLO is held where it is. An operator whose goal is `least_memory` asked
    for memory to be taken: then nothing is protected.
    """
    if objectives.goal is Goal.LEAST_MEMORY or share <= 0:
        return collected
    budget = collected.snapshot.node.budget_bytes
    more = {}
    room, asked = budget, 0
    for cgroup, seen in collected.seen.items():
        objective, first = objectives.of(cgroup), held_first.get(cgroup, 0)
        room -= _least(seen, objective, budget)
        extra = _kept_bytes(seen, objective, first, share, budget) - seen.tenant.floor_bytes
        if extra > 0:
            more[cgroup] = extra
            asked += extra if objective.mode is Mode.AUTO else 0
    part = min(1.0, max(0, room) / asked) if asked else 1.0
    found = dict(collected.seen)
    for cgroup, extra in more.items():
        seen = found[cgroup]
        found[cgroup] = seen.with_floor(seen.tenant.floor_bytes + pages_down(int(extra * part)))
    tenants = tuple(seen.tenant for seen in found.values())
    return replace(collected, snapshot=replace(collected.snapshot, tenants=tenants), seen=found)


def why_floor(seen: Seen, objective: Objective) -> str:
    """Which bound holds a tenant that has its least; empty when it has more, or nothing is done."""
    floor, tenant = seen.tenant.floor_bytes, seen.tenant
    above = tenant.limit_bytes > (1 + AT_FLOOR_SHARE) * floor
    if objective.mode is not Mode.AUTO or above or objective.memory_min is not None:
        return ""
    if floor > seen.wire.floor_bytes:
        return f"at its protected least of {human_bytes(floor)} (least_share of what it had)"
    return f"at its floor of {human_bytes(floor)} (what cannot be reclaimed, and a margin)"
