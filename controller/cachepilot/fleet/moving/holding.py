# SPDX-License-Identifier: Apache-2.0
"""What a running rollout fixes: limits and policies of moving tenants, reserves on targets."""

from collections.abc import Iterator

from cachepilot.domain.consolidation import Move
from cachepilot.domain.moving import Moved, MoveState, Rollout
from cachepilot.sizes import PAGE_BYTES, pages_up

ON_TARGET = (MoveState.MOVING, MoveState.WARMING)


def _rehearsed(rollout: Rollout) -> Iterator[Moved]:
    """Yield the waiting moves whose tenants have the planned memory by a rehearsal."""
    present = rollout.present
    if rollout.is_over or present is None:
        return
    rehearsal = rollout.rehearsal_of(present.drain)
    is_begun = rehearsal is not None and rehearsal.begun_s is not None
    if is_begun and rollout.is_rehearsed(present.drain):
        yield from rollout.going(present.drain)


def pins(rollout: Rollout | None) -> dict[tuple[str, str], Move]:
    """Return the moves whose limit and policy are pinned, by cgroup and node.

    A tenant is pinned on its target while its page cache is read there and while it is judged,
    because there are no curves of it there yet to plan with. It is pinned at home from the start of
    the rehearsal.
    """
    if rollout is None:
        return {}
    found = {(one.move.cgroup, one.move.from_node): one.move for one in _rehearsed(rollout)}
    present = rollout.present
    if rollout.is_over or present is None:
        return found
    if rollout.is_prepared or present.state in ON_TARGET:
        found[present.move.cgroup, present.move.to_node] = present.move
    return found


def limit_of(move: Move) -> int:
    """Return the limit that a tenant is pinned to: whole pages, at least one."""
    return max(PAGE_BYTES, pages_up(move.limit_bytes))


def reserves(rollout: Rollout | None) -> dict[str, dict[str, int]]:
    """Return the bytes reserved for tenants that are to come, by node and cgroup."""
    found: dict[str, dict[str, int]] = {}
    if rollout is None:
        return found
    coming = [one.move for one in _rehearsed(rollout)]
    present, is_reserved = rollout.present, bool(coming) or rollout.spreads
    is_coming = rollout.is_prepared or (present and present.state is MoveState.MOVING)
    if present is not None and is_reserved and is_coming:
        coming.append(present.move)
    for move in coming:
        found.setdefault(move.to_node, {})[move.cgroup] = move.limit_bytes
    return found
