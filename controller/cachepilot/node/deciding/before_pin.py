# SPDX-License-Identifier: Apache-2.0
"""The setting of a tenant before it was pinned, which it gets back when it is unpinned.

In mode `auto` the decider chooses the best setting after a pin. In other modes, and for a tenant
without curves, nothing else would ever change what the pin left behind.
"""

from collections.abc import Container
from dataclasses import dataclass, replace

from cachepilot.domain.objectives.objective import Fixed, Mode, Objective, Objectives
from cachepilot.domain.objectives.pins import fixed
from cachepilot.node.deciding.wish import Wish
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sizes import PAGE_BYTES

NO_LIMIT = 0
"""In place of a limit: the tenant had none."""
NOTHING_PINNED = Fixed()


@dataclass
class BeforePin:
    """What a pin replaced; None for a setting that it does not pin."""

    cgroup_id: int
    policy: str | None = None
    limit_bytes: int | None = None


def note(
    known: dict[str, BeforePin], collected: Collected, objectives: Objectives, away: Container[str]
) -> None:
    """Remember what new pins replace. Forget tenants that are gone, except those `away`."""
    for cgroup, one in list(known.items()):
        seen = collected.seen.get(cgroup)
        if cgroup not in away if seen is None else seen.wire.cgroup_id != one.cgroup_id:
            del known[cgroup]
    for objective in objectives.pinned:
        found, cgroup = objective.fixed, objective.pattern
        if found is None or cgroup not in collected.seen:
            continue
        seen = collected.seen[cgroup]
        before = known.setdefault(cgroup, BeforePin(seen.wire.cgroup_id))
        if found.policy is not None and before.policy is None:
            before.policy = seen.tenant.policy
        if found.limit_bytes is not None and before.limit_bytes is None:
            before.limit_bytes = seen.wire.target_limit_bytes or seen.wire.limit_bytes


def restored(
    known: dict[str, BeforePin],
    collected: Collected,
    objectives: Objectives,
    foreign: Container[str],
) -> tuple[Objectives, dict[str, Wish]]:
    """Return objectives that fix unpinned tenants at their earlier setting, and extra orders.

    The orders remove a limit, which no plan can state. `foreign` are tenants whose limit somebody
    else sets: theirs is left alone. A setting that is restored, or that the autopilot decides, is
    forgotten.
    """
    found, orders = [], {}
    for cgroup, before in list(known.items()):
        seen = collected.seen.get(cgroup)
        if seen is None:
            continue
        objective = objectives.of(cgroup)
        pinned = objective.fixed or NOTHING_PINNED
        left = _left(before, seen, objective, cgroup in foreign)
        before.policy = before.policy if pinned.policy else left.policy
        before.limit_bytes = before.limit_bytes if pinned.limit_bytes else left.limit_bytes
        if before.policy is None and before.limit_bytes is None:
            del known[cgroup]
        if left.policy is not None or left.limit_bytes:
            more = Fixed(left.policy, left.limit_bytes or None, is_over=objective.fixed is None)
            found.append(fixed(objective, cgroup, more))
        if left.limit_bytes == NO_LIMIT:
            orders[cgroup] = Wish(left.policy, NO_LIMIT)
    if not found:
        return objectives, orders
    return replace(objectives, pinned=(*found, *objectives.pinned)), orders


def _left(before: BeforePin, seen: Seen, objective: Objective, is_foreign: bool) -> BeforePin:
    """What is still to be restored: nothing that is pinned, decided, or in force already."""
    pinned = objective.fixed or NOTHING_PINNED
    policy, limit = before.policy, before.limit_bytes
    is_decided = objective.mode is Mode.AUTO and seen.tenant.curves is not None
    if is_decided or pinned.policy is not None or policy == seen.tenant.policy:
        policy = None
    is_there = limit is not None and abs(limit - seen.wire.limit_bytes) < PAGE_BYTES
    if is_decided or pinned.limit_bytes is not None or is_there or is_foreign:
        limit = None
    return BeforePin(before.cgroup_id, policy, limit)
