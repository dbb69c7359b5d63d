# SPDX-License-Identifier: Apache-2.0
"""The page cache of a tenant that is to move is read on its target first.

Nothing is lost where that cannot be done, or takes too long: the tenant then moves as it is, and
reads on its new node what is missing.
"""

from dataclasses import replace

from cachepilot.domain.moving import Moved, MoveState, Rollout, RolloutState, Warmth
from cachepilot.fleet.moving import transitions
from cachepilot.fleet.moving.seen.observation import Act, Observation, Order, Step


def _order(moved: Moved, act: Act) -> Order:
    move = moved.move
    return Order(move.cgroup, move.from_node, move.to_node, act, move.limit_bytes)


def begun(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    """Has a page cache read where that is asked; else has the tenant go at once."""
    if not rollout.preparing_s or not moved.move.cold_pages:
        return transitions.ordered(rollout, moved, seen)
    going = replace(moved, state=MoveState.PREPARING, prepared_s=seen.now_s)
    told = f"{moved.move.to_node} reads the page cache of {moved.move.cgroup}, which is to come"
    there = transitions.with_present(rollout, going, since_s=seen.now_s, why="")
    return Step(there, _order(moved, Act.WARM), (told,))


def step(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    """One look at a page cache that is being read."""
    end = _end(rollout, moved, seen)
    if end is not None:
        over = end.rollout.is_over
        return replace(end, order=_order(moved, Act.DROP)) if over else end
    if seen.warmth is Warmth.WARM:
        return transitions.ordered(rollout, replace(moved, read_s=seen.now_s), seen)
    why = seen.refused
    if not why and seen.now_s - (moved.prepared_s or seen.now_s) > rollout.preparing_s:
        why = f"it is not read after {rollout.preparing_s:g} s"
    if why:
        told = f"the page cache of {moved.move.cgroup} is cold on {moved.move.to_node}: {why}"
        gone = transitions.ordered(rollout, moved, seen)
        return replace(gone, events=(told, *gone.events))
    watched = replace(rollout, since_s=seen.now_s, why="")
    return Step(watched, _order(moved, Act.WARM))


def _end(rollout: Rollout, moved: Moved, seen: Observation) -> Step | None:
    """What ends, or holds up, a move that nobody has been ordered to make yet."""
    move, stop = moved.move, RolloutState.STOPPED
    waiting = replace(moved, state=MoveState.WAITING)
    if rollout.is_stopping:
        return transitions.ended(rollout, waiting, seen, stop, transitions.BY_OPERATOR)
    strayed = transitions.strayed(rollout, waiting, seen, seen.lost_s)
    if strayed is not None:
        return strayed
    if seen.where != move.from_node:
        why = f"{move.cgroup} is on {seen.where} already"
        return transitions.ended(rollout, waiting, seen, stop, why)
    lost = [f"node {name}: {one.lost}" for name, one in seen.nodes.items() if one.lost]
    if not lost:
        return None
    is_late = seen.now_s - rollout.since_s > seen.lost_s
    if is_late:
        return transitions.ended(rollout, waiting, seen, stop, lost[0])
    return transitions.held(rollout, lost[0])
