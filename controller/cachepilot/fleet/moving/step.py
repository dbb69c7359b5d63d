# SPDX-License-Identifier: Apache-2.0
"""One step of a rollout, a pure function: move by move, each kept or undone.

A move waits until what was is measured, is ordered, arrives, warms its page cache, and is then
judged. The first that is missed is undone, and the rollout ends there. What is under way is known
from the state and from where the provider says that the tenant is: a controller that starts again
goes on from there.
"""

from collections.abc import Callable
from dataclasses import replace

from cachepilot.domain.moving import Moved, MoveState, Rollout, RolloutState, Verdict
from cachepilot.fleet.moving import checks
from cachepilot.fleet.moving.observation import NodeSeen, Observation, Order, Step, TenantSeen

LOST_S = 30.0
"""So long nothing may be measured, or a tenant take to appear, before a move is given up."""
RETURN_S = 300.0
"""So long it is tried to move a tenant back."""
COLD_TIMES = 3.0
COLD_MORE_S = 30.0
"""A page cache counts as warm after so many times what was predicted, and so much more."""
QUIET_S = 2.0
QUIET_SHARE = 0.01
"""It counts as warm once it grew by less than this share of its limit per second, for so long."""
BY_OPERATOR = "stopped by an operator"


def warm_after_s(moved: Moved) -> float:
    """So long after its arrival a tenant's page cache counts as warm at the latest."""
    return COLD_TIMES * moved.move.cold_s + COLD_MORE_S


def step(rollout: Rollout, seen: Observation) -> Step:
    """What comes of one look. A rollout that is over stays as it is."""
    moved = rollout.present
    if rollout.is_over or moved is None:
        return Step(rollout)
    return _STEPS[moved.state](rollout, moved, seen)


def _with(rollout: Rollout, moved: Moved, **more: object) -> Rollout:
    moves = (*rollout.moves[: rollout.at], moved, *rollout.moves[rollout.at + 1 :])
    return replace(rollout, moves=moves, **more)  # type: ignore[arg-type]


def _ended(
    rollout: Rollout, moved: Moved, seen: Observation, state: RolloutState, why: str
) -> Step:
    over = _with(rollout, moved, state=state, ended_s=seen.now_s, why=why)
    return Step(over, events=(f"{state}: {why}",))


def _failed(rollout: Rollout, moved: Moved, seen: Observation, why: str) -> Step:
    failed = replace(moved, state=MoveState.FAILED, ended_s=seen.now_s, why=why)
    return _ended(rollout, failed, seen, RolloutState.FAILED, why)


def _return(rollout: Rollout, moved: Moved, seen: Observation, why: str) -> Step:
    move = moved.move
    going = replace(moved, state=MoveState.RETURNING, why=why)
    # One whose home is lost runs on where it is until that is back: see `_returning`.
    is_home = not seen.nodes[move.from_node].lost
    order = Order(move.cgroup, move.to_node, move.from_node) if is_home else None
    told = f"{move.cgroup} goes back to {move.from_node}: {why}"
    return Step(_with(rollout, going, since_s=seen.now_s, why=why), order, (told,))


def _strayed(
    rollout: Rollout, moved: Moved, seen: Observation, most_s: float = LOST_S
) -> Step | None:
    """The end of a rollout whose tenant is on neither node; None where it is on one of them.

    A look that finds it nowhere may meet a file that is being written.
    """
    move = moved.move
    if (seen.unknown or seen.where is None) and seen.now_s - rollout.since_s <= most_s:
        return _held(rollout, seen.unknown or f"{move.cgroup} is on no node")
    if seen.unknown:
        return _failed(rollout, moved, seen, f"it is not known where it is: {seen.unknown}")
    if seen.where is None:
        return _failed(rollout, moved, seen, f"{move.cgroup} vanished: no node has it")
    if seen.where not in (move.from_node, move.to_node):
        return _failed(rollout, moved, seen, f"{move.cgroup} is on {seen.where}: others moved it")
    return None


def _waiting(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    move, stop = moved.move, RolloutState.STOPPED
    if rollout.is_stopping:
        return _ended(rollout, moved, seen, stop, BY_OPERATOR)
    rollout = replace(rollout, since_s=rollout.since_s or seen.now_s)
    strayed = _strayed(rollout, moved, seen)
    if strayed is not None:
        return strayed
    if seen.where != move.from_node:
        return _ended(rollout, moved, seen, stop, f"{move.cgroup} is on {seen.where} already")
    is_late = seen.now_s - rollout.since_s > LOST_S
    for node in (move.from_node, move.to_node):
        lost = seen.nodes[node].lost
        if lost:
            why = f"node {node}: {lost}"
            return _ended(rollout, moved, seen, stop, why) if is_late else _held(rollout, why)
    return _measured_before(rollout, moved, seen, is_late)


def _measured_before(rollout: Rollout, moved: Moved, seen: Observation, is_late: bool) -> Step:
    """Measures what is, and orders the move once that is known."""
    move, stop = moved.move, RolloutState.STOPPED
    home, target = seen.nodes[move.from_node], seen.nodes[move.to_node]
    if target.time_s == moved.measured_s:
        why = f"node {move.to_node}: nothing is measured"
        return _ended(rollout, moved, seen, stop, why) if is_late else Step(rollout)
    there = checks.tenants_of(move.cgroup, home, target)
    before = checks.more_before(moved.before, there)
    measured = replace(moved, before=before, measured_s=target.time_s)
    windows = {one.cgroup: one.windows for one in before}
    if not is_late and min(windows.values(), default=0) < checks.BEFORE_WINDOWS:
        return Step(_with(rollout, measured))
    if not windows.get(move.cgroup):
        why = f"nothing is measured of {move.cgroup} on {move.from_node}"
        return _ended(rollout, measured, seen, stop, why)
    missed = checks.missed_before(one for one in before if one.cgroup != move.cgroup)
    if missed:
        why = f"an SLO of {missed[0]} on {move.to_node} is missed as it is"
        return _ended(rollout, measured, seen, stop, why)
    found = checks.checks_of(before, there)
    return _order(rollout, replace(measured, before=(), checks=found), seen)


def _held(rollout: Rollout, why: str) -> Step:
    return Step(replace(rollout, why=why))


def _order(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    move = moved.move
    going = replace(moved, state=MoveState.MOVING, begun_s=seen.now_s)
    order = Order(move.cgroup, move.from_node, move.to_node)
    told = f"{move.cgroup} goes from {move.from_node} to {move.to_node}"
    return Step(_with(rollout, going, since_s=seen.now_s, why=""), order, (told,))


def _moving(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    move = moved.move
    if seen.refused and (seen.unknown or seen.where == move.from_node):
        return _failed(rollout, moved, seen, seen.refused)
    strayed = _strayed(rollout, moved, seen)
    if strayed is not None:
        return strayed
    if seen.where == move.from_node:
        if rollout.is_stopping:
            waiting = replace(moved, state=MoveState.WAITING)
            return _ended(rollout, waiting, seen, RolloutState.STOPPED, BY_OPERATOR)
        # The controller ended between what it stored and what it ordered.
        return Step(rollout, Order(move.cgroup, move.from_node, move.to_node))
    return _arriving(rollout, moved, seen)


def _arriving(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    move = moved.move
    if rollout.is_stopping:
        return _return(rollout, moved, seen, BY_OPERATOR)
    target = seen.nodes[move.to_node]
    # A snapshot of before the order, from when another of this name was there, says nothing.
    if not target.lost and move.cgroup in target.tenants and target.time_s != moved.measured_s:
        warming = replace(
            moved, state=MoveState.WARMING, arrived_s=seen.now_s, measured_s=target.time_s
        )
        told = f"{move.cgroup} is on {move.to_node}"
        return Step(_with(rollout, warming, since_s=seen.now_s), events=(told,))
    if seen.now_s - rollout.since_s > LOST_S:
        why = target.lost or "it does not appear there"
        return _return(rollout, moved, seen, f"node {move.to_node}: {why}")
    return Step(rollout)


def _warming(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    move = moved.move
    strayed = _strayed(rollout, moved, seen)
    if strayed is not None:
        return strayed
    if seen.where == move.from_node:
        back = replace(moved, state=MoveState.RETURNED, ended_s=seen.now_s)
        why = f"{move.cgroup} is on {move.from_node} again: others moved it"
        return _ended(rollout, back, seen, RolloutState.STOPPED, why)
    if rollout.is_stopping:
        return _return(rollout, moved, seen, BY_OPERATOR)
    target = seen.nodes[move.to_node]
    tenant = target.tenants.get(move.cgroup)
    if not target.lost and tenant is not None and target.time_s != moved.measured_s:
        return _measured(rollout, moved, seen, target, tenant)
    if seen.now_s - rollout.since_s > LOST_S:
        gone = "nothing is measured" if tenant else f"{move.cgroup} is not there any more"
        return _return(rollout, moved, seen, f"node {move.to_node}: {target.lost or gone}")
    return Step(rollout)


def _measured(
    rollout: Rollout, moved: Moved, seen: Observation, target: NodeSeen, tenant: TenantSeen
) -> Step:
    """One more snapshot of the target, which counts once the page cache is warm."""
    # A node's clock may go back.
    move, elapsed_s = moved.move, max(0.0, target.time_s - moved.measured_s)
    grew = tenant.held_bytes - moved.held_bytes
    is_quiet = moved.held_bytes > 0 and grew <= QUIET_SHARE * tenant.limit_bytes * elapsed_s
    quiet_s = moved.quiet_s + elapsed_s if is_quiet else 0.0
    is_warm = moved.warm_s is not None or (
        (tenant.is_full and tenant.limit_bytes >= move.limit_bytes)
        or quiet_s >= QUIET_S
        or seen.now_s - (moved.arrived_s or seen.now_s) > warm_after_s(moved)
    )
    judged = replace(
        moved,
        measured_s=target.time_s,
        warm_s=(moved.warm_s or seen.now_s) if is_warm else None,
        held_bytes=tenant.held_bytes,
        quiet_s=quiet_s,
    )
    if not is_warm:
        return Step(_with(rollout, judged, since_s=seen.now_s))
    found = checks.taken(moved.checks, target.tenants)
    if moved.looks + 1 >= checks.LOOKS_MAX:
        found = checks.without_doubt(found)
    return _judged(rollout, replace(judged, checks=found, looks=moved.looks + 1), seen)


def _judged(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    missed = checks.missed(moved.checks)
    if missed:
        return _return(rollout, moved, seen, "; ".join(map(checks.told, missed)))
    if any(one.verdict is Verdict.OPEN for one in moved.checks):
        return Step(_with(rollout, moved, since_s=seen.now_s))
    kept = replace(moved, state=MoveState.KEPT, ended_s=seen.now_s)
    after = replace(_with(rollout, kept, since_s=0.0), at=rollout.at + 1)
    told = [f"{moved.move.cgroup} stays on {moved.move.to_node}"]
    if kept.drain in after.emptied:
        told.append(f"node {kept.drain} is empty")
    if after.present is None:
        after = replace(
            after, state=RolloutState.DONE, ended_s=seen.now_s, why="all moves were kept"
        )
        told.append("done: all moves were kept")
    return Step(after, events=tuple(told))


def _returning(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    move = moved.move
    if seen.where == move.from_node and not seen.unknown:
        back = replace(moved, state=MoveState.RETURNED, ended_s=seen.now_s)
        state = RolloutState.STOPPED if rollout.is_stopping else RolloutState.TURNED_BACK
        return _ended(rollout, back, seen, state, moved.why)
    if not seen.refused:
        strayed = _strayed(rollout, moved, seen, RETURN_S)
        if strayed is not None:
            return strayed
    lost = seen.nodes[move.from_node].lost
    if seen.now_s - rollout.since_s > RETURN_S:
        why = seen.refused or (
            f"node {move.from_node}: {lost}" if lost else "nobody carries the order out"
        )
        why = f"{moved.why}; {move.cgroup} could not be moved back from {move.to_node}: {why}"
        return _failed(rollout, moved, seen, why)
    if lost:
        return _held(rollout, f"node {move.from_node}: {lost}")
    return Step(rollout, Order(move.cgroup, move.to_node, move.from_node))


_STEPS: dict[MoveState, Callable[[Rollout, Moved, Observation], Step]] = {
    MoveState.WAITING: _waiting,
    MoveState.MOVING: _moving,
    MoveState.WARMING: _warming,
    MoveState.RETURNING: _returning,
}
"""What is done in each state; a move in any other is over."""
