# SPDX-License-Identifier: Apache-2.0
"""A rollout of a consolidation: its moves in order, and what was measured for each.

A rollout moves tenants one by one. Before a node is drained, a rehearsal gives its tenants, where
they are, the memory that they will have after their moves, and checks that they still meet what
they must keep. To keep is to meet every SLO, or without one a share of the throughput before the
move.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from cachepilot.domain.consolidation import Move

KEEP = "keep"
"""The kind of a check of a tenant without an SLO: it keeps a share of its throughput."""


class RolloutState(StrEnum):
    """The state of a rollout; all but the first are final."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    TURNED_BACK = "turned back"
    FAILED = "failed"


class MoveState(StrEnum):
    """The state of a move. Values are those that are stored and sent; see `word`.

    While a move is `preparing`, the target node reads the page cache of the tenant that is to
    arrive. While it is `warming`, the tenant has arrived and reads its page cache itself. A
    `skipped` move was not made because it did not fit, a `returned` one was undone, and a `failed`
    one has an unknown result.
    """

    WAITING = "waiting"
    REHEARSING = "rehearsing"
    SKIPPED = "skipped"
    PREPARING = "preparing"
    MOVING = "moving"
    WARMING = "warming"
    KEPT = "kept"
    RETURNING = "returning"
    RETURNED = "returned"
    FAILED = "failed"

    @property
    def word(self) -> str:
        """The word for it that people read: a move is a change."""
        words = {
            MoveState.KEPT: "confirmed",
            MoveState.RETURNING: "being undone",
            MoveState.RETURNED: "undone",
        }
        return words.get(self, str(self))


class Warmth(StrEnum):
    """How far a node has read the page cache of a tenant that is to arrive."""

    LISTING = "listing"
    READING = "reading"
    WARM = "warm"


class RehearsalState(StrEnum):
    """The state of a rehearsal.

    `not begun`: its node is still to be drained. `measuring`: tenants are measured with their
    present setting. `settling`: page caches shrink to the new limits. `ended`: it was given up
    before it was over.
    """

    NOT_BEGUN = "not begun"
    MEASURING = "measuring"
    SETTLING = "settling"
    JUDGED = "judged"
    PASSED = "passed"
    MISSED = "missed"
    ENDED = "ended"


class Verdict(StrEnum):
    """The result of the windows of a check."""

    OPEN = "open"
    MET = "met"
    MISSED = "missed"


@dataclass(frozen=True)
class Check:
    """What is measured of one tenant around a move.

    `kind` is that of an SLO, or `keep` if the tenant has none. `target` is that of the SLO in its
    own unit, or the operations per second to keep. `before_ops` and `after_ops` are mean
    throughputs in operations per second, before the move and since the page cache is warm; None
    while not measured. `windows` and `met` count since the page cache is warm. `evidence` is the
    log-likelihood ratio of these windows, or for a `keep` the sum of squares of the throughputs.
    The last `missing` snapshots in a row lacked the tenant.
    """

    cgroup: str
    kind: str
    target: float
    before_ops: float | None = None
    after_ops: float | None = None
    windows: int = 0
    met: int = 0
    evidence: float = 0.0
    verdict: Verdict = Verdict.OPEN
    missing: int = 0


@dataclass(frozen=True)
class Before:
    """What a tenant did before a move.

    `ops` is the sum of its operations per second over `windows`. `met` is the number of windows
    that met all of its SLOs. `slos`, kinds and targets, and the share `keep` are from the objective
    when the tenant was last seen; earlier versions did not store them.
    """

    cgroup: str
    ops: float = 0.0
    windows: int = 0
    met: int = 0
    slos: tuple[tuple[str, float], ...] = ()
    keep: float = 0.0

    @property
    def mean_ops(self) -> float | None:
        """Operations per second; None if nothing was measured."""
        return self.ops / self.windows if self.windows else None


@dataclass(frozen=True)
class Rehearsed:
    """One node in a rehearsal: its tenants before it, their limits then, and their checks since.

    `measured_s` is the time of the node's last snapshot that was counted, `looks` the number of
    snapshots that were judged. `most_bytes` are the largest limits with which tenants were judged.
    `is_heard` means that the node reported something since the rollout began to wait for its nodes.
    """

    node: str
    before: tuple[Before, ...] = ()
    had_bytes: tuple[tuple[str, int], ...] = ()
    checks: tuple[Check, ...] = ()
    measured_s: float = 0.0
    looks: int = 0
    most_bytes: tuple[tuple[str, int], ...] = ()
    is_heard: bool = False


@dataclass(frozen=True)
class Rehearsal:
    """Moves of a drain before they are made: tenants have the memory that they will have then.

    `moves` are the rehearsed moves. Tenants are measured with their present limits since `since_s`,
    have the new limits since `begun_s`, and are judged since `ready_s`. Everything was met at
    `met_s`, or it was found at `missed_s` that something is missed or was not measured with its
    new limit.
    """

    nodes: tuple[Rehearsed, ...]
    begun_s: float | None = None
    ready_s: float | None = None
    met_s: float | None = None
    missed_s: float | None = None
    since_s: float | None = None
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True)
class Refuted:
    """A tenant that missed its targets with `limit_bytes` after it had `had_bytes` before.

    From then on it counts as needing the middle of both. This was on `node`; earlier versions did
    not store that.
    """

    cgroup: str
    limit_bytes: int
    had_bytes: int
    time_s: float
    node: str = ""

    @property
    def least_bytes(self) -> int:
        """The least memory that the tenant should have."""
        return (self.limit_bytes + self.had_bytes) // 2


@dataclass(frozen=True)
class Left:
    """A node since the last of its moves, as its snapshots show it.

    `measured_s` is the time of the node's last snapshot that was counted, `heard_s` the time of the
    controller then, `looks` the number of snapshots. `others` are tenants that came to the node,
    each with the number of last snapshots in a row that lacked it.
    """

    measured_s: float = 0.0
    heard_s: float = 0.0
    looks: int = 0
    others: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Moved:
    """A move of a rollout. Times are the controller's, seconds since 1970; None: not yet.

    `before` is what was measured until the move was ordered. `measured_s` is the time of the node's
    last snapshot that was counted, `looks` the number of snapshots since the page cache is warm.
    `held_bytes` is what the tenant used then; this has hardly grown for `quiet_s` seconds. The
    target reads the tenant's page cache since `prepared_s`, has reached `warmth`, and finished at
    `read_s`. Of the moves that are rehearsed together, the first one has the `rehearsal`. The last
    move of a drain has what was seen of its node since it `left`.
    """

    move: Move
    drain: str
    state: MoveState = MoveState.WAITING
    before: tuple[Before, ...] = ()
    checks: tuple[Check, ...] = ()
    measured_s: float = 0.0
    looks: int = 0
    held_bytes: int = 0
    quiet_s: float = 0.0
    prepared_s: float | None = None
    warmth: Warmth | None = None
    read_s: float | None = None
    begun_s: float | None = None
    arrived_s: float | None = None
    warm_s: float | None = None
    ended_s: float | None = None
    why: str = ""
    rehearsal: Rehearsal | None = None
    left: Left | None = None


@dataclass(frozen=True)
class Rollout:
    """Moves in order. `at` is the index of the present one; all moves before it are over.

    `why` says how the rollout ended, or what delays it now. `by` is who began it. If it
    `rehearses`, each drain is rehearsed first. `refuted` are the tenants for which this failed, and
    `changes` describes the differences from what was ordered. Unless it `is_planned`, the rest of
    it is planned again before any more of it begins. `others` are tenants, by node and cgroup, that
    are still on a node after the last one that was to leave it has left. Of the nodes in `unseen`
    this is not known, since they sent too few snapshots.

    A rollout that `spreads` empties no nodes: tenants leave nodes that lack room for all of them.
    `homes` are the nodes on which tenants were before earlier rollouts drained these, by cgroup.
    Tenants are not spread to nodes in `closed`, which has the time since when for each. Before a
    move, the target reads the page cache of the tenant that is to arrive for at most `preparing_s`;
    not at all if that is 0.
    """

    id: int
    begun_s: float
    by: str
    moves: tuple[Moved, ...]
    state: RolloutState = RolloutState.RUNNING
    at: int = 0
    is_stopping: bool = False
    since_s: float = 0.0
    ended_s: float | None = None
    why: str = ""
    rehearses: bool = False
    is_planned: bool = True
    refuted: tuple[Refuted, ...] = ()
    changes: tuple[str, ...] = ()
    others: tuple[tuple[str, str], ...] = ()
    unseen: tuple[str, ...] = ()
    spreads: bool = False
    homes: tuple[tuple[str, str], ...] = ()
    closed: tuple[tuple[str, float], ...] = ()
    preparing_s: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether the rollout has ended."""
        return self.state is not RolloutState.RUNNING

    @property
    def present(self) -> Moved | None:
        """The move that is under way or comes next; None after the last one."""
        return self.moves[self.at] if self.at < len(self.moves) else None

    def of_drain(self, node: str) -> list[Moved]:
        """The moves that drain a node."""
        return [one for one in self.moves if one.drain == node]

    def rehearsal_of(self, node: str) -> Rehearsal | None:
        """The last rehearsal of draining a node; None if there was none."""
        found = [one.rehearsal for one in self.of_drain(node) if one.rehearsal is not None]
        return found[-1] if found else None

    def going(self, node: str) -> list[Moved]:
        """The moves of draining a node that have not been made yet."""
        waiting = (MoveState.WAITING, MoveState.REHEARSING, MoveState.PREPARING)
        return [one for one in self.of_drain(node) if one.state in waiting]

    def with_rehearsed(self) -> "Rollout":
        """Add the moves to rehearsals that were stored without them: those of the whole drain."""
        moves = tuple(
            replace(
                one,
                rehearsal=replace(
                    one.rehearsal, moves=tuple(other.move for other in self.of_drain(one.drain))
                ),
            )
            if one.rehearsal is not None and not one.rehearsal.moves
            else one
            for one in self.moves
        )
        return replace(self, moves=moves)

    def is_rehearsed(self, node: str) -> bool:
        """Whether the last rehearsal of draining a node has all of its remaining moves."""
        found = self.rehearsal_of(node)
        return found is not None and all(one.move in found.moves for one in self.going(node))

    @property
    def is_prepared(self) -> bool:
        """Whether a target reads, or has read, the page cache of a tenant that is yet to move."""
        present = self.present
        if self.is_over or present is None:
            return False
        return present.prepared_s is not None and present.begun_s is None

    @property
    def left(self) -> list[str]:
        """The nodes that are still to be drained, in order."""
        waiting = [one.drain for one in self.moves if one.state is MoveState.WAITING]
        return list(dict.fromkeys(waiting))

    @property
    def kept(self) -> list[Moved]:
        """The moves that were made and kept."""
        return [one for one in self.moves if one.state is MoveState.KEPT]

    @property
    def came_from(self) -> dict[str, str]:
        """The nodes on which tenants were before they were drained, by cgroup.

        Tenants that were not moved, or were spread since, are not listed: their home is where they
        are.
        """
        found = dict(self.homes)
        for move in (one.move for one in self.kept):
            if self.spreads:
                found.pop(move.cgroup, None)
            else:
                found.setdefault(move.cgroup, move.from_node)
        return found

    @property
    def emptied(self) -> list[str]:
        """Nodes without tenants: all moves were confirmed, and no others were seen then."""
        if self.spreads:
            return []
        drains = dict.fromkeys(one.drain for one in self.moves)
        left = {one.drain for one in self.moves if one.state is not MoveState.KEPT}
        left.update(self.unseen, (node for node, _ in self.others))
        return [node for node in drains if node not in left]
