# SPDX-License-Identifier: Apache-2.0
"""The state of the decider for the memory of one node, and the interval that it is given.

A tenant without an SLO keeps a share (`keep`) of the throughput that the kernel's default would
give it with its first memory, the limit it had when it was first seen. A change is forced if it
serves a need (an SLO, what tenants keep, a pin or a bound) and not a gain in the goal.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from cachepilot.decide.memory.waits import Wait
from cachepilot.domain.decisions import Decision, Event, Reading, Setting, against_prediction
from cachepilot.model.gain import Gain
from cachepilot.quick_records import quickly_made
from cachepilot.sizes import PAGE_BYTES

STEP_SHARE_MIN = 0.005
"""Share of a limit: smaller changes are not made."""
ARRIVED_INTERVALS = 3
"""A limit that has not moved for so many intervals is taken to be at its end."""
ROLLBACK_S = 60.0
"""Limits that have not moved for so many seconds no longer count as being rolled back."""


@quickly_made
@dataclass(frozen=True, slots=True)
class MemoryTenant:
    """One tenant in one interval.

    `planned_bytes` is its limit in the plan. Worths are in the unit of the goal per second of this
    tenant. `worth_now` and `worth_planned` are those of the present and the planned setting,
    `worth_at` that of a limit by the calibrated curve, and `worth_measured` that of the measurement
    (None if the tenant did nothing). `whole` is the worth of all of its throughput. `error_at` is
    how much less a limit may be worth if the curve is wrong. All of these contain the factor
    `weight`.

    `reread_at` is the time to read again what the tenant gives for a limit, should that be wrong.
    It can give `spare_bytes` within its budget.
    `reached` and `reached_planned` are the parts of its SLO that are predicted to be reached now
    and by the plan, at most 1. `aimed` and `aimed_planned` are the same for the SLO with the margin
    above it. `is_short` says that the tenant measurably misses its SLO, `is_left_out` that the plan
    cannot meet it. For a tenant without an SLO, `below` and `below_planned` are the parts of what
    it keeps that it is predicted to lack.

    `lacks_at` is the part that a limit leaves missing of the SLO with its margin, or of what the
    tenant keeps, under the policy in force and the planned load, if the curve is wrong by a
    standard error. For any load, `miss_at` is the miss ratio of a limit, `ops_at` the throughput at
    a wait per device read and a miss ratio, and `worth_of` the worth of a throughput and a limit.

    `is_free` says that the limit may be changed now, `stays` that it is not the decider's to
    change, and `is_set_elsewhere` that an operator pinned it or others set it. `needs` says that
    the tenant has less than its first memory, `first_bytes`, and measurably lacks its SLO or keep
    by more than intervals scatter.

    `is_filling` says that the page cache has not yet filled its limit, and `is_settling` that it
    turns over after a change of policy. `is_doubted` says that the curves have low confidence and
    limits cannot be compared, `is_certain` that only the hits at the present limit are certain.
    `undone` is the epoch of a change that the node rolled back by itself. `swaps` says that the
    policy changes with the limit, which only happens in recommendations.
    """

    cgroup_id: int
    policy: str
    limit_bytes: int
    planned_bytes: int
    worth_now: float
    worth_planned: float
    worth_measured: float | None
    worth_at: Callable[[int], float]
    whole: float
    measured: Reading
    predicted: Reading
    miss_at: Callable[[int], float]
    ops_at: Callable[[float, float], float]
    worth_of: Callable[[float, int], float]
    lacks_at: Callable[[int], float]
    error_at: Callable[[int], float]
    reread_at: Callable[[int], float]
    spare_bytes: int
    weight: float = 1.0
    priority: int = 0
    has_slo: bool = False
    reached: float = 1.0
    reached_planned: float = 1.0
    aimed: float = 1.0
    aimed_planned: float = 1.0
    is_short: bool = False
    is_left_out: bool = False
    below: float = 0.0
    below_planned: float = 0.0
    is_free: bool = True
    stays: bool = False
    is_set_elsewhere: bool = False
    needs: bool = False
    first_bytes: int = 0
    is_filling: bool = False
    is_settling: bool = False
    is_doubted: bool = False
    is_certain: bool = False
    undone: int | None = None
    swaps: bool = False

    def planned_at(self, limit_bytes: int, wait_us: float) -> "MemoryTenant":
        """The same tenant with another planned limit, where a device read waits `wait_us`."""
        miss = self.miss_at(limit_bytes)
        ops = self.ops_at(wait_us, miss)
        return replace(
            self,
            planned_bytes=limit_bytes,
            worth_planned=self.worth_of(ops, limit_bytes),
            predicted=Reading(ops, miss),
        )

    def swapped(self, error: float, reread_s: float) -> "MemoryTenant":
        """The same tenant if the policy changes with the limit, with the error and cost of both."""
        return replace(self, swaps=True, error_at=lambda _: error, reread_at=lambda _: reread_s)

    @property
    def lacks(self) -> bool:
        """Whether it lacks a part of its SLO, of the margin above it, or of what it keeps."""
        return self.needs or self.is_short or self.aimed < 1 or self.below > 0

    @property
    def grows(self) -> bool:
        """Whether the plan gives it memory."""
        return self.planned_bytes > self.limit_bytes

    @property
    def error(self) -> float:
        """How much less the planned limit may be worth if the curve is wrong."""
        return self.error_at(self.planned_bytes)

    @property
    def reread_s(self) -> float:
        """The time to read again what the tenant gives by the plan, should that be wrong."""
        return self.reread_at(self.planned_bytes)

    @property
    def moved_bytes(self) -> int:
        """The amount by which the plan changes its limit."""
        return abs(self.planned_bytes - self.limit_bytes)

    @property
    def step_bytes(self) -> float:
        """The least change of its limit that is worth making."""
        return max(PAGE_BYTES, STEP_SHARE_MIN * self.limit_bytes)

    @property
    def is_step(self) -> bool:
        """Whether the plan changes its limit by a worthwhile step, or its policy with it."""
        return self.swaps or self.moved_bytes >= self.step_bytes


@dataclass(frozen=True)
class MemoryInterval:
    """All tenants of a node in one interval.

    Worths are in the unit of `goal`. `away` are tenants that are missing from the snapshot and may
    come back. No limit changes by more than `step_bytes` at once, except that `free_bytes`, the
    memory that the goal of least memory leaves in no limit, are given at once. `is_forced` says
    that limits must change regardless of gain. Without `may_begin` no change begins. `is_gap` says
    that the interval is not whole. `wait_at` is the wait of a device read, in microseconds, if some
    tenants have the given limits and all others the planned ones.
    """

    time_s: float
    elapsed_s: float
    tenants: Mapping[str, MemoryTenant]
    step_bytes: int
    goal: str
    free_bytes: int = 0
    away: frozenset[str] = frozenset()
    is_forced: bool = False
    may_begin: bool = True
    is_gap: bool = False
    wait_at: Callable[[Mapping[str, int]], float] = lambda _: 0.0

    def planned_at(self, limits: Mapping[str, int]) -> "MemoryInterval":
        """The same interval with other limits planned for some tenants: a part of the plan.

        The load of the device is that of this part, not that of the whole plan.
        """
        wait_us = self.wait_at(limits)
        tenants = self.tenants.items()
        planned = {
            name: one.planned_at(limits.get(name, one.planned_bytes), wait_us)
            for name, one in tenants
        }
        return replace(self, tenants=planned)

    @cached_property
    def movers(self) -> dict[str, MemoryTenant]:
        """Tenants whose limits the plan changes, if it changes any by a step.

        A step for a receiving tenant may be less than a step for a larger giving one. A change also
        counts if it is at least `STEP_SHARE_MIN` of the largest change of the plan.
        """
        tenants = self.tenants.values()
        if not self.is_forced and not any(one.is_step for one in tenants):
            return {}
        most = max((one.moved_bytes for one in tenants), default=0)
        least = max(PAGE_BYTES, STEP_SHARE_MIN * most)
        return {
            name: one
            for name, one in self.tenants.items()
            if one.is_step or one.moved_bytes >= least
        }


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
