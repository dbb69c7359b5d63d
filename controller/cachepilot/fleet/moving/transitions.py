# SPDX-License-Identifier: Apache-2.0
"""Transitions that several states of a move share: order, end, rollback, or wait."""

from dataclasses import replace

from cachepilot.domain.moving import Moved, MoveState, Rollout, RolloutState
from cachepilot.fleet.moving.seen.observation import Observation, Order, Step

BY_OPERATOR = "stopped by an operator"


def with_present(rollout: Rollout, moved: Moved, **more: object) -> Rollout:
    """Return the rollout with its present move replaced, and other fields changed."""
    moves = (*rollout.moves[: rollout.at], moved, *rollout.moves[rollout.at + 1 :])
    return replace(rollout, moves=moves, **more)  # type: ignore[arg-type]


def ended(rollout: Rollout, moved: Moved, seen: Observation, state: RolloutState, why: str) -> Step:
    """End a rollout."""
    over = with_present(rollout, moved, state=state, ended_s=seen.now_s, why=why)
    return Step(over, events=(f"{state}: {why}",))


def failed(rollout: Rollout, moved: Moved, seen: Observation, why: str) -> Step:
    """End a rollout because the outcome of a move is unknown."""
    failed = replace(moved, state=MoveState.FAILED, ended_s=seen.now_s, why=why)
    return ended(rollout, failed, seen, RolloutState.FAILED, why)


def turned_back(rollout: Rollout, moved: Moved, seen: Observation, why: str) -> Step:
    """Order that the tenant goes back to its home, and close the target for further tenants."""
    move = moved.move
    if why != BY_OPERATOR:
        rollout = closed(rollout, move.to_node, seen.now_s)
    going = replace(moved, state=MoveState.RETURNING, why=why)
    # If the home is lost, the tenant runs on where it is until the home is back: see `_returning`.
    is_home = not seen.nodes[move.from_node].lost
    order = Order(move.cgroup, move.to_node, move.from_node) if is_home else None
    told = f"{move.cgroup} goes back to {move.from_node}: {why}"
    return Step(with_present(rollout, going, since_s=seen.now_s, why=why), order, (told,))


def strayed(rollout: Rollout, moved: Moved, seen: Observation, most_s: float) -> Step | None:
    """Return the end of a rollout whose tenant is on neither node, or None if it is on one.

    For `most_s` seconds the rollout waits instead: an observation may find the tenant nowhere
    because its definition is just being written.
    """
    move = moved.move
    if (seen.unknown or seen.where is None) and seen.now_s - rollout.since_s <= most_s:
        return held(rollout, seen.unknown or f"{move.cgroup} is on no node")
    if seen.unknown:
        return failed(rollout, moved, seen, f"it is not known where it is: {seen.unknown}")
    if seen.where is None:
        return failed(rollout, moved, seen, f"{move.cgroup} vanished: no node has it")
    if seen.where not in (move.from_node, move.to_node):
        return failed(
            rollout, moved, seen, f"{move.cgroup} is on {seen.where}: another program moved it"
        )
    return None


def closed(rollout: Rollout, node: str, now_s: float) -> Rollout:
    """Close a node for further tenants if the rollout spreads; otherwise change nothing."""
    if not rollout.spreads:
        return rollout
    return replace(rollout, closed=(*rollout.closed, (node, now_s)))


def may_be_lost(before: Rollout, after: Rollout) -> bool:
    """Whether a step that cannot be stored may be taken, although a restart would not know of it.

    It may not if it reduces memory for a rehearsal, orders a page cache to be read, or moves or
    keeps a tenant. Rollbacks and ends do not wait for a disk, and measurements can be repeated.
    """
    was, now = before.moves[before.at], after.moves[before.at]
    if now.state is not MoveState.REHEARSING:
        return now.state not in (MoveState.PREPARING, MoveState.MOVING, MoveState.KEPT)
    begun_s = None if now.rehearsal is None else now.rehearsal.begun_s
    known_s = None if was.rehearsal is None else was.rehearsal.begun_s
    return was.state is MoveState.REHEARSING and begun_s in (None, known_s)


def held(rollout: Rollout, why: str) -> Step:
    """Wait, and record the reason."""
    return Step(replace(rollout, why=why))


def lost(rollout: Rollout, waiting: Moved, seen: Observation, why: str) -> Step:
    """End a rollout because a node is lost for longer than `lost_s`; wait before that."""
    if seen.now_s - rollout.since_s > seen.lost_s:
        return ended(rollout, waiting, seen, RolloutState.STOPPED, why)
    return held(rollout, why)


def before_order(rollout: Rollout, waiting: Moved, seen: Observation) -> Step | None:
    """Return what ends or delays a move that is not ordered yet, or None if it may go on."""
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
    """Order the move."""
    move = moved.move
    # A snapshot from before the order does not prove the arrival.
    seen_s = seen.nodes[move.to_node].time_s
    going = replace(moved, state=MoveState.MOVING, begun_s=seen.now_s, measured_s=seen_s)
    order = Order(move.cgroup, move.from_node, move.to_node)
    told = f"{move.cgroup} goes from {move.from_node} to {move.to_node}"
    return Step(with_present(rollout, going, since_s=seen.now_s, why=""), order, (told,))
