# SPDX-License-Identifier: Apache-2.0
"""The page cache of a tenant that is to move is read on its target first.

What was ordered by an attempt before is dropped, then the pages are read. After that all who are
on the target are measured again, as they may do other things by now, and the tenant goes. Nothing
is lost where pages cannot be read, or not in time: the tenant then moves as it is, and reads on its
new node what is missing.
"""

from dataclasses import replace

from cachepilot.domain.moving import Moved, MoveState, Rollout, Warmth
from cachepilot.fleet.moving import rehearsing, transitions
from cachepilot.fleet.moving.replan import with_changes
from cachepilot.fleet.moving.seen.observation import Act, Observation, Order, Step


def order_of(moved: Moved, act: Act) -> Order:
    """To read the page cache on the target, or to drop that."""
    move = moved.move
    return Order(move.cgroup, move.from_node, move.to_node, act, move.limit_bytes)


def begun(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    """Has a page cache read where that is asked and was not done; else has the tenant go."""
    is_asked = rollout.preparing_s and moved.move.cold_pages
    if not is_asked or moved.prepared_s is not None:
        return transitions.ordered(rollout, moved, seen)
    going = replace(moved, state=MoveState.PREPARING, prepared_s=seen.now_s)
    told = f"{moved.move.to_node} reads the page cache of {moved.move.cgroup}, which is to come"
    there = transitions.with_present(rollout, going, since_s=seen.now_s, why="")
    return Step(there, order_of(moved, Act.DROP), (told,))


def step(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    """One look at a page cache that is being read."""
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
    # A controller that starts again has yet to ask how far it is.
    if why or (is_late and seen.warmth is not None):
        return _cold(rollout, moved, seen, why)
    reading = replace(moved, warmth=seen.warmth or moved.warmth)
    watched = transitions.with_present(rollout, reading, since_s=seen.now_s, why="")
    return Step(watched, order_of(moved, Act.WARM))


def _cold(rollout: Rollout, moved: Moved, seen: Observation, why: str) -> Step:
    """The tenant goes with what was read so far, with nothing where that is refused."""
    late = f"it is not read after {rollout.preparing_s:g} s"
    told = f"the page cache of {moved.move.cgroup} is cold on {moved.move.to_node}: {why or late}"
    gone = _measured_again(with_changes(rollout, [told]), moved, seen)
    return replace(gone, order=order_of(moved, Act.DROP) if why else None, events=(told,))


def _measured_again(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    waiting = replace(moved, state=MoveState.WAITING, before=(), checks=())
    return Step(transitions.with_present(rollout, waiting, since_s=seen.now_s, why=""))


def unwatched(rollout: Rollout, now_s: float) -> Rollout:
    """The rollout after a time in which nobody watched it, which counts for no time-out.

    Limits may have been others meanwhile: a rehearsal takes memory again.
    """
    moved = rollout.present
    if moved is not None and moved.state is MoveState.REHEARSING and moved.rehearsal is not None:
        anew = rehearsing.again(moved.rehearsal, now_s)
        rollout = transitions.with_present(rollout, replace(moved, rehearsal=anew))
    if moved is not None and moved.state is MoveState.PREPARING and moved.prepared_s is not None:
        gap_s = max(0.0, now_s - rollout.since_s)
        moved = replace(moved, prepared_s=moved.prepared_s + gap_s)
        rollout = transitions.with_present(rollout, moved)
    return replace(rollout, since_s=now_s)


def dropped(before: Rollout, found: Step, seen: Observation) -> Step:
    """Takes back what was ordered where a step ends what it was for, and nobody went there."""
    present = before.present
    if present is None or present.prepared_s is None or seen.where == present.move.to_node:
        return found
    after = found.rollout
    if after.is_over:
        return replace(found, order=order_of(present, Act.DROP))
    if after.is_planned or present.begun_s is not None:
        return found
    # It may go to another node.
    moves = tuple(
        replace(one, prepared_s=None, read_s=None, warmth=None) if one.ended_s is None else one
        for one in after.moves
    )
    return replace(found, rollout=replace(after, moves=moves), order=order_of(present, Act.DROP))
