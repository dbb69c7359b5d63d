# SPDX-License-Identifier: Apache-2.0
"""What the decider remembers of the memory of one node, and what it is shown of an interval."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from cachepilot.decide.gain import Gain
from cachepilot.domain.decisions import Decision, Event, Reading, Setting, against_prediction
from cachepilot.quick_records import quickly_made
from cachepilot.sizes import PAGE_BYTES

STEP_SHARE_MIN = 0.005
"""Of a limit: a smaller change is not made."""
ARRIVED_INTERVALS = 3
"""A limit that has not moved for so long is where it can be."""
ROLLBACK_S = 60.0
"""Limits that have not moved for so long are no longer rolled back."""


@quickly_made
@dataclass(frozen=True, slots=True)
class MemoryTenant:
    """One tenant in one interval.

    `planned_bytes` is its limit by the plan. Worth is in the unit of the goal per second of this
    tenant: `worth_at` that of a limit by its calibrated curve, `worth_measured` that of what was
    measured (None where nothing was done), `whole` what all of its throughput counts for, `error`
    by how much less the planned limit may be worth, by the curve's error, and `error_at` the same
    of a limit. `weight` is the factor that all of them have.

    `reread_s` is the time that it takes to read again what it gives up by the plan, were it wrong,
    `reread_at` the same of a limit. It can give up `spare_bytes` within its budget.
    `reached` and `reached_planned` are the parts of its SLO that are predicted to be reached now
    and by the plan, at most 1, `aimed` and `aimed_planned` those of its SLO with the margin above;
    `is_short` says that it measurably misses it, `is_left_out` that the plan cannot keep it.
    Without an SLO `below` and `below_planned` are the parts of what it keeps that it is predicted
    not to have.

    Of a limit under the policy in force and the load that is planned, `lacks_at` tells the part
    that is missing of its SLO with the margin, or of what it keeps, where the curve is wrong by a
    standard error. Under another load `miss_at` is the miss ratio of a limit, `ops_at` the
    throughput while a read of the device waits so long at that, and `worth_of` what that is worth.

    `is_free` says that its limit may be changed now, `stays` that it is no longer the decider's to
    change, `is_ordered` that an operator pinned it, `is_yielded` that others set it. `needs` says
    that it measurably lacks what it is to have, beyond what intervals scatter, with less than its
    first memory, `first_bytes`.

    `is_filling` says that its page cache has yet to read what its limit has room for, `is_settling`
    that it turns over after a change of policy, `is_doubted` that nothing is known by which limits
    could be compared, `is_certain` that nothing is but what is certain at its present limit.
    `undone` names a change that the node rolled back by itself. `swaps` says that its policy
    changes with its limit, which only recommendations do.
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
    error: float
    reread_s: float
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
    is_ordered: bool = False
    is_yielded: bool = False
    needs: bool = False
    first_bytes: int = 0
    is_filling: bool = False
    is_settling: bool = False
    is_doubted: bool = False
    is_certain: bool = False
    undone: int | None = None
    swaps: bool = False

    def planned_at(self, limit_bytes: int, wait_us: float) -> "MemoryTenant":
        """The same with a plan of that limit, by which a read of the device waits so long."""
        miss = self.miss_at(limit_bytes)
        ops = self.ops_at(wait_us, miss)
        return replace(
            self,
            planned_bytes=limit_bytes,
            worth_planned=self.worth_of(ops, limit_bytes),
            error=self.error_at(limit_bytes),
            reread_s=self.reread_at(limit_bytes),
            predicted=Reading(ops, miss),
        )

    @property
    def grows(self) -> bool:
        """Whether it gets memory."""
        return self.planned_bytes > self.limit_bytes

    @property
    def lacks_planned(self) -> float:
        """What the plan leaves missing of what `lacks_at` tells."""
        return 1 - self.aimed_planned if self.has_slo else self.below_planned

    @property
    def moved_bytes(self) -> int:
        """By how much the plan changes its limit."""
        return abs(self.planned_bytes - self.limit_bytes)

    @property
    def step_bytes(self) -> float:
        """The least that is worth changing its limit by."""
        return max(PAGE_BYTES, STEP_SHARE_MIN * self.limit_bytes)

    @property
    def is_step(self) -> bool:
        """Whether the plan changes its limit by as much as is worth changing it for."""
        return self.swaps or self.moved_bytes >= self.step_bytes


@dataclass(frozen=True)
class MemoryInterval:
    """All tenants of a node in one interval.

    What they count for is in the unit of `goal`. `away` are tenants that are missing from the
    snapshot and may come back. No limit changes by more than `step_bytes` at once, except that
    `free_bytes`, which least memory left in no limit, are given at once. `is_forced` says that
    limits must change whatever is gained. Without `may_begin` no change begins; `is_gap` says that
    the interval is not whole. `wait_at` tells what a read of the device waits, in microseconds, if
    tenants have those limits, and all others what is planned.
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
        """The same with other limits planned for some: a part of the plan.

        Of what the plan spares the device, or asks of it, counts what this part does.
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
        """Tenants whose limits the plan changes, where it changes any by a step.

        What is a step for who gets it may be none for who gives it: by it less is left out.
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
    """A limit that a tenant had before a change, and gets back when that is undone.

    While it is rolled back it was at `seen_bytes` since `since_s`.
    """

    cgroup_id: int
    limit_bytes: int
    seen_bytes: int = 0
    since_s: float = 0.0


@dataclass
class Stuck:
    """A limit that the node does not move, and until when it is planned to stay as it is."""

    cgroup_id: int
    limit_bytes: int
    wait_s: float
    until_s: float


@dataclass
class Lacked:
    """The least limit with which a tenant lacked nothing that lacked something below it.

    Until then nothing below is planned; `wait_s` is for how long that is.
    """

    cgroup_id: int
    least_bytes: int
    wait_s: float
    until_s: float


@dataclass
class Member:
    """A tenant whose limit a change moves. `cost` is its part of the change's.

    It `gave_certain` memory if no more than what was certain could be lost by that: what it hit
    when the change began, with a miss ratio of `certain_miss`, which is 1 where nothing is certain
    of `from_bytes`.

    For its gain the change moves it to `meant_bytes`, whatever others need since; None where that
    is the same as `to_bytes`, or, of a change that is forced, where nothing is moved for a gain.
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

    def compare_with(self, limit_bytes: int) -> None:
        """It is judged by what the change does for its gain, beyond a limit that it would have."""
        if limit_bytes != self.from_bytes:
            # What it hit when the change began says nothing of another limit.
            self.certain_miss = 1.0
        self.from_bytes, self.meant_bytes = limit_bytes, None

    def decision(
        self, time_s: float, cgroup: str, event: Event, why: str, measured: Reading | None = None
    ) -> Decision:
        """What is told of it: `why` is of all members, what it did itself stands behind that."""
        before, after = (Setting(self.policy, one) for one in (self.from_bytes, self.to_bytes))
        readings = self.baseline, self.predicted, measured or Reading()
        if measured is not None:
            why = "; ".join(filter(None, (why, against_prediction(self.predicted, measured))))
        return Decision(time_s, cgroup, event, before, after, why, *readings)


@dataclass
class MemoryChange:
    """Limits that move together, until that is confirmed or undone.

    `cost` is what may be lost by it, `expected` its predicted gain per second, None until that is
    known of its present ends; both are in the unit of the goal. `gained` is measured against the
    limits of before: of all intervals with these members, and `since` of those in which all limits
    were there and full. `moved_s` is when one moved last, from where the `limits` are, or none was
    asked for, which was so for `waited_s` in all; `settled_s` since when they are there and full.
    For `idle_s` seconds nothing was told by which it could be judged. What is `forced` is needed,
    and not undone for what it costs.
    """

    started_s: float
    moved_s: float
    cost: float
    forced: bool
    expected: float | None = None
    members: dict[str, Member] = field(default_factory=dict)
    gained: Gain = field(default_factory=Gain)
    since: Gain = field(default_factory=Gain)
    settled_s: float | None = None
    limits: dict[str, int] = field(default_factory=dict)
    waited_s: float = 0.0
    idle_s: float = 0.0

    def force(self) -> None:
        """What is needed joins it: from now on limits go where that takes them."""
        if not self.forced:
            for one in self.members.values():
                one.meant_bytes = one.to_bytes
        self.forced = True

    def for_gain(self) -> dict[str, int]:
        """How much of the way of each member of what is forced is for a gain, below 0 of who gives.

        What is needed comes out of it first. Who gave gets back, were it undone, what those who got
        it give back, and what the change had left free.
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
        """Where everybody began, and goes back to since then."""
        members = self.members.items()
        return {name: Origin(one.cgroup_id, one.from_bytes, 0, since_s) for name, one in members}


@dataclass
class MemoryState:
    """It outlives a restart.

    `evidence` is, by tenant, what its present limit cost more than that of the plan, below 0 where
    it cost less; that of those whose limits a plan changes counts for it.

    `owed` is what tenants did not have of what they keep, and would have had by the plan. `lost` is
    what changes that were undone cost, until one gains. `restore` are limits that are rolled back,
    `stuck` those that the node did not move. `lacked` are tenants from which too much was taken,
    `fine` limits with which each lacked nothing in the last interval in which it did.

    All that is counted is in the unit of `goal`, and has the `weights` of tenants in it.
    """

    evidence: dict[str, float] = field(default_factory=dict)
    owed: float = 0.0
    lost: float = 0.0
    change: MemoryChange | None = None
    restore: dict[str, Origin] = field(default_factory=dict)
    stuck: dict[str, Stuck] = field(default_factory=dict)
    lacked: dict[str, Lacked] = field(default_factory=dict)
    fine: dict[str, int] = field(default_factory=dict)
    goal: str = ""
    weights: dict[str, float] = field(default_factory=dict)

    def takes(self, seen: MemoryInterval) -> bool:
        """Whether an interval counts in the unit of what is known; what is not is dropped."""
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
        """With a clock that went back, or over a time of which no snapshot tells (below 0)."""
        for origin in self.restore.values():
            origin.since_s -= seconds
        for stuck in self.stuck.values():
            stuck.until_s -= seconds
        for lacked in self.lacked.values():
            lacked.until_s -= seconds
        change = self.change
        if change is not None:
            change.started_s -= seconds
            change.moved_s -= seconds
            if change.settled_s is not None:
                change.settled_s -= seconds
