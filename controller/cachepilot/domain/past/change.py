# SPDX-License-Identifier: Apache-2.0
"""What the history lists: one row per change, whoever made it, from its begin to its outcome."""

from dataclasses import dataclass, field
from enum import StrEnum

from cachepilot.domain.past.actor import AUTOPILOT, Actor


class ChangeKind(StrEnum):
    """What was changed, or was refused to somebody."""

    POLICY = "policy"
    MEMORY = "memory"
    RECOMMENDATION = "recommendation"
    OBJECTIVE = "objective"
    PIN = "pin"
    REFUSAL = "refusal"


class ChangeState(StrEnum):
    """How a change stands. `live`: in force and not confirmed. `done`: an operator's."""

    LIVE = "live"
    CONFIRMED = "confirmed"
    UNDONE = "undone"
    ABANDONED = "abandoned"
    REFUSED = "refused"
    RECOMMENDED = "recommended"
    DONE = "done"


SETTINGS = (ChangeKind.POLICY, ChangeKind.MEMORY)
"""Kinds that change what a tenant has."""


@dataclass
class ChangeRow:
    """One change as it is stored; `id` is 0 before that, and grows with every one.

    Times are in seconds since 1970: of the node for what the autopilot does, of this host
    otherwise. `cgroup` is the pattern of an objective; `node` is empty for all nodes. `why` says
    why it began, `outcome` why it ended as it did. `before` and `after` are what an operator
    stated, as JSON. A refusal that repeats is one row with a `count`.
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
        """It is over."""
        self.state, self.ended_s, self.outcome = state, time_s, outcome


@dataclass(frozen=True)
class ChangeFilter:
    """Which changes are asked for; None asks for all. Times are those of the begin, in seconds.

    `by` is a part of the kind or of the name of who made it, whatever its case. `below` is an id.
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
    """The keys of a row that say who made a change."""
    return {"by_kind": str(actor.kind), "by": actor.name}


EVIDENCE_COLUMNS = ("time_s", "gained", "predicted", "bound", "throughput_ops", "miss_ratio")
EVIDENCE_POINTS = 120
"""Points that are kept of the evidence of one change: with more every second one is dropped."""


@dataclass
class EvidenceSeries:
    """What was known of a change over time: columns of one length, the oldest first.

    In `unit`: `gained` so far by measurement, against what it replaced; `predicted`, the same as it
    was expected; and `bound`, above which what is gained is no noise. None where it is not known.
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
        """Whether the next point would be kept: `skip` it otherwise."""
        return self.seen % self.every == 0

    def skip(self) -> None:
        """A point is left out."""
        self.seen += 1

    def take(self, time_s: float, *values: float | None) -> None:
        """Adds a point; `values` are those of the other columns, in their order."""
        self.seen += 1
        for name, value in zip(EVIDENCE_COLUMNS, (time_s, *values), strict=True):
            getattr(self, name).append(value)
        if len(self.time_s) > EVIDENCE_POINTS:
            self.every *= 2
            for name in EVIDENCE_COLUMNS:
                column = getattr(self, name)
                # The last one stays, whatever else goes.
                del column[-2::-2]
