# SPDX-License-Identifier: Apache-2.0
"""The rows of the history: one per change by any actor, from its beginning to its outcome."""

from dataclasses import dataclass, field
from enum import StrEnum

from cachepilot.domain.past.actor import AUTOPILOT, Actor


class ChangeKind(StrEnum):
    """What was changed, or what kind of request was refused."""

    POLICY = "policy"
    MEMORY = "memory"
    RECOMMENDATION = "recommendation"
    OBJECTIVE = "objective"
    PIN = "pin"
    REFUSAL = "refusal"


class ChangeState(StrEnum):
    """The state of a change. `live`: in force and not confirmed. `done`: made by an operator."""

    LIVE = "live"
    CONFIRMED = "confirmed"
    UNDONE = "undone"
    ABANDONED = "abandoned"
    REFUSED = "refused"
    RECOMMENDED = "recommended"
    DONE = "done"


SETTINGS = (ChangeKind.POLICY, ChangeKind.MEMORY)
"""The kinds that change the setting of a tenant."""


@dataclass
class ChangeRow:
    """One change as it is stored; `id` is 0 before that, and greater for every later change.

    Times are in seconds since 1970: of the node for changes by the autopilot, of this host
    otherwise. `cgroup` is the pattern of an objective for changes of objectives. `node` is empty
    for all nodes. `why` says why the change began, `outcome` why it ended as it did. `before` and
    `after` are what an operator stated, as JSON. A refusal that repeats is one row with a `count`.
    """

    kind: ChangeKind
    state: ChangeState
    node: str
    cgroup: str
    begun_s: float
    ended_s: float | None = None
    epoch: int = 0
    by_kind: str = AUTOPILOT.kind
    by: str = AUTOPILOT.name
    from_policy: str | None = None
    to_policy: str | None = None
    from_limit_bytes: int | None = None
    to_limit_bytes: int | None = None
    baseline_ops: float | None = None
    predicted_ops: float | None = None
    measured_ops: float | None = None
    baseline_miss_ratio: float | None = None
    predicted_miss_ratio: float | None = None
    measured_miss_ratio: float | None = None
    text: str = ""
    why: str = ""
    outcome: str = ""
    before: str | None = None
    after: str | None = None
    count: int = 1
    id: int = 0

    def end(self, state: ChangeState, time_s: float, outcome: str) -> None:
        """End the change."""
        self.state, self.ended_s, self.outcome = state, time_s, outcome


@dataclass(frozen=True)
class ChangeFilter:
    """Which changes are requested; None matches all. Times are those of the beginning, in seconds.

    `by` is a part of the kind or of the name of the actor, in any case. Rows that concern all nodes
    match every `node`. Rows have an id less than `below`.
    """

    node: str | None = None
    cgroup: str | None = None
    since_s: float | None = None
    until_s: float | None = None
    by: str | None = None
    state: ChangeState | None = None
    kind: ChangeKind | None = None
    below: int | None = None


def by_actor(actor: Actor) -> dict[str, str]:
    """The columns of a row that name the actor of a change."""
    return {"by_kind": str(actor.kind), "by": actor.name}


EVIDENCE_COLUMNS = ("time_s", "gained", "predicted", "bound", "throughput_ops", "miss_ratio")
EVIDENCE_POINTS = 120
"""The most points of the evidence of one change; beyond it every second one is dropped."""


@dataclass
class EvidenceSeries:
    """The evidence for a change over time: columns of one length, the oldest point first.

    In `unit`: `gained` is the measured gain so far, compared with the setting before; `predicted`
    is the gain that was expected; a gain above `bound` is not noise. None if not known.
    """

    unit: str
    every: int = 1
    seen: int = 0
    time_s: list[float] = field(default_factory=list)
    gained: list[float | None] = field(default_factory=list)
    predicted: list[float | None] = field(default_factory=list)
    bound: list[float | None] = field(default_factory=list)
    throughput_ops: list[float | None] = field(default_factory=list)
    miss_ratio: list[float | None] = field(default_factory=list)

    @property
    def is_due(self) -> bool:
        """Whether the next point is to be kept; otherwise the caller calls `skip`."""
        return self.seen % self.every == 0

    def skip(self) -> None:
        """Leave a point out."""
        self.seen += 1

    def take(self, time_s: float, *values: float | None) -> None:
        """Add a point; `values` are those of the other columns, in their order."""
        self.seen += 1
        for name, value in zip(EVIDENCE_COLUMNS, (time_s, *values), strict=True):
            getattr(self, name).append(value)
        if len(self.time_s) > EVIDENCE_POINTS:
            self.every *= 2
            for name in EVIDENCE_COLUMNS:
                column = getattr(self, name)
                # The last point always stays.
                del column[-2::-2]
