# SPDX-License-Identifier: Apache-2.0
"""The memory that a tenant keeps unasked: a share of what it had before the autopilot came.

What a tenant keeps of its throughput (`keep`) is by its curve, which may be wrong; a share of its
memory bounds what that costs it.
"""

from collections.abc import Mapping
from dataclasses import replace

from cachepilot.domain.objectives.objective import Goal, Mode, Objective, Objectives, size_bytes
from cachepilot.domain.planned import Action
from cachepilot.domain.snapshot import Curves, Snapshot
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sizes import human_bytes, pages_down

AT_FLOOR_SHARE = 0.01
"""Of a floor: a limit that is above it by less is at it; so is a throughput at what is kept."""


def _kept_bytes(
    seen: Seen, objective: Objective, first_bytes: int, share: float, budget_bytes: int
) -> int:
    """The protection of one tenant; 0 where an operator said something else, or nothing is done.

    A pinned limit says something else, a pinned policy does not.
    """
    is_pinned = objective.fixed is not None and objective.fixed.limit_bytes is not None
    if objective.mode is Mode.OBSERVE or objective.memory_min is not None or is_pinned:
        return 0
    kept = pages_down(int(share * min(first_bytes, budget_bytes)))
    if objective.memory_max is not None:
        kept = min(kept, size_bytes(objective.memory_max, budget_bytes))
    return kept


def _least(seen: Seen, objective: Objective, budget_bytes: int) -> int:
    """What a tenant must have without protection, when it is to be planned."""
    if objective.mode is not Mode.AUTO:
        return 0
    stated = objective.memory_min
    asked = 0 if stated is None else size_bytes(stated, budget_bytes)
    return max(seen.tenant.floor_bytes, asked)


def protected(
    collected: Collected,
    objectives: Objectives,
    share: float,
    first_bytes: Mapping[str, int],
    curves: Mapping[str, Curves],
    certain: Mapping[str, Curves],
    first_miss: Mapping[str, float],
) -> Collected:
    """With the first memory of every tenant, floors that leave it `share` of that, and `curves`.

    Where the budget has no room for all of that, each gets the same part of it. Nobody is made to
    grow: who fell below for an SLO is held where it is, see `with_protection_back`. An operator
    whose goal is `least_memory` asked for memory to be taken: then no floor is raised.
    """
    if objectives.goal is Goal.LEAST_MEMORY:
        share = 0.0
    budget = collected.snapshot.node.budget_bytes
    more = {}
    room, asked = collected.snapshot.node.shared_bytes, 0
    for cgroup, seen in collected.seen.items():
        objective, floor = objectives.of(cgroup), seen.tenant.floor_bytes
        room -= _least(seen, objective, budget)
        kept = _kept_bytes(seen, objective, first_bytes[cgroup], share, budget)
        kept = min(kept, seen.limit_bytes)
        if kept > floor:
            more[cgroup] = kept - floor
            asked += more[cgroup] if objective.mode is Mode.AUTO else 0
    part = min(1.0, max(0, room) / asked) if asked else 1.0
    found = {}
    for cgroup, seen in collected.seen.items():
        floor = seen.tenant.floor_bytes + pages_down(int(more.get(cgroup, 0) * part))
        found[cgroup] = seen.with_bounds(
            floor,
            first_bytes[cgroup],
            curves.get(cgroup),
            certain.get(cgroup),
            first_miss[cgroup],
        )
    tenants = tuple(seen.tenant for seen in found.values())
    return replace(collected, snapshot=replace(collected.snapshot, tenants=tenants), seen=found)


def with_protection_back(
    collected: Collected, objectives: Objectives, share: float
) -> tuple[Snapshot, frozenset[str]] | None:
    """With floors that give those back what is protected who fell below; and who they are.

    None where nobody did.
    """
    snapshot, lacking = collected.snapshot, {}
    if objectives.goal is Goal.LEAST_MEMORY:
        return None
    for cgroup, seen in collected.seen.items():
        objective, tenant = objectives.of(cgroup), seen.tenant
        if objective.mode is not Mode.AUTO or tenant.yielded:
            continue
        budget = snapshot.node.budget_bytes
        kept = _kept_bytes(seen, objective, tenant.first_bytes, share, budget)
        if kept > max(seen.limit_bytes, tenant.floor_bytes):
            lacking[cgroup] = replace(tenant, floor_bytes=kept)
    if not lacking:
        return None
    tenants = tuple(lacking.get(one.cgroup, one) for one in snapshot.tenants)
    return replace(snapshot, tenants=tenants), frozenset(lacking)


def why_floor(seen: Seen, objective: Objective) -> str:
    """Which bound holds a tenant that has its least; empty when it has more, or nothing is done."""
    floor, tenant = seen.tenant.floor_bytes, seen.tenant
    above = tenant.limit_bytes > (1 + AT_FLOOR_SHARE) * floor
    if objective.mode is not Mode.AUTO or above or objective.memory_min is not None:
        return ""
    if floor > seen.wire.floor_bytes:
        return f"at its protected least of {human_bytes(floor)} (least_share of what it had)"
    return f"at its floor of {human_bytes(floor)} (what cannot be reclaimed, and a margin)"


def why_kept(seen: Seen, objective: Objective, action: Action) -> str:
    """What a tenant keeps of its first throughput, when it has no more than that; else empty.

    One that is predicted to have less than it is to keep is told so.
    """
    ops, kept_ops = action.throughput_ops, action.kept_ops
    if not 0 < ops <= (1 + AT_FLOOR_SHARE) * kept_ops:
        return ""
    first = f"its throughput at its first memory of {human_bytes(seen.tenant.first_bytes)}"
    asked = f"{100 * objective.keep:g}%"
    if ops >= (1 - AT_FLOOR_SHARE) * kept_ops:
        return f"keeps {asked} of {first}"
    has = f"{100 * objective.keep * ops / kept_ops:.2g}%"
    return f"is predicted {has} of {first}, of which it is to keep {asked}"
