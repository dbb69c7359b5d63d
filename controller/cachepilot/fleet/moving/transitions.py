# SPDX-License-Identifier: Apache-2.0
"""What every state of a move may lead to: an order, an end, a rollback, or to wait on."""

from dataclasses import replace

from cachepilot.domain.moving import Moved, MoveState, Rollout, RolloutState
from cachepilot.fleet.moving.seen.observation import Observation, Order, Step

BY_OPERATOR = "stopped by an operator"


def with_present(rollout: Rollout, moved: Moved, **more: object) -> Rollout:
    """The rollout with another state of its present move, and other values."""
    moves = (*rollout.moves[: rollout.at], moved, *rollout.moves[rollout.at + 1 :])
    return replace(rollout, moves=moves, **more)  # type: ignore[arg-type]


def ended(rollout: Rollout, moved: Moved, seen: Observation, state: RolloutState, why: str) -> Step:
    """The end of a rollout."""
    over = with_present(rollout, moved, state=state, ended_s=seen.now_s, why=why)
    return Step(over, events=(f"{state}: {why}",))


def failed(rollout: Rollout, moved: Moved, seen: Observation, why: str) -> Step:
    """The end of a rollout by a move whose end is unknown."""
    failed = replace(moved, state=MoveState.FAILED, ended_s=seen.now_s, why=why)
    return ended(rollout, failed, seen, RolloutState.FAILED, why)


def turned_back(rollout: Rollout, moved: Moved, seen: Observation, why: str) -> Step:
    """Has the tenant go home."""
    move = moved.move
    if why != BY_OPERATOR:
        rollout = closed(rollout, move.to_node, seen.now_s)
    going = replace(moved, state=MoveState.RETURNING, why=why)
    # One whose home is lost runs on where it is until that is back: see `_returning`.
    is_home = not seen.nodes[move.from_node].lost
    order = Order(move.cgroup, move.to_node, move.from_node) if is_home else None
    told = f"{move.cgroup} goes back to {move.from_node}: {why}"
    return Step(with_present(rollout, going, since_s=seen.now_s, why=why), order, (told,))


def strayed(rollout: Rollout, moved: Moved, seen: Observation, most_s: float) -> Step | None:
    """The end of a rollout whose tenant is on neither node; None where it is on one of them.

    A look that finds it nowhere may meet a file that is being written.
    """
    move = moved.move
    if (seen.unknown or seen.where is None) and seen.now_s - rollout.since_s <= most_s:
        return held(rollout, seen.unknown or f"{move.cgroup} is on no node")
    if seen.unknown:
        return failed(rollout, moved, seen, f"it is not known where it is: {seen.unknown}")
    if seen.where is None:
        return failed(rollout, moved, seen, f"{move.cgroup} vanished: no node has it")
    if seen.where not in (move.from_node, move.to_node):
        return failed(rollout, moved, seen, f"{move.cgroup} is on {seen.where}: others moved it")
    return None


def closed(rollout: Rollout, node: str, now_s: float) -> Rollout:
    """With a node that takes nobody in any more who is spread; others stay as they are."""
    if not rollout.spreads:
        return rollout
    return replace(rollout, closed=(*rollout.closed, (node, now_s)))


def may_be_lost(before: Rollout, after: Rollout) -> bool:
    """Whether a step may be taken that a restart would not know of, as it cannot be stored.

    It may unless memory is taken, a page cache read, or a tenant moved or kept by it: what leads
    back or ends waits for no disk, and what was measured can be measured again.
    """
    was, now = before.moves[before.at], after.moves[before.at]
    if now.state is not MoveState.REHEARSING:
        return now.state not in (MoveState.PREPARING, MoveState.MOVING, MoveState.KEPT)
    begun_s = None if now.rehearsal is None else now.rehearsal.begun_s
    known_s = None if was.rehearsal is None else was.rehearsal.begun_s
    return was.state is MoveState.REHEARSING and begun_s in (None, known_s)


def held(rollout: Rollout, why: str) -> Step:
    """Waits on, and says for what."""
    return Step(replace(rollout, why=why))


def lost(rollout: Rollout, waiting: Moved, seen: Observation, why: str) -> Step:
    """The end of a rollout of which a node is lost for too long; before that it waits."""
    if seen.now_s - rollout.since_s > seen.lost_s:
        return ended(rollout, waiting, seen, RolloutState.STOPPED, why)
    return held(rollout, why)


def before_order(rollout: Rollout, waiting: Moved, seen: Observation) -> Step | None:
    """What ends or holds up a move that nobody has been ordered to make yet; None: it goes on."""
    move, stop = waiting.move, RolloutState.STOPPED
    if rollout.is_stopping:
        return ended(rollout, waiting, seen, stop, BY_OPERATOR)
    elsewhere = strayed(rollout, waiting, seen, seen.lost_s)
    if elsewhere is not None:
        return elsewhere
    if seen.where != move.from_node:
        return ended(rollout, waiting, seen, stop, f"{move.cgroup} is on {seen.where} already")
    for node in (move.from_node, move.to_node):
        if seen.nodes[node].lost:
            return lost(rollout, waiting, seen, f"node {node}: {seen.nodes[node].lost}")
    return None


def ordered(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    """Has the tenant go."""
    move = moved.move
    # What was seen before the order says nothing of its arrival.
    seen_s = seen.nodes[move.to_node].time_s
    going = replace(moved, state=MoveState.MOVING, begun_s=seen.now_s, measured_s=seen_s)
    order = Order(move.cgroup, move.from_node, move.to_node)
    told = f"{move.cgroup} goes from {move.from_node} to {move.to_node}"
    return Step(with_present(rollout, going, since_s=seen.now_s, why=""), order, (told,))
