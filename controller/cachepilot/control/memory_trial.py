# SPDX-License-Identifier: Apache-2.0
"""Memory on trial: tenants whose limits move together, from the first step to the verdict.

Steps that go on in the same direction extend the trial; it is judged as one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import fmean

from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.memory_course import Anchor
from cachepilot.control.memory_sums import Compared, Together, together
from cachepilot.control.verdict import Stats, change, stats
from cachepilot.domain.decisions import Decision, Event, Reading, Setting
from cachepilot.domain.objectives.objective import Goal, Objective
from cachepilot.domain.planned import Action
from cachepilot.readable import number
from cachepilot.sense.counters import Sample

RESTARTS_MAX = 2
SETTLED_INTERVALS = 2
"""Cycles without a step after which nothing more is expected to move."""


class Phase(StrEnum):
    """Where a trial is."""

    MOVING = "moving"
    SETTLING = "settling"


@dataclass
class Member:
    """One tenant of the trial. `slo_met` is whether it kept all its SLOs before; None without.

    `predicted_times` is what is predicted of its throughput over what the same model says of the
    limit that it had: what a model is off by at both does not count as gain.
    """

    cgroup_id: int
    policy: str
    from_bytes: int
    to_bytes: int
    baseline: Stats
    predicted: Reading
    error_bar: float
    weight: float
    slo_met: bool | None
    may_miss_slo: bool = False
    predicted_times: float = 1.0
    accesses: int = 0
    adapted: bool = False
    samples: list[Sample] = field(default_factory=list)
    anchor: Anchor | None = None

    @property
    def is_donor(self) -> bool:
        """Whether it gives memory."""
        return self.to_bytes < self.from_bytes

    def decision(self, cgroup: str, time_s: float, event: Event, why: str) -> Decision:
        """What is written down of it."""
        return Decision(
            time_s=time_s,
            cgroup=cgroup,
            event=event,
            before=Setting(self.policy, self.from_bytes),
            after=Setting(self.policy, self.to_bytes),
            why=why,
            baseline=self.baseline.reading,
            predicted=self.predicted,
            measured=stats(self.samples).reading if self.samples else Reading(),
        )


@dataclass
class Origin:
    """A limit that a tenant began with, and goes back to when memory does."""

    cgroup_id: int
    limit_bytes: int


@dataclass
class MemoryTrial:
    """What moves, by cgroup.

    `ways` are who is to get more (True) or less in the end. None when memory must move, whatever
    is gained. `ends` are the limits where that leads. `left` are tenants that were members: nothing
    is judged by them any more, but memory is taken back for all. `phases` are those of all tenants
    of the node. When one changes the window begins anew, at most `RESTARTS_MAX` times, and what
    all do together is not compared any more: they share a device. Nor is it when anybody left.
    For `away_s` members were missing that may come back.
    `serves` are those whose SLO is missed and that get more: it comes before what others lose.
    `is_large` when it promises far more than what memory moved for so far: then donors of which
    nothing is promised owe nothing, neither from now nor from earlier moves, as long as what all do
    together can be judged.
    """

    started_s: float
    members: dict[str, Member]
    ways: dict[str, bool] | None = None
    ends: dict[str, int] = field(default_factory=dict)
    phase: Phase = Phase.MOVING
    settled_s: float = 0.0
    quiet: int = 0
    waited_s: float = 0.0
    away_s: float = 0.0
    left: dict[str, Member] = field(default_factory=dict)
    phases: dict[str, int] = field(default_factory=dict)
    restarts: int = 0
    serves: set[str] = field(default_factory=set)
    is_large: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether what all do together can be compared: nobody left, and no load changed."""
        return self.restarts == 0 and not self.left

    @property
    def sum_decides(self) -> bool:
        """Whether donors of which nothing is promised are judged by what all do together."""
        return self.is_large and self.is_whole

    @property
    def gives_to_nobody(self) -> bool:
        """Whether those that were to get memory have all left."""
        took = any(not one.is_donor for one in self.left.values())
        return took and all(one.is_donor for one in self.members.values())

    def leave(self, cgroup: str) -> None:
        """A member cannot be compared any more. One that joined again began where it did first."""
        member = self.members.pop(cgroup)
        self.left.setdefault(cgroup, member)
        self.serves.discard(cgroup)

    def step_of(self, action: Action) -> int | None:
        """The next limit of a tenant; None when it is not on the way that was begun.

        It goes no further than where that was to lead: more was not promised, of donors above all.
        """
        limit, here = action.limit_bytes, action.present.limit_bytes
        if self.ways is None:
            return limit
        up = limit > here
        if self.ways.get(action.cgroup) is not up:
            return None
        end = self.ends.get(action.cgroup, limit)
        limit = min(limit, end) if up else max(limit, end)
        return limit if (limit > here) is up and limit != here else None

    def origins(self) -> dict[str, Origin]:
        """Where everybody began, those that left too."""
        first = {**self.members, **self.left}
        return {name: Origin(one.cgroup_id, one.from_bytes) for name, one in first.items()}

    def everyone(self) -> dict[str, Member]:
        """Members, and those that left and did not join again."""
        return {**self.left, **self.members}

    def move_back(self, seconds: float) -> None:
        """With a clock that went back so far."""
        self.started_s -= seconds
        self.settled_s -= seconds


def meets_slos(objective: Objective, reading: Stats, p99_us: float | None) -> bool | None:
    """Whether readings keep every promise; None when there is none."""
    if not objective.has_slo:
        return None
    kept = objective.throughput_ops is None or reading.ops >= objective.throughput_ops
    kept = kept and (objective.hit_ratio is None or 1 - reading.miss >= objective.hit_ratio)
    if objective.latency_p99_us is not None and p99_us is not None:
        kept = kept and p99_us <= objective.latency_p99_us
    return kept


def observe(member: Member, sample: Sample | None, passed_s: float, config: GuardConfig) -> None:
    """Takes an interval in, once the limit is what it is to be."""
    if sample is None:
        return
    if not member.adapted:
        member.accesses += sample.accesses
        turned = member.accesses >= config.turned_pages(member.to_bytes)
        long = passed_s >= config.adapt_max_s
        member.adapted = passed_s >= config.adapt_min_s and (turned or long)
        return
    member.samples.append(sample)
    del member.samples[: -config.judge_intervals]


def is_judged(members: Iterable[Member], config: GuardConfig) -> bool:
    """Whether every member has been seen for long enough."""
    return all(len(one.samples) >= config.judge_intervals for one in members)


def worse_donor(member: Member, config: GuardConfig) -> str | None:
    """Why a donor fell beyond what was predicted of it; None when it did not."""
    if not member.is_donor or not member.samples:
        return None
    miss, anchor = member.predicted.miss_ratio or 0.0, member.anchor
    # A curve that was off by so much before the move is off by as much after it.
    margin = member.error_bar + 2 * config.miss_tolerance
    allowed = max(miss, member.baseline.miss) + margin
    first = allowed if anchor is None else max(anchor.promised_miss, anchor.baseline.miss) + margin
    # Of hundreds of donors in every cycle nearly all miss no more than is allowed.
    if fmean([one.miss_ratio for one in member.samples]) <= min(allowed, first):
        return None
    after = stats(member.samples)
    fell = change(member.baseline, after, config)
    if fell.miss_worse and after.miss > allowed and not fell.ops_better:
        return f"gave memory: miss ratio {after.miss:.4f}, {miss:.4f} predicted"
    return _beyond_anchor(member, after, config)


def _beyond_anchor(member: Member, after: Stats, config: GuardConfig) -> str | None:
    """Why a donor gave more, in moves that followed each other, than was predicted at first."""
    anchor = member.anchor
    if anchor is None:
        return None
    allowed = max(anchor.promised_miss, anchor.baseline.miss)
    fell = change(anchor.baseline, after, config)
    beyond = after.miss > allowed + member.error_bar + 2 * config.miss_tolerance
    if fell.miss_worse and beyond and not fell.ops_better:
        return (
            f"gave memory: miss ratio {anchor.baseline.miss:.4f} -> {after.miss:.4f}, "
            f"{anchor.promised_miss:.4f} predicted at first"
        )
    return None


def broken_slo(
    member: Member, objective: Objective, p99_us: float | None, config: GuardConfig
) -> str | None:
    """Why a promise that was kept before is not any more; None when that is as planned, or not so.

    Fewer operations at the same miss ratio are not for memory to answer.
    """
    if not member.slo_met or member.may_miss_slo or not member.samples:
        return None
    after = stats(member.samples)
    found = change(member.baseline, after, config)
    if meets_slos(objective, after, p99_us) or not (found.miss_worse and not found.ops_better):
        return None
    return f"an SLO that was kept is not: {number(after.ops)} ops/s, miss ratio {after.miss:.4f}"


_Counted = list[tuple[Member, Stats]]
"""Members with what is measured of them; none with a throughput of 0, before or after."""


def _counted(trial: MemoryTrial, config: GuardConfig) -> _Counted:
    """Tenants that memory moved, with what is measured: not those whose load did.

    When throughput and miss ratio both fell, or both rose, the load did; so did that of who does
    nothing at all.
    """
    found = []
    for one in trial.members.values():
        now = stats(one.samples)
        seen = change(one.baseline, now, config)
        opposite = (now.ops < one.baseline.ops) == (now.miss > one.baseline.miss)
        works = min(now.ops, one.baseline.ops) > 0
        if works and opposite and (seen.miss_worse or not seen.ops_worse):
            found.append((one, now))
    return found


def _together(counted: _Counted, goal: Goal) -> Together:
    compared = [
        Compared(one.weight, one.baseline, now, one.predicted_times) for one, now in counted
    ]
    return together(compared, goal)


def has_gained(trial: MemoryTrial, goal: Goal, config: GuardConfig) -> bool:
    """Whether half of the least that is worth a trial was measured."""
    if goal is Goal.LEAST_MEMORY:
        return sum(one.to_bytes - one.from_bytes for one in trial.members.values()) < 0
    found = _together(_counted(trial, config), goal)
    least = found.before * config.memory_gain_pct / 200
    return found.after - found.before > max(found.noise, least)


def _by_memory(member: Member, now: Stats, config: GuardConfig) -> bool:
    """Whether a gain may come of memory: the miss ratio fell by a part of what was predicted."""
    if not change(member.baseline, now, config).ops_better:
        return True
    told = member.predicted.miss_ratio
    least = 0.0 if told is None else member.baseline.miss - told
    return member.baseline.miss - now.miss >= config.kept_gain_pct / 100 * least


def keeps_promise(trial: MemoryTrial, goal: Goal, config: GuardConfig) -> bool:
    """Whether all together gained what was predicted of them all, as far as noise lets it be told.

    Then others made good what a donor lost beyond its own prediction. Of a tenant whose load
    changed neither counts.
    """
    measured = all(one.samples for one in trial.members.values())
    if trial.ways is None or not trial.is_whole or not measured:
        return False
    counted = [one for one in _counted(trial, config) if _by_memory(*one, config)]
    found = _together(counted, goal)
    promised, noise = found.predicted_gain, found.noise
    return promised > 0 and found.after - found.before >= max(noise, promised - noise)


def why_kept(trial: MemoryTrial, goal: Goal, config: GuardConfig) -> str:
    """Why memory stays where it is."""
    if not any(worse_donor(one, config) for one in trial.members.values()):
        return "nobody is worse off than was predicted"
    if trial.serves:
        return "a promise that was missed comes before what others lose"
    if not trial.sum_decides:
        return "all together gain what was predicted of them, though some lost more"
    gained = "gain by it" if has_gained(trial, goal, config) else "are no worse off"
    return f"all together {gained}, though some lost more than was predicted"


def why_in_vain(trial: MemoryTrial, goal: Goal, config: GuardConfig) -> str | None:
    """Why memory goes back: a donor lost and nobody gained; None when it was not so, or must be."""
    if trial.ways is None or goal is Goal.LEAST_MEMORY or not trial.is_whole:
        return None
    if has_gained(trial, goal, config):
        return None
    for cgroup, one in trial.members.items():
        found = change(one.baseline, stats(one.samples), config)
        if one.is_donor and found.miss_worse and not found.ops_better:
            return f"nobody gained what {cgroup} lost"
    return None


def worse_sum(trial: MemoryTrial, goal: Goal, config: GuardConfig) -> str | None:
    """Why all together are worse off by what the goal is about; None when they are not.

    Memory that an SLO asked for is not measured by that.
    """
    if not trial.is_whole:
        return None
    if trial.serves or any(
        one.slo_met is False and not one.is_donor for one in trial.members.values()
    ):
        return None
    found = _together(_counted(trial, config), goal)
    margin = found.before * config.tolerance_pct / 100 + config.noise_sigmas * found.noise
    if found.after >= found.before - margin:
        return None
    mean = goal is Goal.PROPORTIONAL_FAIRNESS
    what = "weighted geometric mean" if mean else "weighted sum"
    return f"{what} of throughput {number(found.before)} -> {number(found.after)} ops/s"
