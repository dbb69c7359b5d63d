# SPDX-License-Identifier: Apache-2.0
"""Replanning of a rollout with the latest measurements: other moves, or fewer.

The terms are explained in `step`.

The rest of a rollout is planned again after each confirmed move and each node that is given up.
The rollout keeps its ordered moves as long as the plan still drains the same nodes. It changes to
another plan if that drains more nodes, or if page caches are cold for a shorter time, where
rehearsals that must be repeated count as well. No plan moves tenants to and fro: a tenant moves
once, a node that tenants left receives none, and a node that received tenants is not drained.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from cachepilot.domain.consolidation import Drain, Plans, Rest
from cachepilot.domain.moving import Moved, MoveState, Rollout, RolloutState
from cachepilot.fleet.moving import holding, rehearsing
from cachepilot.fleet.moving.seen import leaving

CHANGES_MAX = 100
"""How many of the last changes of a rollout are kept."""
NO_ROOM = "its tenants have no room on the other nodes, by the latest measurements"
GONE = "its tenants are not there any more"
NOT_THERE = "it is not there any more"
MOVED = "a tenant that this rollout moved is on it"
TOOK_IN = "this rollout moved tenants to it"
NO_NEED = "its node has room for it now, by the latest measurements"
NO_OTHER = "its node stays short, and no other has room for it, by the latest measurements"


def with_changes(rollout: Rollout, changes: Sequence[str]) -> Rollout:
    """Add descriptions of deviations from what was ordered."""
    return replace(rollout, changes=(*rollout.changes, *changes)[-CHANGES_MAX:])


def new_changes(before: Rollout, after: Rollout) -> tuple[str, ...]:
    """Return the changes that `after` has and `before` has not, of those that are still kept."""
    old, kept = before.changes, after.changes
    most = min(len(old), len(kept))
    known = next((n for n in range(most, 0, -1) if old[-n:] == kept[:n]), 0)
    return kept[known:]


def skipped(rollout: Rollout, node: str, why: str, now_s: float) -> Rollout:
    """Skip the waiting moves of a drain, and go on with the next drain."""
    skips = {one.move.cgroup for one in rollout.going(node)}
    moves = tuple(
        replace(one, state=MoveState.SKIPPED, ended_s=now_s, why=why)
        if one.drain == node and one.move.cgroup in skips
        else one
        for one in rollout.moves
    )
    told = with_changes(replace(rollout, moves=moves), [_not_made(rollout, node, skips, why)])
    return onward(replace(told, is_planned=False), now_s)


def kept(rollout: Rollout, moved: Moved, now_s: float) -> Rollout:
    """Go on after a move was confirmed.

    After the last move of a drain the node may still have tenants that were not to be moved; these
    are recorded in `others`. If that is not known, the node is recorded in `unseen`.
    """
    node, left = moved.drain, moved.left
    others = [(node, cgroup) for cgroup, missing in left.others if not missing] if left else []
    unseen = () if others or leaving.is_known(left) else (node,)
    told = [*(_not_empty(*one) for one in others), *map(_not_seen, unseen)]
    # The next move must be planned with what was measured since the last plan.
    found = replace(
        rollout,
        is_planned=False,
        others=(*rollout.others, *others),
        unseen=(*rollout.unseen, *unseen),
    )
    return onward(with_changes(found, told), now_s)


def _not_made(rollout: Rollout, node: str, cgroups: Iterable[str], why: str) -> str:
    """Return in words that moves off a node are not made."""
    if rollout.spreads:
        return f"not moved from {node}: {', '.join(sorted(cgroups))}: {why}"
    return f"{node} is not drained: {why}"


def _not_empty(node: str, cgroup: str) -> str:
    return f"{node} is not empty: {cgroup} is on it"


def _not_seen(node: str) -> str:
    return f"it is not known whether {node} is empty: it sent too few snapshots"


def onward(rollout: Rollout, now_s: float) -> Rollout:
    """Advance to the next waiting move; if there is none, end the rollout."""
    at = next(
        (i for i, one in enumerate(rollout.moves) if one.state is MoveState.WAITING),
        len(rollout.moves),
    )
    going_on = replace(rollout, at=at, since_s=0.0, why="")
    if at < len(rollout.moves):
        return going_on
    skips: dict[tuple[str, str], list[str]] = {}
    for one in (one for one in rollout.moves if one.state is MoveState.SKIPPED):
        skips.setdefault((one.drain, one.why), []).append(one.move.cgroup)
    whys = [
        f"{_not_made(rollout, node, cgroups, why)}{_made(rollout, node)}"
        for (node, why), cgroups in skips.items()
    ]
    whys += dict.fromkeys(_not_empty(*one) for one in rollout.others)
    whys += map(_not_seen, rollout.unseen)
    is_done = not whys or bool(rollout.kept if rollout.spreads else going_on.emptied)
    state = RolloutState.DONE if is_done else RolloutState.STOPPED
    why = "; ".join(whys) or "all moves were confirmed"
    return replace(going_on, state=state, ended_s=now_s, why=why)


def _made(rollout: Rollout, node: str) -> str:
    """Return in words which tenants left a node that is no longer drained; "" if none did."""
    if rollout.spreads:
        return ""
    gone = [one.move.cgroup for one in rollout.kept if one.drain == node]
    return f" ({', '.join(gone)} moved before, and that is confirmed)" if gone else ""


def rest_of(rollout: Rollout, refused: Iterable[str] = (), closed: Iterable[str] = ()) -> Rest:
    """Return the rest of a rollout as input for the planner.

    Nodes in `refused` are not drained. Nodes in `closed` receive no tenants; neither do the nodes
    that tenants leave while they are spread.
    """
    left = (*rollout.left, *dict(rollout.closed)) if rollout.spreads else ()
    drains = [
        Drain(node, tuple(one.move for one in _ordered(rollout, node)), 0) for node in rollout.left
    ]
    return Rest(
        drains=tuple(drains),
        drainable=frozenset(rollout.left).difference(
            refused, (one.move.to_node for one in rollout.kept)
        ),
        closed=frozenset(one.drain for one in rollout.kept).union(closed, left),
        proven=_proven(rollout),
        spreads=rollout.spreads,
    )


def _proven(rollout: Rollout) -> dict[tuple[str, str], int]:
    """Return the limits that rehearsals proved enough, by the tenant's present node and cgroup."""
    moved = {(one.drain, one.move.cgroup): one.move.to_node for one in rollout.kept}
    return {
        (moved.get((one.drain, move.cgroup), one.drain), move.cgroup): move.limit_bytes
        for one in rollout.moves
        if one.rehearsal is not None
        for move in rehearsing.proven(one.rehearsal)
    }


def _ordered(rollout: Rollout, node: str) -> list[Moved]:
    """Return the waiting moves of a node."""
    return [one for one in rollout.moves if one.drain == node and one.state is MoveState.WAITING]


def _without_return(rollout: Rollout, drains: Sequence[Drain]) -> list[Drain]:
    """Return the drains that move nothing to and fro, the node that is being drained first."""
    rest, moved = rest_of(rollout), {one.move.cgroup for one in rollout.kept}
    found: list[Drain] = []
    for one in sorted(drains, key=lambda one: one.node not in rest.closed):
        left = {*rest.closed, *(other.node for other in found)}
        took_in = {move.to_node for other in found for move in other.moves}
        names, targets = {m.cgroup for m in one.moves}, {m.to_node for m in one.moves}
        is_new = one.node in rest.drainable and one.node not in took_in
        if is_new and names.isdisjoint(moved) and targets.isdisjoint({*left, one.node}):
            found.append(one)
    return found


def _cold_s(rollout: Rollout, drains: Sequence[Drain], again_s: float) -> float:
    """Return for how many seconds page caches are cold, plus the time of repeated rehearsals."""
    again = [
        one.node
        for one in drains
        if rollout.rehearsal_of(one.node) is not None
        and any(moved not in _ordered(rollout, one.node) for moved in _merged(rollout, one))
    ]
    return sum(one.cold_s for one in drains) + again_s * len(again)


def _chosen(rollout: Rollout, plans: Plans, again_s: float) -> list[Drain]:
    """Choose between the plan as ordered and the new plan."""
    ordered = _without_return(rollout, plans.as_ordered)
    anew = _without_return(rollout, plans.anew)
    if len(anew) != len(ordered):
        return max(ordered, anew, key=len)
    is_cheaper = _cold_s(rollout, anew, again_s) < _cold_s(rollout, ordered, again_s)
    same = {one.node for one in anew} == {one.node for one in ordered}
    return anew if same and is_cheaper else ordered


def _merged(rollout: Rollout, drain: Drain) -> list[Moved]:
    """Return the moves of a drain; moves that agree with the rehearsed ones keep their state."""
    was = {one.move.cgroup: one for one in _ordered(rollout, drain.node)}
    found, is_rehearsed = [], rollout.is_rehearsed(drain.node)
    for move in drain.moves:
        old = was.get(move.cgroup)
        stays = (
            is_rehearsed
            and old is not None
            and (old.move.to_node, old.move.policy) == (move.to_node, move.policy)
            and holding.limit_of(move) <= holding.limit_of(old.move)
        )
        found.append(old if stays and old is not None else Moved(move, drain.node))
    if is_rehearsed:
        places = {cgroup: at for at, cgroup in enumerate(was)}
        found.sort(key=lambda one: places.get(one.move.cgroup, len(was)))
    return found


def _changes(
    node: str,
    before: Sequence[Moved],
    after: Sequence[Moved],
    whys: Mapping[str, str],
    spreads: bool,
) -> list[str]:
    """Return in words how a drain differs from before; `whys` give the reasons for who stays."""
    was, goes = {one.move.cgroup: one.move for one in before}, {one.move.cgroup for one in after}
    left = (cgroup for cgroup in was if cgroup not in goes)
    found = [f"{one} is not moved from {node}: {whys[one]}" for one in left]
    for move in (one.move for one in after):
        old = was.get(move.cgroup)
        if old is None:
            why = "leaves it, too" if spreads else "came later"
            found.append(f"{move.cgroup} on {node} {why}, and goes to {move.to_node}")
        elif old.to_node != move.to_node:
            found.append(f"{move.cgroup} goes to {move.to_node}, not to {old.to_node}")
    return found


def _why_stays(rollout: Rollout, node: str, plans: Plans) -> str:
    """Return why a tenant that may still be on a node does not leave it any more."""
    if not rollout.spreads:
        return NOT_THERE
    return NO_OTHER if node in plans.left else NO_NEED


def _why_not(rollout: Rollout, node: str, plans: Plans, gone: Mapping[str, str]) -> str:
    """Return why a node is not drained any more."""
    if all(one.move.cgroup in gone for one in _ordered(rollout, node)):
        return GONE
    if rollout.spreads:
        return _why_stays(rollout, node, plans)
    if node not in rest_of(rollout).drainable:
        return TOOK_IN
    planned = [one for one in (*plans.as_ordered, *plans.anew) if one.node == node]
    moved = {one.move.cgroup for one in rollout.kept}
    if any(not one.moves for one in planned):
        return GONE
    if any(move.cgroup in moved for one in planned for move in one.moves):
        return MOVED
    return NO_ROOM


def replanned(
    rollout: Rollout,
    plans: Plans,
    now_s: float,
    again_s: float = 0.0,
    refused: Mapping[str, str] = MappingProxyType({}),
    gone: Mapping[str, str] = MappingProxyType({}),
) -> Rollout:
    """Return the rollout with the drains of the new plan; nodes outside the plan are not drained.

    A tenant that came to a drained node since is moved, too, as the node would not be empty
    otherwise. If a move of a node differs from the rehearsed one, the rehearsal is repeated, which
    takes `again_s` seconds in addition to the cold page caches. No plan drains nodes in `refused`
    or moves tenants in `gone`; the values of both are the reasons.
    """
    plan = {one.node: one for one in _chosen(rollout, plans, again_s) if one.moves}
    over = tuple(one for one in rollout.moves if one.state is not MoveState.WAITING)
    anew: list[Moved] = []
    changes: list[str] = []
    skips: list[Moved] = []
    for node in [*plan, *(one for one in rollout.left if one not in plan)]:
        before = _ordered(rollout, node)
        if node in plan:
            after = _merged(rollout, plan[node])
            anew += after
            stays = _why_stays(rollout, node, plans)
            whys = {one.move.cgroup: stays for one in before} | dict(gone)
            changes += _changes(node, before, after, whys, rollout.spreads)
        else:
            why = refused.get(node) or _why_not(rollout, node, plans, gone)
            skips += [
                replace(one, state=MoveState.SKIPPED, ended_s=now_s, why=why) for one in before
            ]
            changes.append(_not_made(rollout, node, (one.move.cgroup for one in before), why))
    found = replace(rollout, moves=(*over, *skips, *anew), is_planned=True)
    return onward(with_changes(found, changes), now_s)
