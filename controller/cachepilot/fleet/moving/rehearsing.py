# SPDX-License-Identifier: Apache-2.0
"""The rehearsal of a drain: tenants get the memory planned for afterwards before any tenant moves.

Miss ratio curves are means and do not show how much single intervals vary with less memory. The
rehearsal measures that where it is cheap. The tenants that are to leave get, on their present node
(their home), the limit and the policy of the plan. The nodes that will receive them keep that much
memory free. If the memory is too little, no tenant has to read its page cache again on another
node.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from cachepilot.domain.consolidation import Move
from cachepilot.domain.moving import (
    Before,
    Check,
    Moved,
    Refuted,
    Rehearsal,
    Rehearsed,
    Rollout,
    Verdict,
)
from cachepilot.fleet.moving import checks
from cachepilot.fleet.moving.holding import limit_of
from cachepilot.fleet.moving.seen.observation import NodeSeen, Observation, TenantSeen
from cachepilot.fleet.moving.seen.patience import BEFORE_WINDOWS
from cachepilot.sizes import human_bytes

BEYOND_SHARE = 0.005
"""Share by which a limit may be larger than planned in a rehearsal and still count as the planned
one: a node raises limits to their floors, which change by pages."""

SETTLED_S = 2.0
"""Seconds until a page cache is stable after its limit was lowered, in addition to the time of
reading it once."""


def nodes_of(drain: Sequence[Moved]) -> list[str]:
    """Return the nodes of a drain: the drained one first, then those that receive its tenants."""
    return list(dict.fromkeys([drain[0].drain, *(one.move.to_node for one in drain)]))


def begun(rollout: Rollout, moved: Moved, seen: Observation) -> Rehearsal:
    """Return a rehearsal without measurements of its own.

    A tenant without an SLO must keep a share of its throughput. That is the throughput measured
    before the previous rehearsal of the same drain, if there was one: the tenant may have had less
    memory since.
    """
    drain, nodes = rollout.going(moved.drain), list[Rehearsed]()
    for name in nodes_of(drain):
        there, (did, had) = seen.nodes.get(name), _before_on(name, rollout, moved.drain)
        judged = _judged(name, drain, there) if there is not None else {}
        may_go = {one.move.cgroup for one in drain} if name == drain[0].drain else did.keys()
        # For a tenant that the snapshot lacks, the SLOs recorded before apply.
        stated = {cgroup: one.slos for cgroup, one in did.items() if cgroup in may_go}
        stated |= {cgroup: checks.stated(one) for cgroup, one in judged.items()}
        free = [cgroup for cgroup, slos in sorted(stated.items()) if not slos and cgroup in did]
        kept = tuple((cgroup, had[cgroup]) for cgroup in free if cgroup in had)
        nodes.append(Rehearsed(name, tuple(did[cgroup] for cgroup in free), kept))
    moves = tuple(one.move for one in drain)
    return Rehearsal(tuple(nodes), since_s=seen.now_s, moves=moves)


def again(rehearsal: Rehearsal, now_s: float) -> Rehearsal:
    """Return the rehearsal restarted at `now_s`, since the limits in between are not known.

    The measurements before memory was first reduced are kept.
    """
    if rehearsal.begun_s is None:
        return rehearsal
    nodes = tuple(replace(one, checks=(), looks=0, most_bytes=()) for one in rehearsal.nodes)
    return replace(rehearsal, nodes=nodes, begun_s=now_s, ready_s=None)


def _before_on(
    node: str, rollout: Rollout, drained: str
) -> tuple[dict[str, Before], dict[str, int]]:
    """Return what tenants of a node did and had before the drain's last rehearsal, by cgroup.

    The first dictionary has throughputs and SLOs, the second the limits in bytes. Included are
    tenants that were on the node then, and tenants that came since from the drained node. A cgroup
    of the same path on any other node is another tenant.
    """
    known = rollout.rehearsal_of(drained)
    kept = (one.move for one in rollout.kept if one.drain == drained)
    came = {move.cgroup for move in kept if move.to_node == node}
    did, had = dict[str, Before](), dict[str, int]()
    # The drained node is the first. If this is another node, its own tenants overwrite what a guest
    # of the same path left there.
    for one in known.nodes if known is not None else ():
        if one.node == node:
            did |= {before.cgroup: before for before in one.before}
            had |= dict(one.had_bytes)
        elif one.node == drained:
            did |= {before.cgroup: before for before in one.before if before.cgroup in came}
            had |= {cgroup: size for cgroup, size in one.had_bytes if cgroup in came}
    return did, had


def _judged(node: str, drain: Sequence[Moved], there: NodeSeen) -> dict[str, TenantSeen]:
    """Return the tenants to be judged on a node.

    On the drained node these are the tenants that leave, on any other node all.
    """
    if node != drain[0].drain:
        return dict(there.tenants)
    names = {one.move.cgroup for one in drain}
    return {cgroup: one for cgroup, one in there.tenants.items() if cgroup in names}


def _with_window(
    rehearsal: Rehearsal, seen: Observation, take: Callable[[Rehearsed, NodeSeen], Rehearsed]
) -> Rehearsal:
    """Apply `take` to every node with a new snapshot."""
    found = []
    for one in rehearsal.nodes:
        there = seen.nodes[one.node]
        if not there.lost and there.time_s != one.measured_s:
            found.append(replace(take(one, there), measured_s=there.time_s))
        else:
            found.append(one)
    return replace(rehearsal, nodes=tuple(found))


def before(drain: Sequence[Moved], rehearsal: Rehearsal, seen: Observation) -> Rehearsal:
    """Add one window of every node in its present state, before memory is reduced."""

    def take(one: Rehearsed, there: NodeSeen) -> Rehearsed:
        judged = _judged(one.node, drain, there)
        had = dict(one.had_bytes)
        limits = had | {
            cgroup: max(told.limit_bytes, had.get(cgroup, 0)) for cgroup, told in judged.items()
        }
        before = checks.more_before(one.before, judged)
        return replace(one, before=before, had_bytes=tuple(sorted(limits.items())))

    return _with_window(rehearsal, seen, take)


def is_known(rehearsal: Rehearsal) -> bool:
    """Whether enough windows of every tenant were measured in the present state."""
    windows = [one.windows for node in rehearsal.nodes for one in node.before]
    return min(windows, default=0) >= BEFORE_WINDOWS


def missed_before(rehearsal: Rehearsal) -> str:
    """Return why a receiving node cannot be used: an SLO missed already; "" if there is none."""
    for one in rehearsal.nodes[1:]:
        for cgroup in checks.missed_before(one.before):
            return f"an SLO of {cgroup} on {one.node} is missed already"
    return ""


def is_ready(drain: Sequence[Moved], rehearsal: Rehearsal, seen: Observation) -> bool:
    """Whether the leaving tenants have their planned limits, and their page caches have settled.

    A limit that is still not in force is not waited for any longer once `lost_s` seconds have
    passed in addition to the time of reading the page caches once; see `untried`.
    """
    elapsed_s = seen.now_s - (rehearsal.begun_s or seen.now_s)
    cold_s = max(one.move.cold_s for one in drain)
    if elapsed_s < cold_s + SETTLED_S:
        return False
    home = seen.nodes[drain[0].drain]
    for one in drain:
        there = home.tenants.get(one.move.cgroup)
        has_limit = there is not None and is_enough(one.move, there.limit_bytes)
        if not has_limit and elapsed_s < cold_s + seen.lost_s:
            return False
    return True


def with_checks(drain: Sequence[Moved], rehearsal: Rehearsal, seen: Observation) -> Rehearsal:
    """Add the checks to be judged on every node.

    Tenants that missed an SLO before the rehearsal are not judged. That concerns the drained node
    only, since such an SLO on a receiving node prevents the rehearsal.
    """
    found = []
    for one in rehearsal.nodes:
        there = seen.nodes[one.node]
        told = checks.checks_of(one.before, _judged(one.node, drain, there))
        poor = checks.missed_before(one.before)
        kept = tuple(check for check in told if check.cgroup not in poor)
        found.append(replace(one, checks=kept, measured_s=there.time_s))
    return replace(rehearsal, nodes=tuple(found), ready_s=seen.now_s)


def judged(rehearsal: Rehearsal, seen: Observation) -> Rehearsal:
    """Judge one more window of every node."""

    def take(one: Rehearsed, there: NodeSeen) -> Rehearsed:
        looks = one.looks + 1
        taken = checks.taken(one.checks, there.tenants, looks, seen.lost_looks)
        most = dict(one.most_bytes)
        for cgroup in {old.cgroup for old in one.checks if old.verdict is Verdict.OPEN}:
            if cgroup in there.tenants:
                limit_bytes = there.tenants[cgroup].limit_bytes
                most[cgroup] = max(limit_bytes, most.get(cgroup, 0))
        told = tuple(sorted(most.items()))
        return replace(one, checks=taken, looks=looks, most_bytes=told, is_heard=True)

    return _with_window(rehearsal, seen, take)


def silent(rehearsal: Rehearsal) -> list[str]:
    """Return nodes with open checks that were not measured since the wait for all nodes began.

    A node whose control cycles fail is not lost, yet nothing is measured of it.
    """
    return [
        one.node
        for one in rehearsal.nodes
        if not one.is_heard and any(check.verdict is Verdict.OPEN for check in one.checks)
    ]


def awaited(rehearsal: Rehearsal) -> Rehearsal:
    """Return the rehearsal with a new wait for measurements of all its nodes."""
    return replace(rehearsal, nodes=tuple(replace(one, is_heard=False) for one in rehearsal.nodes))


def proven(rehearsal: Rehearsal) -> list[Move]:
    """Return the moves whose tenants met all checks with the planned limit.

    A tenant that was not judged, or had more memory than the planned limit, proves nothing.
    """
    if rehearsal.met_s is None or not rehearsal.nodes:
        return []
    home = rehearsal.nodes[0]
    judged, most = {check.cgroup for check in home.checks}, dict(home.most_bytes)
    met = judged - {check.cgroup for check in home.checks if check.verdict is not Verdict.MET}
    return [
        move
        for move in rehearsal.moves
        if move.cgroup in met and is_enough(move, most.get(move.cgroup, 0))
    ]


def untried(rehearsal: Rehearsal, operated: Collection[str]) -> str:
    """Return in words which tenants were judged without their planned limits; "" if none were.

    What such a tenant met says nothing about the plan, for example because its node did not carry
    the limit out. Limits may be larger by `BEYOND_SHARE`. Tenants in `operated` have the limits
    that operators want, and are left out.
    """
    home = rehearsal.nodes[0]
    most, judged = dict(home.most_bytes), {check.cgroup for check in home.checks}
    found = []
    for move in rehearsal.moves:
        had = most.get(move.cgroup, 0)
        is_as_planned = 0 < had <= (1 + BEYOND_SHARE) * limit_of(move)
        if move.cgroup in judged - {*operated} and not is_as_planned:
            told = f"up to {human_bytes(had)}" if had else "no limit"
            planned = human_bytes(limit_of(move))
            found.append(f"{move.cgroup} had {told}, will have {planned}")
    return f"in the rehearsal on {home.node} {', '.join(found)}" if found else ""


def is_enough(move: Move, most_bytes: int) -> bool:
    """Whether a verdict reached with this largest limit (0: unknown) counts for the planned one."""
    return 0 < most_bytes <= limit_of(move)


def missed(rehearsal: Rehearsal) -> list[tuple[Rehearsed, Check]]:
    """Return the missed checks, each with its node."""
    return [(one, check) for one in rehearsal.nodes for check in checks.missed(one.checks)]


def is_met(rehearsal: Rehearsal) -> bool:
    """Whether all checks are met."""
    told = [check.verdict for one in rehearsal.nodes for check in one.checks]
    return all(one is Verdict.MET for one in told)


def refuted(
    drain: Sequence[Moved], rehearsal: Rehearsal, nodes: Mapping[str, NodeSeen], now_s: float
) -> tuple[Refuted, ...]:
    """Return the limits that were too small: tenants that missed a check with less than before."""
    found = []
    for one, check in missed(rehearsal):
        there = nodes[one.node].tenants.get(check.cgroup)
        had = dict(one.had_bytes).get(check.cgroup)
        if there is not None and had is not None and there.limit_bytes < had:
            found.append(Refuted(check.cgroup, there.limit_bytes, had, now_s, one.node))
    return tuple(found)


def told(rehearsal: Rehearsal) -> str:
    """Return the missed checks in words."""
    return "; ".join(
        f"in the rehearsal on {one.node} {checks.told(check)}" for one, check in missed(rehearsal)
    )


def baseline(rollout: Rollout, moved: Moved) -> dict[str, Before]:
    """Return, by cgroup, what the tenants around a move did before the drain's rehearsal.

    These are the moved tenant on the drained node and the tenants of the target.
    """
    rehearsal = rollout.rehearsal_of(moved.drain)
    if rehearsal is None:
        return {}
    found = {}
    for one in rehearsal.nodes:
        for known in one.before:
            is_guest = one.node == moved.drain and known.cgroup == moved.move.cgroup
            if one.node == moved.move.to_node or is_guest:
                found[known.cgroup] = known
    return found
