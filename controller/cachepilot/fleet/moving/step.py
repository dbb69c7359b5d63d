# SPDX-License-Identifier: Apache-2.0
"""One step of a rollout, a pure function: one move after the other, each confirmed or undone.

A rollout executes a consolidation plan as a list of moves, each of one tenant to another node. A
rollout either drains nodes (all tenants leave) or spreads tenants of nodes that are short of
memory. A rollout that rehearses first tests a drain as a whole: see `rehearsing`. A move waits
until the throughput and SLOs before it are measured. If configured, the target then reads the
tenant's page cache in advance: see `preparing`. The move is ordered, the tenant arrives, the rest
of its page cache warms up, and the move is judged. The first move that misses a check is undone,
and the rollout ends there. After a confirmed move, the rest is planned again before anything
else begins. Which step is due follows from the stored state and from the node to which the provider
(which starts and stops workloads) assigns the tenant. A restarted controller therefore continues
where the last one stopped.
"""

from collections.abc import Callable
from dataclasses import replace

from cachepilot.domain.moving import (
    Moved,
    MoveState,
    Rehearsal,
    Rollout,
    RolloutState,
    Verdict,
)
from cachepilot.fleet.moving import checks, preparing, rehearsing, transitions, warming
from cachepilot.fleet.moving.replan import kept, skipped, with_changes
from cachepilot.fleet.moving.seen import leaving
from cachepilot.fleet.moving.seen.observation import NodeSeen, Observation, Order, Step, TenantSeen
from cachepilot.fleet.moving.seen.patience import BEFORE_WINDOWS


def step(rollout: Rollout, seen: Observation) -> Step:
    """Return the outcome of one observation: the next state, an order, and events to log.

    A rollout that is over stays as it is. A rollout whose rest must be planned again begins
    nothing.
    """
    moved = rollout.present
    if rollout.is_over or moved is None:
        return Step(rollout)
    is_held = not rollout.is_planned and not rollout.is_stopping
    if is_held and moved.state is MoveState.WAITING:
        return Step(rollout)
    return preparing.dropped(rollout, _STEPS[moved.state](rollout, moved, seen), seen)


def _waiting(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    rollout = replace(rollout, since_s=rollout.since_s or seen.now_s)
    end = transitions.before_order(rollout, moved, seen)
    if end is not None:
        return end
    if rollout.rehearses and not rollout.is_rehearsed(moved.drain):
        rehearsal = rehearsing.begun(rollout, moved, seen)
        begun = replace(moved, state=MoveState.REHEARSING, rehearsal=rehearsal)
        return Step(transitions.with_present(rollout, begun, since_s=seen.now_s))
    is_late = seen.now_s - rollout.since_s > seen.lost_s
    return _measured_before(rollout, moved, seen, is_late)


def _rehearsing(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    """Advance the rehearsal of a whole drain, in which no tenant moves yet."""
    rehearsal, stop = moved.rehearsal, RolloutState.STOPPED
    waiting = replace(moved, state=MoveState.WAITING)
    if rollout.is_stopping or rehearsal is None:
        return transitions.ended(rollout, waiting, seen, stop, transitions.BY_OPERATOR)
    lost = [f"node {name}: {one.lost}" for name, one in seen.nodes.items() if one.lost]
    if lost:
        return transitions.lost(rollout, waiting, seen, lost[0])
    if rehearsal.begun_s is None:
        is_late = seen.now_s - rollout.since_s > seen.lost_s
        return _before_rehearsal(rollout, moved, rehearsal, seen, is_late)
    if rehearsal.ready_s is not None:
        return _judged_rehearsal(rollout, waiting, rehearsal, seen)
    drain = rollout.going(moved.drain)
    if rehearsing.is_ready(drain, rehearsal, seen):
        rehearsal = rehearsing.with_checks(drain, rehearsal, seen)
    return Step(
        transitions.with_present(rollout, replace(moved, rehearsal=rehearsal), since_s=seen.now_s)
    )


def _before_rehearsal(
    rollout: Rollout, moved: Moved, rehearsal: Rehearsal, seen: Observation, is_late: bool
) -> Step:
    """Measure the state before the rehearsal; reduce the memory once enough is measured."""
    drain = rollout.going(moved.drain)
    found = rehearsing.before(drain, rehearsal, seen)
    if not is_late and not rehearsing.is_known(found):
        return Step(transitions.with_present(rollout, replace(moved, rehearsal=found)))
    why = rehearsing.missed_before(found)
    if why:
        refused = replace(found, missed_s=seen.now_s)
        waiting = replace(moved, state=MoveState.WAITING, rehearsal=refused)
        return _skipped(rollout, waiting, seen, why)
    begun = replace(moved, rehearsal=replace(found, begun_s=seen.now_s))
    told = f"{moved.drain}: rehearsed with {len(drain)} tenants at the planned limits"
    return Step(
        transitions.with_present(rollout, begun, since_s=seen.now_s, why=""), events=(told,)
    )


def _judged_rehearsal(
    rollout: Rollout, waiting: Moved, rehearsal: Rehearsal, seen: Observation
) -> Step:
    """Judge one more window of a rehearsed drain; begin its first move once all checks are met."""
    drain = rollout.going(waiting.drain)
    found = rehearsing.judged(rehearsal, seen)
    if rehearsing.missed(found):
        refuted = rehearsing.refuted(drain, found, seen.nodes, seen.now_s)
        known = replace(rollout, refuted=(*rollout.refuted, *refuted))
        missed = replace(waiting, rehearsal=replace(found, missed_s=seen.now_s))
        return _skipped(known, missed, seen, rehearsing.told(found))
    if not rehearsing.is_met(found):
        return _rehearsed_on(rollout, waiting, found, seen)
    why = rehearsing.untried(found, seen.operated)
    if why:
        failed = replace(waiting, rehearsal=replace(found, missed_s=seen.now_s))
        return _skipped(rollout, failed, seen, why)
    met = replace(waiting, rehearsal=replace(found, met_s=seen.now_s))
    move = waiting.move
    is_home = move.cgroup in seen.nodes[move.from_node].tenants
    if seen.unknown or seen.where != move.from_node or not is_home:
        return Step(transitions.with_present(rollout, met, since_s=seen.now_s))
    there = checks.tenants_of(move.cgroup, seen.nodes[move.from_node], seen.nodes[move.to_node])
    rehearsed = transitions.with_present(rollout, met)
    known_before = rehearsing.baseline(rehearsed, met)
    told = checks.checks_of(known_before.values(), there)
    measured_s = seen.nodes[move.to_node].time_s
    return preparing.begun(rehearsed, replace(met, checks=told, measured_s=measured_s), seen)


def _rehearsed_on(
    rollout: Rollout, waiting: Moved, rehearsal: Rehearsal, seen: Observation
) -> Step:
    """Wait for more windows; stop the rollout if a node was not measured for too long."""
    silent = rehearsing.silent(rehearsal)
    if silent and seen.now_s - rollout.since_s > seen.lost_s:
        why = f"node {silent[0]}: nothing is measured"
        given_up = replace(waiting, rehearsal=rehearsal)
        return transitions.ended(rollout, given_up, seen, RolloutState.STOPPED, why)
    since_s = rollout.since_s if silent else seen.now_s
    going = replace(
        waiting,
        state=MoveState.REHEARSING,
        rehearsal=rehearsal if silent else rehearsing.awaited(rehearsal),
    )
    return Step(transitions.with_present(rollout, going, since_s=since_s))


def _skipped(rollout: Rollout, moved: Moved, seen: Observation, why: str) -> Step:
    """Skip the moves of a drain, and go on with the next drain or end."""
    after = skipped(transitions.with_present(rollout, moved), moved.drain, why, seen.now_s)
    events = [after.changes[-1]]
    if after.is_over:
        events.append(f"{after.state}: {after.why}")
    return Step(after, events=tuple(events))


def _measured_before(rollout: Rollout, moved: Moved, seen: Observation, is_late: bool) -> Step:
    """Measure the state before the move, and order the move once enough is measured."""
    move, stop = moved.move, RolloutState.STOPPED
    home, target = seen.nodes[move.from_node], seen.nodes[move.to_node]
    if target.time_s == moved.measured_s:
        why = f"node {move.to_node}: nothing is measured"
        return transitions.ended(rollout, moved, seen, stop, why) if is_late else Step(rollout)
    there = checks.tenants_of(move.cgroup, home, target)
    before = checks.more_before(moved.before, there)
    measured = replace(moved, before=before, measured_s=target.time_s)
    windows = {one.cgroup: one.windows for one in before}
    is_home = move.cgroup in home.tenants
    if not is_late and not (is_home and min(windows.values()) >= BEFORE_WINDOWS):
        return Step(transitions.with_present(rollout, measured))
    # A tenant that does nothing can be spread, but not drained: a drain is rehearsed, which needs
    # measurements of the tenant.
    if not is_home or not (windows.get(move.cgroup) or rollout.spreads):
        why = f"nothing is measured of {move.cgroup} on {move.from_node}"
        return transitions.ended(rollout, measured, seen, stop, why)
    poor = checks.missed_before(before)
    missed = [one for one in poor if one != move.cgroup]
    if missed:
        why = f"an SLO of {missed[0]} on {move.to_node} is missed already"
        if rollout.spreads and move.to_node not in dict(rollout.closed):
            return _elsewhere(
                transitions.with_present(rollout, measured), move.to_node, why, seen.now_s
            )
        return transitions.ended(rollout, measured, seen, stop, why)
    did = rehearsing.baseline(rollout, moved)
    # Tenants that left since the rehearsal are not in `before`, and so get no check.
    known = [replace(did.get(one.cgroup, one), slos=one.slos, keep=one.keep) for one in before]
    found = checks.checks_of(known, there, poor if rollout.spreads else ())
    return preparing.begun(rollout, replace(measured, before=(), checks=found), seen)


def _elsewhere(rollout: Rollout, node: str, why: str, now_s: float) -> Step:
    """Close a node for tenants that are spread, and have the rest planned again without it."""
    closed = replace(transitions.closed(rollout, node, now_s), is_planned=False, since_s=0.0)
    told = f"{node} receives no tenants: {why}"
    return Step(with_changes(closed, [told]), events=(told,))


def _moving(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    move = moved.move
    if seen.refused and (seen.unknown or seen.where == move.from_node):
        closed = transitions.closed(rollout, move.to_node, seen.now_s)
        return transitions.failed(closed, moved, seen, seen.refused)
    strayed = transitions.strayed(rollout, moved, seen, seen.lost_s)
    if strayed is not None:
        return strayed
    if seen.where == move.from_node:
        if rollout.is_stopping:
            waiting = replace(moved, state=MoveState.WAITING)
            return transitions.ended(
                rollout, waiting, seen, RolloutState.STOPPED, transitions.BY_OPERATOR
            )
        # The previous controller ended after it stored this state and before it gave the order.
        return Step(rollout, Order(move.cgroup, move.from_node, move.to_node))
    return _arriving(rollout, moved, seen)


def _arriving(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    move = moved.move
    if rollout.is_stopping:
        return transitions.turned_back(rollout, moved, seen, transitions.BY_OPERATOR)
    target = seen.nodes[move.to_node]
    tenant = target.tenants.get(move.cgroup)
    # If the target read the page cache in advance, the tenant's cgroup exists there before the
    # tenant arrives, and shows page accesses. Only operations prove the arrival then, unless the
    # tenant did none at home.
    is_told_apart = moved.prepared_s is not None and checks.was_active(moved.checks, move.cgroup)
    is_there = tenant is not None and (not is_told_apart or tenant.ops)
    # A snapshot from before the order may show an earlier tenant of the same name: do not count it.
    if not target.lost and is_there and target.time_s != moved.measured_s:
        warming = replace(
            moved, state=MoveState.WARMING, arrived_s=seen.now_s, measured_s=target.time_s
        )
        told = f"{move.cgroup} is on {move.to_node}"
        return Step(transitions.with_present(rollout, warming, since_s=seen.now_s), events=(told,))
    if seen.now_s - rollout.since_s > seen.lost_s:
        why = target.lost or "it does not appear there"
        return transitions.turned_back(rollout, moved, seen, f"node {move.to_node}: {why}")
    return Step(rollout)


def _warming(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    move = moved.move
    strayed = transitions.strayed(rollout, moved, seen, seen.lost_s)
    if strayed is not None:
        return strayed
    if seen.where == move.from_node:
        back = replace(moved, state=MoveState.RETURNED, ended_s=seen.now_s)
        why = f"{move.cgroup} is on {move.from_node} again: another program moved it"
        return transitions.ended(rollout, back, seen, RolloutState.STOPPED, why)
    if rollout.is_stopping:
        return transitions.turned_back(rollout, moved, seen, transitions.BY_OPERATOR)
    moved = leaving.watched(rollout, moved, seen)
    rollout = transitions.with_present(rollout, moved)
    target = seen.nodes[move.to_node]
    tenant = target.tenants.get(move.cgroup)
    if not target.lost and tenant is not None and target.time_s != moved.measured_s:
        return _measured(rollout, moved, seen, target, tenant)
    if seen.now_s - rollout.since_s > seen.lost_s:
        gone = "nothing is measured" if tenant else f"{move.cgroup} is not there any more"
        return transitions.turned_back(
            rollout, moved, seen, f"node {move.to_node}: {target.lost or gone}"
        )
    return Step(rollout)


def _measured(
    rollout: Rollout, moved: Moved, seen: Observation, target: NodeSeen, tenant: TenantSeen
) -> Step:
    """Add one more snapshot of the target; it counts once the page cache is warm."""
    judged = warming.with_snapshot(moved, seen.now_s, target.time_s, tenant)
    if judged.warm_s is None:
        return Step(transitions.with_present(rollout, judged, since_s=seen.now_s))
    looks = moved.looks + 1
    found = checks.taken(moved.checks, target.tenants, looks, seen.lost_looks)
    return _judged(rollout, replace(judged, checks=found, looks=looks), seen)


def _judged(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    missed = checks.missed(moved.checks)
    if missed:
        return transitions.turned_back(rollout, moved, seen, "; ".join(map(checks.told, missed)))
    is_open = any(one.verdict is Verdict.OPEN for one in moved.checks)
    if is_open or leaving.is_awaited(moved, seen):
        return Step(transitions.with_present(rollout, moved, since_s=seen.now_s))
    stays = replace(moved, state=MoveState.KEPT, ended_s=seen.now_s)
    after = kept(transitions.with_present(rollout, stays), stays, seen.now_s)
    told = [f"{moved.move.cgroup} stays on {moved.move.to_node}"]
    if moved.drain in after.emptied:
        told.append(f"node {moved.drain} is empty")
    told += [f"{cgroup} is on node {node}" for node, cgroup in after.others[len(rollout.others) :]]
    if after.is_over:
        told.append(f"{after.state}: {after.why}")
    return Step(after, events=tuple(told))


def _returning(rollout: Rollout, moved: Moved, seen: Observation) -> Step:
    move = moved.move
    if seen.where == move.from_node and not seen.unknown:
        back = replace(moved, state=MoveState.RETURNED, ended_s=seen.now_s)
        state = RolloutState.STOPPED if rollout.is_stopping else RolloutState.TURNED_BACK
        return transitions.ended(rollout, back, seen, state, moved.why)
    if not seen.refused:
        strayed = transitions.strayed(rollout, moved, seen, seen.return_s)
        if strayed is not None:
            return strayed
    lost = seen.nodes[move.from_node].lost
    if seen.now_s - rollout.since_s > seen.return_s:
        why = seen.refused or (
            f"node {move.from_node}: {lost}" if lost else "no program carries the order out"
        )
        why = f"{moved.why}; {move.cgroup} could not be moved back from {move.to_node}: {why}"
        return transitions.failed(rollout, moved, seen, why)
    if lost:
        return transitions.held(rollout, f"node {move.from_node}: {lost}")
    return Step(rollout, Order(move.cgroup, move.to_node, move.from_node))


_STEPS: dict[MoveState, Callable[[Rollout, Moved, Observation], Step]] = {
    MoveState.WAITING: _waiting,
    MoveState.REHEARSING: _rehearsing,
    MoveState.PREPARING: preparing.step,
    MoveState.MOVING: _moving,
    MoveState.WARMING: _warming,
    MoveState.RETURNING: _returning,
}
"""The function for each state of a move; a move in any other state is over."""
