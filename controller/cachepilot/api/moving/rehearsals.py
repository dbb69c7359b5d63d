# SPDX-License-Identifier: Apache-2.0
"""Views of a rollout's rehearsals: which tenants are measured against which targets, until when."""

from cachepilot.api.shapes.rollout import MovedView, RehearsalView, RehearsedView, RolloutView
from cachepilot.domain.consolidation import Move
from cachepilot.domain.moving import (
    KEEP,
    Check,
    Refuted,
    Rehearsal,
    RehearsalState,
    Rollout,
    Verdict,
)
from cachepilot.domain.units import DAY_S
from cachepilot.fleet.moving.checks import looks_left
from cachepilot.fleet.moving.judging import WINDOWS
from cachepilot.fleet.moving.rehearsing import SETTLED_S, is_enough
from cachepilot.fleet.moving.seen.patience import BEFORE_WINDOWS

RUNNING = (RehearsalState.MEASURING, RehearsalState.SETTLING, RehearsalState.JUDGED)


def rollout_view(rollout: Rollout, now_s: float, interval_s: float) -> RolloutView:
    """Return the view of a rollout at `now_s`."""
    drains = dict.fromkeys(one.drain for one in rollout.moves) if rollout.rehearses else ()
    return RolloutView(
        id=rollout.id,
        spreads=rollout.spreads,
        state=rollout.state,
        by=rollout.by,
        begun_s=rollout.begun_s,
        ended_s=rollout.ended_s,
        is_stopping=rollout.is_stopping,
        at=rollout.at,
        emptied=rollout.emptied,
        moves=[MovedView.of(one) for one in rollout.moves],
        why=rollout.why,
        changes=list(rollout.changes),
        rehearsals=[_rehearsal(rollout, node, now_s, interval_s) for node in drains],
    )


def _rehearsal(rollout: Rollout, node: str, now_s: float, interval_s: float) -> RehearsalView:
    moves = {one.move.cgroup: one.move for one in rollout.of_drain(node)}
    found = rollout.rehearsal_of(node)
    if found is None:
        found, state = Rehearsal(()), RehearsalState.NOT_BEGUN
    else:
        moves = {one.cgroup: one for one in found.moves} or moves
        state = _state(rollout, found)
    whys = (one.why for one in rollout.of_drain(node) if one.why)
    return RehearsalView(
        node=node,
        state=state,
        since_s=found.since_s,
        begun_s=found.begun_s,
        ready_s=found.ready_s,
        over_s=found.met_s if found.met_s is not None else found.missed_s,
        left_s=_ends_s(found, now_s, interval_s) - now_s if state in RUNNING else None,
        why=next(whys, ""),
        tenants=_tenants(rollout, found, moves),
    )


def _state(rollout: Rollout, rehearsal: Rehearsal) -> RehearsalState:
    if rehearsal.met_s is not None:
        return RehearsalState.PASSED
    if rehearsal.missed_s is not None:
        return RehearsalState.MISSED
    if rollout.is_over:
        return RehearsalState.ENDED
    if rehearsal.begun_s is None:
        return RehearsalState.MEASURING
    return RehearsalState.SETTLING if rehearsal.ready_s is None else RehearsalState.JUDGED


def _ends_s(rehearsal: Rehearsal, now_s: float, interval_s: float) -> float:
    """Return when the rehearsal ends if every window from now on is met and nothing is delayed."""
    if rehearsal.ready_s is not None:
        left = [
            looks_left(one, node.looks)
            for node in rehearsal.nodes
            for one in node.checks
            if one.verdict is Verdict.OPEN
        ]
        return now_s + interval_s * max(left, default=1)
    cold_s = max((one.cold_s for one in rehearsal.moves), default=0.0)
    begins_s = rehearsal.begun_s
    if begins_s is None:
        windows = [one.windows for node in rehearsal.nodes for one in node.before]
        begins_s = now_s + interval_s * max(1, BEFORE_WINDOWS - min(windows, default=0))
    kinds = {kind for node in rehearsal.nodes for one in node.before for kind, _ in one.slos}
    looks = max((looks_left(Check("", kind, 0.0), 0) for kind in kinds), default=WINDOWS)
    return max(now_s, begins_s + cold_s + SETTLED_S) + interval_s * looks


def _tenants(rollout: Rollout, rehearsal: Rehearsal, moves: dict[str, Move]) -> list[RehearsedView]:
    """Return one row per check; on a node without checks yet, one row per measured tenant."""
    refuted = {
        (one.node, one.cgroup): one
        for one in rollout.refuted
        if rehearsal.missed_s is not None and one.time_s == rehearsal.missed_s
    }
    found = []
    for node in rehearsal.nodes:
        is_home = node is rehearsal.nodes[0]
        did = {one.cgroup: one.mean_ops for one in node.before}
        if is_home:
            did = {cgroup: did.get(cgroup) for cgroup in moves}
        most = dict(node.most_bytes)
        rows = node.checks or tuple(Check(one, "", 0.0, ops) for one, ops in did.items())
        for check in rows:
            move = moves.get(check.cgroup) if is_home else None
            missed = (refuted.get((at, check.cgroup)) for at in (node.node, ""))
            known = next((one for one in missed if one is not None), None)
            size = None if move is None else most.get(check.cgroup)
            found.append(_row(node.node, check, move, known, size))
    return found


def _row(
    node: str, check: Check, move: Move | None, refuted: Refuted | None, most_bytes: int | None
) -> RehearsedView:
    is_ops = check.kind in (KEEP, "throughput_ops")
    is_short = is_ops and check.after_ops is not None and check.after_ops < check.target
    return RehearsedView(
        cgroup=check.cgroup,
        node=node,
        to_node=None if move is None else move.to_node,
        limit_bytes=None if move is None else move.limit_bytes,
        predicted_ops=None if move is None else move.predicted_ops or None,
        before_ops=check.before_ops,
        kind=check.kind or None,
        target=check.target if check.kind else None,
        after_ops=check.after_ops,
        windows=check.windows,
        met=check.met,
        verdict=check.verdict,
        short=1 - (check.after_ops or 0.0) / check.target if is_short else None,
        least_bytes=None if refuted is None else refuted.least_bytes,
        until_s=None if refuted is None else refuted.time_s + DAY_S,
        most_bytes=most_bytes,
        unproven=move is not None and most_bytes is not None and not is_enough(move, most_bytes),
    )
