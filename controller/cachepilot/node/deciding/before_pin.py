# SPDX-License-Identifier: Apache-2.0
"""What a tenant had before it was pinned, which it gets back once it is unpinned.

In mode `auto` the decider chooses what is best. In the other modes, and where a tenant has no
curves to decide by, nothing else would ever change what the pin left behind.
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
    """What a pin replaced, as far as it pins it; None for what it leaves alone."""

    cgroup_id: int
    policy: str | None = None
    limit_bytes: int | None = None


def note(
    known: dict[str, BeforePin], collected: Collected, objectives: Objectives, away: Container[str]
) -> None:
    """Remembers what pins replace, of those that are new, and forgets tenants that are gone."""
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
    """Objectives that fix what is unpinned where it was before, and orders that no plan can state.

    Limits of those that are `foreign` are left to who else sets them. What a tenant has back, or
    the autopilot decides, is forgotten.
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
            orders[cgroup] = Wish(left.policy, NO_LIMIT, ordered=True)
    if not found:
        return objectives, orders
    return replace(objectives, pinned=(*found, *objectives.pinned)), orders


def _left(before: BeforePin, seen: Seen, objective: Objective, is_foreign: bool) -> BeforePin:
    """What is yet to be restored: not what is pinned or decided, nor what the tenant has."""
    pinned = objective.fixed or NOTHING_PINNED
    policy, limit = before.policy, before.limit_bytes
    is_decided = objective.mode is Mode.AUTO and seen.tenant.curves is not None
    if is_decided or pinned.policy is not None or policy == seen.tenant.policy:
        policy = None
    is_there = limit is not None and abs(limit - seen.wire.limit_bytes) < PAGE_BYTES
    if is_decided or pinned.limit_bytes is not None or is_there or is_foreign:
        limit = None
    return BeforePin(before.cgroup_id, policy, limit)
