# SPDX-License-Identifier: Apache-2.0
"""A rollout that goes on with what was measured meanwhile: other moves, or fewer."""

from collections.abc import Sequence
from dataclasses import replace

from cachepilot.domain.consolidation import Drain
from cachepilot.domain.moving import Moved, MoveState, Rollout, RolloutState
from cachepilot.fleet.moving.rehearsing import going

CHANGES_MAX = 100
"""So many of the last changes of a rollout are kept."""
NO_ROOM = "its tenants have no room on the other nodes, by what was measured since"


def with_changes(rollout: Rollout, changes: Sequence[str]) -> Rollout:
    """With more of what came to be other than it was ordered."""
    return replace(rollout, changes=(*rollout.changes, *changes)[-CHANGES_MAX:])


def left(rollout: Rollout) -> list[str]:
    """Nodes that are still to be drained, in their order."""
    waiting = [one.drain for one in rollout.moves if one.state is MoveState.WAITING]
    return list(dict.fromkeys(waiting))


def skipped(rollout: Rollout, node: str, why: str, now_s: float) -> Rollout:
    """Without the moves of a drain that were not made yet; goes on with the next drain."""
    skips = {one.move.cgroup for one in going(rollout, node)}
    moves = tuple(
        replace(one, state=MoveState.SKIPPED, ended_s=now_s, why=why)
        if one.drain == node and one.move.cgroup in skips
        else one
        for one in rollout.moves
    )
    told = with_changes(replace(rollout, moves=moves), [f"{node} is not drained: {why}"])
    return onward(replace(told, is_planned=False), now_s)


def onward(rollout: Rollout, now_s: float) -> Rollout:
    """Goes on with the next move that waits; over when there is none."""
    at = next(
        (i for i, one in enumerate(rollout.moves) if one.state is MoveState.WAITING),
        len(rollout.moves),
    )
    going_on = replace(rollout, at=at, since_s=0.0, why="")
    if at < len(rollout.moves):
        return going_on
    whys = dict.fromkeys(
        f"{one.drain} is not drained: {one.why}"
        for one in rollout.moves
        if one.state is MoveState.SKIPPED
    )
    is_done = not whys or bool(going_on.emptied)
    state = RolloutState.DONE if is_done else RolloutState.STOPPED
    why = "; ".join(whys) or "all moves were kept"
    return replace(going_on, state=state, ended_s=now_s, why=why)


def _changes(node: str, before: Sequence[Moved], drain: Drain) -> list[str]:
    """By what a drain differs from what it was before, in words."""
    was, found = {one.move.cgroup: one.move for one in before}, []
    for move in drain.moves:
        old = was.get(move.cgroup)
        if old is None:
            found.append(f"{move.cgroup} on {node} came later, and goes to {move.to_node}")
        elif old.to_node != move.to_node:
            found.append(f"{move.cgroup} goes to {move.to_node}, not to {old.to_node}")
    return found


def replanned(rollout: Rollout, drains: Sequence[Drain], now_s: float) -> Rollout:
    """With the drains as they are planned now; a node that is planned no more is not drained.

    A tenant that came to a node since goes along: without it the node would not be empty.
    """
    plan = {one.node: one for one in drains if one.moves}
    names = left(rollout)
    over = tuple(one for one in rollout.moves if one.state is not MoveState.WAITING)
    anew: list[Moved] = []
    changes: list[str] = []
    gone: list[Moved] = []
    for node in [
        *(one for one in plan if one in names),
        *(one for one in names if one not in plan),
    ]:
        before = [one for one in rollout.of_drain(node) if one.state is MoveState.WAITING]
        if node in plan:
            anew += [Moved(move, node) for move in plan[node].moves]
            changes += _changes(node, before, plan[node])
        else:
            skips = (replace(one, state=MoveState.SKIPPED, ended_s=now_s) for one in before)
            gone += [replace(one, why=NO_ROOM) for one in skips]
            changes.append(f"{node} is not drained: {NO_ROOM}")
    found = replace(rollout, moves=(*over, *gone, *anew), is_planned=True)
    return onward(with_changes(found, changes), now_s)
