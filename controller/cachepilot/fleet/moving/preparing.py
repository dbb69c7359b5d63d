# SPDX-License-Identifier: Apache-2.0
"""Reading a tenant's page cache on the target node before the tenant moves.

First, the pages of an earlier attempt are dropped; then the page cache is read. Afterwards all
tenants on the target are measured again, as their load may have changed meanwhile, and the tenant
moves. Nothing is lost if the pages cannot be read, or not in time: the tenant then moves as it is
and reads the missing pages on its new node.
"""

from dataclasses import replace

from cachepilot.domain.moving import Moved, MoveState, Rollout, Warmth
from cachepilot.fleet.moving import rehearsing, transitions
from cachepilot.fleet.moving.replan import with_changes
from cachepilot.fleet.moving.seen.observation import Act, Observation, Order, Step


def order_of(moved: Moved, act: Act) -> Order:
    """Return the order to read (`Act.WARM`) or to drop (`Act.DROP`) a page cache on the target."""
    move = moved.move
    return Order(move.cgroup, move.from_node, move.to_node, act, move.limit_bytes)


def begun(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    """Begin to read the page cache if configured and not done yet; otherwise order the move."""
    is_asked = rollout.preparing_s and moved.move.cold_pages
    if not is_asked or moved.prepared_s is not None:
        return transitions.ordered(rollout, moved, seen)
    going = replace(moved, state=MoveState.PREPARING, prepared_s=seen.now_s)
    told = f"{moved.move.to_node} reads the page cache of {moved.move.cgroup}, which is to come"
    there = transitions.with_present(rollout, going, since_s=seen.now_s, why="")
    return Step(there, order_of(moved, Act.DROP), (told,))


def step(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    """Process one observation of a page cache that is being read."""
    waiting = replace(moved, state=MoveState.WAITING)
    end = transitions.before_order(rollout, waiting, seen)
    if end is not None:
        return end
    if seen.warmth is Warmth.WARM:
        return _measured_again(rollout, replace(moved, read_s=seen.now_s), seen)
    why = seen.refused
    if moved.warmth is Warmth.READING and seen.warmth is Warmth.LISTING:
        why = f"{moved.move.to_node} gave it up"
    is_late = seen.now_s - (moved.prepared_s or seen.now_s) > rollout.preparing_s
    # A restarted controller has not asked for the progress yet: `warmth` is None.
    if why or (is_late and seen.warmth is not None):
        return _cold(rollout, moved, seen, why)
    reading = replace(moved, warmth=seen.warmth or moved.warmth)
    watched = transitions.with_present(rollout, reading, since_s=seen.now_s, why="")
    return Step(watched, order_of(moved, Act.WARM))


def _cold(rollout: Rollout, moved: Moved, seen: Observation, why: str) -> Step:
    """Move the tenant with the pages read so far; drop them if the provider refused."""
    late = f"it is not read after {rollout.preparing_s:g} s"
    told = f"the page cache of {moved.move.cgroup} is cold on {moved.move.to_node}: {why or late}"
    gone = _measured_again(with_changes(rollout, [told]), moved, seen)
    return replace(gone, order=order_of(moved, Act.DROP) if why else None, events=(told,))


def _measured_again(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    waiting = replace(moved, state=MoveState.WAITING, before=(), checks=())
    return Step(transitions.with_present(rollout, waiting, since_s=seen.now_s, why=""))


def unwatched(rollout: Rollout, now_s: float) -> Rollout:
    """Extend the time-outs of a rollout by a time in which no controller watched it.

    The limits may have been different in that time, so a rehearsal is restarted.
    """
    moved = rollout.present
    if moved is not None and moved.state is MoveState.REHEARSING and moved.rehearsal is not None:
        anew = rehearsing.again(moved.rehearsal, now_s)
        rollout = transitions.with_present(rollout, replace(moved, rehearsal=anew))
    if moved is not None and moved.state is MoveState.PREPARING and moved.prepared_s is not None:
        gap_s = max(0.0, now_s - rollout.since_s)
        moved = replace(moved, prepared_s=moved.prepared_s + gap_s)
        rollout = transitions.with_present(rollout, moved)
    if moved is not None and moved.left is not None:
        moved = replace(moved, left=replace(moved.left, heard_s=now_s))
        rollout = transitions.with_present(rollout, moved)
    return replace(rollout, since_s=now_s)


def dropped(before: Rollout, found: Step, seen: Observation) -> Step:
    """Order to drop a page cache that was read if a step ends its purpose before the move."""
    present = before.present
    if present is None or present.prepared_s is None or seen.where == present.move.to_node:
        return found
    after = found.rollout
    if after.is_over:
        return replace(found, order=order_of(present, Act.DROP))
    if after.is_planned or present.begun_s is not None:
        return found
    # The new plan may send the tenant to another node.
    moves = tuple(
        replace(one, prepared_s=None, read_s=None, warmth=None) if one.ended_s is None else one
        for one in after.moves
    )
    return replace(found, rollout=replace(after, moves=moves), order=order_of(present, Act.DROP))
