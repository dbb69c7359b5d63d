# SPDX-License-Identifier: Apache-2.0
"""The state of the decider for the memory of one node: a change under way, evidence and losses.

A change is forced if it serves a need (an SLO, what tenants keep, a pin or a bound) and not a gain
in the goal.
"""

from dataclasses import dataclass, field

from cachepilot.decide.memory.interval import MemoryInterval, MemoryTenant
from cachepilot.decide.memory.waits import Wait
from cachepilot.domain.decisions import Decision, Event, Reading, Setting, against_prediction
from cachepilot.model.gain import Gain
from cachepilot.sizes import PAGE_BYTES

ARRIVED_INTERVALS = 3
"""A limit that has not moved for so many intervals is taken to be at its end."""
ROLLBACK_S = 60.0
"""Limits that have not moved for so many seconds no longer count as being rolled back."""


@dataclass
class Origin:
    """A limit that a tenant had before a change, and gets back when the change is undone.

    During the rollback, the limit has been `seen_bytes` since `since_s`.
    """

    cgroup_id: int
    limit_bytes: int
    seen_bytes: int = 0
    since_s: float = 0.0


@dataclass
class Member:
    """A tenant whose limit a change moves. `cost` is its part of the cost of the change.

    It `gave_certain` memory if its curves had low confidence, so that it could lose no more than it
    certainly hit when the change began. `certain_miss` was its miss ratio then; it is 1 if nothing
    is certain of `from_bytes`.

    `meant_bytes` is the limit to which a change moves it for a gain, whatever others have needed
    since. It is None if that is `to_bytes`, or if a forced change moves nothing for a gain.
    A giving member was last asked for the limit `asked_bytes`, None if it was not asked yet.
    """

    cgroup_id: int
    policy: str
    from_bytes: int
    to_bytes: int
    baseline: Reading
    predicted: Reading
    cost: float = 0.0
    meant_bytes: int | None = None
    gave_certain: bool = False
    certain_miss: float = 1.0
    asked_bytes: int | None = None

    def is_behind(self, limit_bytes: int) -> bool:
        """Whether a giving member, which has that limit, did not give what it was asked for."""
        return self.asked_bytes is not None and limit_bytes >= self.asked_bytes + PAGE_BYTES

    def aim(self, limit_bytes: int, predicted: Reading) -> None:
        """Move the member to another limit, of which `predicted` is predicted."""
        self.to_bytes, self.predicted = limit_bytes, predicted

    def stay(self, one: MemoryTenant, wait_us: float) -> None:
        """Let the member stay at its present limit, where a device read waits `wait_us`."""
        self.aim(one.limit_bytes, one.planned_at(one.limit_bytes, wait_us).predicted)

    def compare_with(self, limit_bytes: int) -> None:
        """Judge the member by what the change gains beyond `limit_bytes`, its limit otherwise."""
        if limit_bytes != self.from_bytes:
            # The hits when the change began say nothing of another limit.
            self.certain_miss = 1.0
        self.from_bytes, self.meant_bytes = limit_bytes, None

    def decision(
        self, time_s: float, cgroup: str, event: Event, why: str, measured: Reading | None = None
    ) -> Decision:
        """The decision on this member: `why` is of all members, its own measurement follows it."""
        before, after = (Setting(self.policy, one) for one in (self.from_bytes, self.to_bytes))
        readings = self.baseline, self.predicted, measured or Reading()
        if measured is not None:
            why = "; ".join(filter(None, (why, against_prediction(self.predicted, measured))))
        return Decision(time_s, cgroup, event, before, after, why, *readings)


@dataclass
class MemoryChange:
    """Limits that move together, until the change is confirmed or undone.

    `cost` is what the change may lose, and `expected` its predicted gain per second (None until it
    is predicted for the present targets); both are in the unit of the goal. `gained` is the
    measured gain against the earlier limits in all intervals with these members. `since` is the
    same for intervals in which all limits had arrived and page caches were full. `moved_s` is when
    a limit last moved from those in `limits`, or when none was requested; the change waited like
    that for `waited_s` in total. `settled_s` is since when limits have arrived and caches are full.
    For `idle_s` seconds nothing was measured by which the change could be judged. A `forced` change
    serves a need and is not undone for its cost.
    """

    started_s: float
    moved_s: float
    forced: bool
    cost: float = 0.0
    expected: float | None = None
    members: dict[str, Member] = field(default_factory=dict)
    gained: Gain = field(default_factory=Gain)
    since: Gain = field(default_factory=Gain)
    settled_s: float | None = None
    limits: dict[str, int] = field(default_factory=dict)
    waited_s: float = 0.0
    idle_s: float = 0.0

    def force(self) -> None:
        """A need joins the change: from now on its targets are those of the need."""
        if not self.forced:
            for one in self.members.values():
                one.meant_bytes = one.to_bytes
        self.forced = True

    def for_gain(self) -> dict[str, int]:
        """By how many bytes each member of a forced change has moved for a gain; negative if given.

        The memory for a need is taken from this part first. If the part were undone, giving tenants
        would get back what the receiving ones return and what the change had left free.
        """
        parts, left = {}, 0
        for name, one in self.members.items():
            meant = 0 if one.meant_bytes is None else one.meant_bytes - one.from_bytes
            moved = one.to_bytes - one.from_bytes
            parts[name] = min(max(moved, min(meant, 0)), max(meant, 0))
            left -= meant
        given = -sum(min(part, 0) for part in parts.values())
        room = max(left, 0) + sum(max(part, 0) for part in parts.values())
        if given > room:
            for name, part in parts.items():
                if part < 0:
                    parts[name] = -(-part * room // given // PAGE_BYTES * PAGE_BYTES)
        return {name: part for name, part in parts.items() if abs(part) >= PAGE_BYTES}

    def origins(self, since_s: float = 0.0) -> dict[str, Origin]:
        """The limits to which all members go back from `since_s` on."""
        members = self.members.items()
        return {name: Origin(one.cgroup_id, one.from_bytes, 0, since_s) for name, one in members}


@dataclass
class MemoryState:
    """State of a node that outlives a restart.

    `evidence` is, by tenant, what its present limit cost more than the plan's, negative if less.
    The sum over the tenants whose limits a plan changes is the evidence for that plan.

    `owed` is what tenants lacked of their SLO or keep and the plan would have given them. `lost` is
    what undone changes cost and accepted ones may have cost, until a gain is sure. `restore` are
    limits that are being rolled back, `stuck` those that the node did not move. `lacked` are
    tenants from which too much was taken. `fine` are the last limits with which each tenant had
    enough.

    All sums are in the unit of `goal` and contain the `weights` of tenants.
    """

    evidence: dict[str, float] = field(default_factory=dict)
    owed: float = 0.0
    lost: float = 0.0
    change: MemoryChange | None = None
    restore: dict[str, Origin] = field(default_factory=dict)
    stuck: dict[str, Wait] = field(default_factory=dict)
    lacked: dict[str, Wait] = field(default_factory=dict)
    fine: dict[str, int] = field(default_factory=dict)
    goal: str = ""
    weights: dict[str, float] = field(default_factory=dict)

    def takes(self, seen: MemoryInterval) -> bool:
        """Whether an interval has the unit of the sums so far; if not, they are dropped."""
        before, now = self.weights, {name: one.weight for name, one in seen.tenants.items()}
        self.weights = {name: before[name] for name in seen.away & before.keys()} | now
        is_same = self.goal in ("", seen.goal)
        is_same = is_same and all(
            self.weights.get(name, one) == one for name, one in before.items()
        )
        self.goal = seen.goal
        if not is_same:
            self.evidence, self.owed, self.lost = {}, 0.0, 0.0
        return is_same

    def move_back(self, seconds: float) -> None:
        """Shift times with a clock that went back, or (`seconds` < 0) over a gap of snapshots."""
        for origin in self.restore.values():
            origin.since_s -= seconds
        for wait in (*self.stuck.values(), *self.lacked.values()):
            wait.until_s -= seconds
        change = self.change
        if change is not None:
            change.started_s -= seconds
            change.moved_s -= seconds
            if change.settled_s is not None:
                change.settled_s -= seconds
