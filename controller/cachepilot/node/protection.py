# SPDX-License-Identifier: Apache-2.0
"""Protected memory: the share of its first memory that a tenant keeps without stating a minimum.

The objective's `keep` bounds how much throughput a tenant may lose, but it relies on the tenant's
curve, which may be wrong. A share of the memory that the tenant had before the autopilot came
(`least_share`) bounds what a wrong curve can cost. A tenant whose policy is unproven keeps all of
its present memory in the same way: nothing shows yet that the curve of that policy is right.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from cachepilot.domain.objectives.objective import Goal, Mode, Objective, Objectives, size_bytes
from cachepilot.domain.planned import Action
from cachepilot.domain.snapshot import Curves, Snapshot
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sizes import human_bytes, pages_down

AT_FLOOR_SHARE = 0.01
"""A limit within this share above a floor counts as at the floor.

A throughput within this share of what is kept counts as what is kept.
"""


def _kept_bytes(
    seen: Seen, objective: Objective, first_bytes: int, share: float, budget_bytes: int
) -> int:
    """The protected memory of one tenant, bytes; 0 if there is none.

    There is none in mode `observe`, in which nothing is changed, and none with a `memory_min` or a
    pinned limit, because an operator has decided then. A pinned policy makes no difference.
    `memory_max` bounds the result.
    """
    is_pinned = objective.fixed is not None and objective.fixed.limit_bytes is not None
    if objective.mode is Mode.OBSERVE or objective.memory_min is not None or is_pinned:
        return 0
    kept = pages_down(int(share * min(first_bytes, budget_bytes)))
    if objective.memory_max is not None:
        kept = min(kept, size_bytes(objective.memory_max, budget_bytes))
    return kept


def _least(seen: Seen, objective: Objective, budget_bytes: int) -> int:
    """The bytes that a tenant must have without protection.

    That is a pinned limit, or in mode `auto` the least memory that is stated.
    """
    if objective.fixed is not None and objective.fixed.limit_bytes is not None:
        return objective.fixed.limit_bytes
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
    unproven: Collection[str] = (),
) -> Collected:
    """Return the node with protected floors, first memories, curves and first miss ratios set.

    A floor leaves a tenant `share` of its first memory, and all of its present memory if its policy
    is `unproven`. If the budget has no room for all floors, each is raised by the same part of what
    it lacks. A floor never exceeds the present limit, so that it makes no tenant grow: one that
    fell below its protected memory for an SLO gets it back by `with_protection_back`. With the goal
    `least_memory` no floor is raised for a share, because the operator asks for memory to be taken.
    """
    if objectives.goal is Goal.LEAST_MEMORY:
        share = 0.0
    budget = collected.snapshot.node.budget_bytes
    more = {}
    room, asked = collected.snapshot.node.shared_bytes, 0
    for cgroup, seen in collected.seen.items():
        objective, floor = objectives.of(cgroup), seen.tenant.floor_bytes
        room -= _least(seen, objective, budget)
        first, part_kept = (
            (seen.limit_bytes, 1.0) if cgroup in unproven else (first_bytes[cgroup], share)
        )
        kept = _kept_bytes(seen, objective, first, part_kept, budget)
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
    """Return the snapshot with floors that restore protected memory, and the tenants concerned.

    These are tenants in mode `auto` whose limit is below their protected memory, except those whose
    limit others set. None if there are none, or with the goal `least_memory`.
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
    """Return which bound holds a tenant at its least memory.

    Empty if the tenant has more, is not in mode `auto`, or has a stated minimum.
    """
    floor, tenant = seen.tenant.floor_bytes, seen.tenant
    above = tenant.limit_bytes > (1 + AT_FLOOR_SHARE) * floor
    if objective.mode is not Mode.AUTO or above or objective.memory_min is not None:
        return ""
    if floor > seen.wire.floor_bytes:
        return f"at its protected least of {human_bytes(floor)} (least_share of its first memory)"
    return f"at its floor of {human_bytes(floor)} (what cannot be reclaimed, and a margin)"


def why_kept(seen: Seen, objective: Objective, action: Action) -> str:
    """Say what a tenant keeps of its first throughput; empty if the plan gives it more.

    If the plan gives it less than that, the text says so.
    """
    ops, kept_ops = action.throughput_ops, action.kept_ops
    if not 0 < ops <= (1 + AT_FLOOR_SHARE) * kept_ops:
        return ""
    first = f"its throughput at its first memory of {human_bytes(seen.tenant.first_bytes)}"
    asked = f"{100 * objective.keep:g}%"
    if ops >= (1 - AT_FLOOR_SHARE) * kept_ops:
        return f"keeps {asked} of {first}"
    has = f"{100 * objective.keep * ops / kept_ops:.2g}%"
    return f"is predicted {has} of {first}, of which it has to keep {asked}"
