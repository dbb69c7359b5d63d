# SPDX-License-Identifier: Apache-2.0
"""What is done of a plan: policies by the decider, memory as trials that are kept or taken back.

A state machine whose only clock is that of the snapshots. A tenant has at most one change under way
that is not settled, of its policy or of its memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cachepilot.control import absence, first_memory, memory_guard, policies
from cachepilot.control.absence import Away
from cachepilot.control.constraints import constrained
from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.memory_gain import Ahead, needs_memory
from cachepilot.control.memory_member import MemoryLook
from cachepilot.control.memory_state import MemoryState
from cachepilot.control.memory_trial import Phase
from cachepilot.control.policies import Cycle
from cachepilot.control.standing import NOBODY, Standing
from cachepilot.control.tenant_state import Recent, TenantState
from cachepilot.control.unconfirmed import foreign
from cachepilot.control.wish import NO_WISH, Wish
from cachepilot.decide.config import DecideConfig
from cachepilot.decide.state import is_settling
from cachepilot.domain.decisions import Decision, Event, Reading, Setting
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.planned import Plan, SloOutcome, SloState
from cachepilot.plan.slo_outcomes import meets
from cachepilot.sense.clock import Clock
from cachepilot.sense.collect import Collected

UNKNOWN_REGIME = 1 << 64
"""More than an agent can count to: whatever it tells next is no change of the workload."""
RECOMMENDED_SHARE = 0.1
"""Of a limit: by how much a recommendation must differ to be written down again."""


@dataclass
class GuardState:
    """All that outlives a restart."""

    tenants: dict[str, TenantState] = field(default_factory=dict)
    away: dict[str, Away] = field(default_factory=dict)
    memory: MemoryState = field(default_factory=MemoryState)
    clock: Clock = field(default_factory=Clock)


@dataclass(frozen=True)
class Guarded:
    """What is to be done now, by cgroup, and what was decided."""

    wishes: dict[str, Wish]
    decisions: list[Decision]


@dataclass
class Beyond:
    """From when to when a promise was known to be infeasible."""

    since_s: float
    last_s: float

    def is_long(self, cool_s: float) -> bool:
        """Whether that is long enough to rest on."""
        return self.last_s - self.since_s > cool_s

    def move_back(self, seconds: float) -> None:
        """With a clock that went back so far."""
        self.since_s -= seconds
        self.last_s -= seconds


class Guard:
    """The guard of one node."""

    def __init__(
        self,
        config: GuardConfig,
        state: GuardState | None = None,
        decide: DecideConfig | None = None,
        interval_s: float | None = None,
    ) -> None:
        """`interval_s` is how often a snapshot is asked for, in seconds."""
        self.config = config
        self.decide = decide or DecideConfig()
        self.state = state or GuardState()
        if self.state.clock.interval_s is None:
            self.state.clock.interval_s = interval_s
        self._recent: dict[str, Recent] = {}
        self._needy: frozenset[str] = frozenset()
        self._lost: dict[str, Beyond] = {}
        self._standing = NOBODY

    def agent_restarted(self) -> None:
        """The agent counts phases of workloads anew: the next that it tells is no change."""
        trial = self.state.memory.trial
        if trial is not None:
            trial.phases = {}
        away = (one.state for one in self.state.away.values())
        for state in (*self.state.tenants.values(), *away):
            state.policy.regime = UNKNOWN_REGIME

    def constrain(
        self, collected: Collected, objectives: Objectives, standing: Standing = NOBODY
    ) -> Objectives:
        """Objectives as the planner may see them; see `cachepilot.control.constraints`."""
        self._standing = standing
        # What is long known to be infeasible holds no memory that others could keep theirs with.
        cool_s = self.config.cool_down_s
        lost = {name for name, one in self._lost.items() if one.is_long(cool_s)}
        keeping = replace(standing, short=standing.short - lost, tight=standing.tight - lost)
        return constrained(
            collected,
            objectives,
            self.state.tenants,
            self.state.memory.restore,
            self._needy & collected.seen.keys(),
            keeping,
            self.config,
        )

    def first_memory(self, collected: Collected, objectives: Objectives) -> dict[str, int]:
        """The first memory of each tenant, bytes; see `cachepilot.control.first_memory`."""
        found = {}
        for cgroup, seen in collected.seen.items():
            state = self.state.tenants.get(cgroup)
            if state is None or state.cgroup_id != seen.wire.cgroup_id:
                found[cgroup] = first_memory.found_bytes(seen)
                continue
            recent = self._recent.setdefault(cgroup, Recent())
            changed = first_memory.set_by_operator(recent, seen)
            pinned = first_memory.pinned_bytes(seen, objectives.of(cgroup))
            first = state.held_first_bytes or first_memory.found_bytes(seen)
            state.held_first_bytes = found[cgroup] = pinned or changed or first
        return found

    def step(
        self,
        collected: Collected,
        plan: Plan,
        objectives: Objectives,
        step_bytes: int,
        refused: Mapping[str, str],
        orders: Mapping[str, Wish],
        limits_fixed: bool = False,
        ahead: Ahead | None = None,
        may_begin: bool = True,
    ) -> Guarded:
        """Lets one snapshot pass. `refused` are policies that the node would not attach, and why.

        `orders` are an operator's; a policy or a limit that is ordered is not tried but done.
        With `limits_fixed` no limit is changed otherwise. `step_bytes` bounds a step on the way
        back. `ahead` says where memory is going in many cycles; it is where the plan goes when it
        is not given. Without `may_begin` what is under way is judged and taken back, and nothing
        else is begun.
        """
        elapsed_s, is_gap = self._elapsed(collected.time_s)
        self._needy = needs_memory(plan)
        self._note_lost(plan, objectives, collected)
        decisions = self._forget(collected)
        theirs = foreign(self.state.tenants, collected.seen)
        cycle = Cycle(
            collected, plan, objectives, elapsed_s, refused, orders, self._moving() | theirs,
            is_gap, may_begin,
        )  # fmt: skip
        wishes, told = policies.decide(cycle, self.state.tenants, self._recent, self.decide)
        decisions += told
        # Memory is watched, and goes back, also where what is held leaves no room for a plan.
        memory = self.state.memory
        may_move = may_begin and not limits_fixed
        if not may_move:
            memory.patience.agreed = 0
        if may_move or memory.restore or memory.absent or memory.trial is not None:
            look = MemoryLook(
                collected,
                plan,
                objectives,
                elapsed_s,
                step_bytes,
                wishes.keys() | self._settling(collected.time_s) | theirs,
                ahead or (lambda: plan),
                {name for name, wish in orders.items() if wish.limit_bytes is not None},
                self._standing,
                may_move,
                is_gap,
                self.state.away.keys(),
            )
            wanted, moved = memory_guard.step(
                memory, look, self.state.tenants, self._recent, self.config
            )
            decisions += moved
            for cgroup, limit in wanted.items():
                earlier = wishes.get(cgroup, NO_WISH)
                wishes[cgroup] = replace(earlier, limit_bytes=earlier.limit_bytes or limit)
        for cgroup, wish in wishes.items():
            if wish.limit_bytes is not None:
                seen = collected.seen[cgroup]
                first_memory.note_wish(self._recent[cgroup], seen, wish.limit_bytes)
        decisions += self._recommend(plan, collected)
        return Guarded(wishes, decisions)

    def _moving(self) -> frozenset[str]:
        """Whose limit is on trial, will be once memory moves as far as it is to, or goes back."""
        memory = self.state.memory
        trial = memory.trial
        if trial is None:
            return frozenset(memory.restore)
        later = trial.ways if trial.phase is Phase.MOVING and trial.ways is not None else ()
        return frozenset((*trial.members, *later, *memory.restore))

    def _settling(self, time_s: float) -> frozenset[str]:
        """Whose page cache still turns over after a change of policy."""
        states = self.state.tenants.items()
        return frozenset(name for name, one in states if is_settling(one.policy, time_s))

    def _note_lost(self, plan: Plan, objectives: Objectives, collected: Collected) -> None:
        """What is long known to be infeasible stays so until it was not for a while.

        It holds no memory then, which is why the next plan says that it is feasible.
        """
        time_s, cool_s = collected.time_s, self.config.cool_down_s
        for one in plan.slos:
            if _is_beyond(one, objectives):
                self._lost.setdefault(one.cgroup, Beyond(time_s, time_s)).last_s = time_s
        self._lost = {
            name: one
            for name, one in self._lost.items()
            if name in collected.seen
            and (one.last_s == time_s or (one.is_long(cool_s) and time_s - one.last_s < cool_s))
        }

    def _elapsed(self, time_s: float) -> tuple[float, bool]:
        """Seconds since the last snapshot that count, and whether the clock jumped beside them.

        Times go with a clock that went back. Over a gap, or with a clock that was put forward, go
        those since when something is seen: it was not seen meanwhile. A wait gets no longer by it.
        """
        counted_s, skipped_s = passed = self.state.clock.advance(time_s)
        state = self.state
        tenants = (*state.tenants.values(), *(one.state for one in state.away.values()))
        if skipped_s < 0:
            state.memory.move_back(-skipped_s)
            for one in tenants:
                one.move_back(-skipped_s)
        elif skipped_s > 0:
            if state.memory.trial is not None:
                state.memory.trial.move_back(-skipped_s)
            for one in tenants:
                one.skip(skipped_s)
        if passed.is_gap:
            for lost in self._lost.values():
                lost.move_back(-skipped_s)
            for away in state.away.values():
                away.since_s += skipped_s
        return counted_s, passed.is_gap

    def _forget(self, collected: Collected) -> list[Decision]:
        """Drops tenants that are gone; their trials end."""
        states = self.state.tenants
        before = dict(states)
        decisions = absence.follow(
            states, self.state.away, collected.seen, collected.time_s, self.config.patience_s
        )
        for cgroup in list(self._recent):
            if states.get(cgroup) is not before.get(cgroup):
                del self._recent[cgroup]
        for cgroup, seen in collected.seen.items():
            recent = self._recent.setdefault(cgroup, Recent())
            if seen.sample is not None:
                recent.samples.append(seen.sample)
        return decisions

    def _recommend(self, plan: Plan, collected: Collected) -> list[Decision]:
        """Writes recommendations down that differ from the last one."""
        decisions = []
        for action in plan.actions:
            advised = action.recommended
            if advised is None:
                continue
            state, now = self.state.tenants[action.cgroup], action.present
            last = state.recommended or (now.policy, now.limit_bytes)
            moved = abs(advised.limit_bytes - last[1]) > RECOMMENDED_SHARE * last[1]
            if advised.policy == last[0] and not moved:
                continue
            state.recommended = (advised.policy, advised.limit_bytes)
            decisions.append(
                Decision(
                    time_s=collected.time_s,
                    cgroup=action.cgroup,
                    event=Event.RECOMMENDED,
                    before=Setting(now.policy, now.limit_bytes),
                    after=Setting(advised.policy, advised.limit_bytes),
                    why="mode is recommend: nothing is changed",
                    baseline=Reading(now.throughput_ops, now.miss_ratio),
                    predicted=Reading(advised.throughput_ops, advised.miss_ratio),
                )
            )
        return decisions


def _is_beyond(outcome: SloOutcome, objectives: Objectives) -> bool:
    """Whether a promise itself is infeasible, and not only what the planner aims at for it."""
    if outcome.state is not SloState.UNATTAINABLE or outcome.attainable is None:
        return False
    target = getattr(objectives.of(outcome.cgroup), outcome.kind)
    return target is not None and not meets(outcome.kind, outcome.attainable, target)
