# SPDX-License-Identifier: Apache-2.0
"""A rollout of a consolidation: its moves in their order, and what was measured of each."""

from dataclasses import dataclass, replace
from enum import StrEnum

from cachepilot.domain.consolidation import Move

KEEP = "keep"
"""The kind of a check of a tenant without an SLO: a share of what it did before."""


class RolloutState(StrEnum):
    """Where a rollout stands; all but the first are its end."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    TURNED_BACK = "turned back"
    FAILED = "failed"


class MoveState(StrEnum):
    """Where a move stands.

    While one is `preparing` the target reads the page cache of who is to come, while it is
    `warming` the tenant that came reads it. `skipped` is one that was not made since it did not
    fit, `returned` one that was undone, `failed` one whose end is unknown.
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


class Warmth(StrEnum):
    """How far the page cache of a tenant is read on a node that it is to come to."""

    LISTING = "listing"
    READING = "reading"
    WARM = "warm"


class RehearsalState(StrEnum):
    """Where a rehearsal stands.

    `not begun` is one of a node that is still to be drained, `measuring` one in which everybody is
    measured as it is, `settling` one in which page caches shrink, and `ended` one that was given up
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
    """What is made of the windows of a check."""

    OPEN = "open"
    MET = "met"
    MISSED = "missed"


@dataclass(frozen=True)
class Check:
    """What is measured of one tenant around a move.

    `kind` is that of an SLO, or `keep` where there is none; `target` is that of the SLO in its own
    unit, or the operations/s to be kept. Throughputs are means in operations per second, before
    the move and since the page cache is warm; None while they are not measured. `windows` and
    `met` count since the page cache is warm. `evidence` is the log-likelihood ratio of them, or
    the sum of squares of the throughputs of a `keep`. The last `missing` snapshots in a row lacked
    the tenant.
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
    """What a tenant did before a move: the sum of its operations/s over windows.

    `met` of them met every SLO that it has. `slos`, kinds and targets, and the share `keep` are
    what was stated when it was last seen; versions before did not store that.
    """

    cgroup: str
    ops: float = 0.0
    windows: int = 0
    met: int = 0
    slos: tuple[tuple[str, float], ...] = ()
    keep: float = 0.0

    @property
    def mean_ops(self) -> float | None:
        """Operations per second; None where nothing was measured."""
        return self.ops / self.windows if self.windows else None


@dataclass(frozen=True)
class Rehearsed:
    """One node in a rehearsal: what its tenants did before, and had, and how they do since.

    `measured_s` is the time of its last snapshot that was counted, `looks` how many were judged.
    `most_bytes` are the largest limits with which tenants were judged. `is_heard` says that it told
    something since the time from which it is waited for its nodes.
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

    It is of `moves`. Tenants are measured as they are since `since_s`, have the memory of
    afterwards since `begun_s` and are judged since `ready_s`. All was met at `met_s`, or something
    was missed at `missed_s`.
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
    """A tenant that missed what it must keep with `limit_bytes`, where it had `had_bytes` before.

    It counts with the middle of both from then on. That was on `node`; versions before did not
    store that.
    """

    cgroup: str
    limit_bytes: int
    had_bytes: int
    time_s: float
    node: str = ""

    @property
    def least_bytes(self) -> int:
        """What it is to have at least."""
        return (self.limit_bytes + self.had_bytes) // 2


@dataclass(frozen=True)
class Moved:
    """A move of a rollout. Times are the controller's, seconds since 1970; None: not yet.

    `before` is what is measured until the order is given. `measured_s` is the time of the node's
    last snapshot that was counted, `looks` how many were since the page cache is warm;
    `held_bytes` is what the tenant held then, which has hardly grown for `quiet_s`. The target
    reads its page cache since `prepared_s`, got as far as `warmth`, and has read it at `read_s`.
    The first of the moves that were rehearsed together has their `rehearsal`.
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


@dataclass(frozen=True)
class Rollout:
    """Moves in their order. `at` is the present one; before it all are over.

    `why` says how it ended, or what holds it up now. Who began it is `by`. Each drain is rehearsed
    first if it `rehearses`; what that refuted is `refuted`, and what came to be other than it was
    ordered is told in `changes`. Unless it `is_planned`, what is left of it is planned again
    before anything of that begins. `others` are, by node and cgroup, tenants that are on a node
    when the last that was to leave it has left.

    One that `spreads` empties no nodes: tenants leave those that have no room for all of them.
    `homes` are, by cgroup, the nodes on which tenants were before rollouts before this one drained
    them. Nodes that are `closed`, since a time, take nobody in any more who is spread. Before a
    move the target reads the page cache of who is to come, for `preparing_s` at most; with 0 it
    does not.
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
    spreads: bool = False
    homes: tuple[tuple[str, str], ...] = ()
    closed: tuple[tuple[str, float], ...] = ()
    preparing_s: float = 0.0

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left to be done."""
        return self.state is not RolloutState.RUNNING

    @property
    def present(self) -> Moved | None:
        """The move that is under way or comes next."""
        return self.moves[self.at] if self.at < len(self.moves) else None

    def of_drain(self, node: str) -> list[Moved]:
        """The moves by which a node is drained."""
        return [one for one in self.moves if one.drain == node]

    def rehearsal_of(self, node: str) -> Rehearsal | None:
        """The last one of draining a node; None where there was none."""
        found = [one.rehearsal for one in self.of_drain(node) if one.rehearsal is not None]
        return found[-1] if found else None

    def going(self, node: str) -> list[Moved]:
        """The moves by which a node is drained that are still to be made."""
        waiting = (MoveState.WAITING, MoveState.REHEARSING, MoveState.PREPARING)
        return [one for one in self.of_drain(node) if one.state in waiting]

    def with_rehearsed(self) -> "Rollout":
        """With the moves of rehearsals that were stored without them: those of the whole drain."""
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
        """Whether the last rehearsal of draining a node is of all its moves that are to be made."""
        found = self.rehearsal_of(node)
        return found is not None and all(one.move in found.moves for one in self.going(node))

    @property
    def is_prepared(self) -> bool:
        """Whether a target reads, or has read, the page cache of who has not gone there yet."""
        present = self.present
        if self.is_over or present is None:
            return False
        return present.prepared_s is not None and present.begun_s is None

    @property
    def left(self) -> list[str]:
        """Nodes that are still to be drained, in their order."""
        waiting = [one.drain for one in self.moves if one.state is MoveState.WAITING]
        return list(dict.fromkeys(waiting))

    @property
    def kept(self) -> list[Moved]:
        """The moves that were made and kept."""
        return [one for one in self.moves if one.state is MoveState.KEPT]

    @property
    def came_from(self) -> dict[str, str]:
        """By cgroup, the nodes on which tenants were before they were drained; of others nothing.

        Who was spread since has its home where it is.
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
        """Nodes all of whose moves were kept, and on which nobody else was then."""
        if self.spreads:
            return []
        drains = dict.fromkeys(one.drain for one in self.moves)
        left = {one.drain for one in self.moves if one.state is not MoveState.KEPT}
        left.update(node for node, _ in self.others)
        return [node for node in drains if node not in left]
