# SPDX-License-Identifier: Apache-2.0
"""The guard: what is done of a plan, as trials that are measured and kept or taken back.

A state machine whose only clock is that of the snapshots. One trial per tenant for its policy, and
one per node for memory that moves between tenants; a tenant on trial keeps its limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cachepilot.control import (
    absence,
    make_room,
    memory_guard,
    phase_guard,
    policy_guard,
    proposals,
)
from cachepilot.control.absence import Away
from cachepilot.control.collect import Collected
from cachepilot.control.constraints import constrained
from cachepilot.control.decisions import Decision, Event, Reading, Setting
from cachepilot.control.guard_clock import Clock
from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.memory_gain import Ahead, grows, needs_memory
from cachepilot.control.memory_guard import MemoryState
from cachepilot.control.memory_member import MemoryLook
from cachepilot.control.policy_guard import Look, Recent, TenantState
from cachepilot.control.policy_trial import Outcome
from cachepilot.control.proposals import NO_WISH, Before, Cycle, Wish
from cachepilot.control.standing import NOBODY, Standing
from cachepilot.planner.decision import Plan, SloOutcome, SloState
from cachepilot.planner.objectives import Objectives
from cachepilot.planner.slo_outcomes import meets

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

    def __init__(self, config: GuardConfig, state: GuardState | None = None) -> None:
        self.config = config
        self.state = state or GuardState()
        self._recent: dict[str, Recent] = {}
        self._needy: frozenset[str] = frozenset()
        self._lost: dict[str, Beyond] = {}
        self._unknown_since_s: dict[str, float] = {}
        self._standing = NOBODY
        self._room = make_room.Room()

    def constrain(
        self,
        collected: Collected,
        objectives: Objectives,
        standing: Standing = NOBODY,
        lifted: bool = False,
    ) -> Objectives:
        """Objectives as the planner may see them; see `cachepilot.control.constraints`.

        With `lifted` as if no policy were on trial.
        """
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
            lifted,
        )

    def held_first(self, collected: Collected) -> dict[str, int]:
        """What each tenant held when it was first seen."""
        found = {}
        for cgroup, seen in collected.seen.items():
            state = self.state.tenants.get(cgroup)
            if state is None or state.cgroup_id != seen.wire.cgroup_id:
                found[cgroup] = seen.limit_bytes
            else:
                state.held_first_bytes = state.held_first_bytes or seen.limit_bytes
                found[cgroup] = state.held_first_bytes
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
        lifted: Ahead | None = None,
    ) -> Guarded:
        """Lets one snapshot pass. `refused` are policies that the node would not attach, and why.

        `orders` are an operator's; a policy or a limit that is ordered is not tried but done.
        With `limits_fixed` no limit is changed otherwise. `step_bytes` bounds a step on the way
        back. `ahead` says where memory alone is going in many cycles, `lifted` where it would go if
        no policy were on trial; it is where the plan goes when they are not given.
        """
        elapsed_s = self._elapsed(collected)
        # Who was so when the cycle was planned has no choice in its plans.
        was_clearing = self._is_clearing(collected.time_s)
        self._needy = needs_memory(plan)
        self._note_lost(plan, objectives, collected)
        self._unknown_since_s = {
            name: self._unknown_since_s.get(name, collected.time_s)
            for name in sorted(proposals.unknown(plan))
        }
        decisions = self._forget(collected)
        cycle = Cycle(collected, plan, objectives, elapsed_s, refused)
        ahead = ahead or (lambda: plan)
        if limits_fixed:
            self.state.memory.patience.agreed = 0
        else:
            decisions += self._make_room(cycle, ahead, lifted or ahead)
        for cgroup, state in self.state.tenants.items():
            state.budget.pass_time(elapsed_s, self.config)
            if state.trial is not None or state.restore is not None:
                decisions += self._advance(cgroup, state, cycle, orders)
        decisions += self._fall_back(cycle, orders)
        wishes = dict(orders)
        decisions += self._propose(cycle, wishes)
        for cgroup, state in self.state.tenants.items():
            policy = state.restore or (None if state.trial is None else state.trial.to_policy)
            if policy is not None:
                wishes[cgroup] = replace(wishes.get(cgroup, NO_WISH), policy=policy)
        # Memory is watched, and goes back, also where what is held leaves no room for a plan.
        memory = self.state.memory
        if not limits_fixed or memory.restore or memory.trial is not None:
            look = MemoryLook(
                collected,
                plan,
                objectives,
                elapsed_s,
                step_bytes,
                wishes.keys(),
                ahead,
                {name for name, wish in orders.items() if wish.limit_bytes is not None},
                self._standing,
                was_clearing or self._is_clearing(collected.time_s),
            )
            wanted, moved = memory_guard.step(
                memory, look, self.state.tenants, self._recent, self.config
            )
            decisions += moved
            for cgroup, limit in wanted.items():
                earlier = wishes.get(cgroup, NO_WISH)
                wishes[cgroup] = replace(earlier, limit_bytes=earlier.limit_bytes or limit)
        decisions += self._recommend(plan, collected)
        return Guarded(wishes, decisions)

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

    def _elapsed(self, collected: Collected) -> float:
        """Since the last snapshot. A node whose clock went back gets no trial judged by it."""
        counted_s = self.state.clock.advance(collected.time_s)
        if counted_s >= 0:
            return counted_s
        back_s = -counted_s
        self.state.memory.move_back(back_s)
        self._room.move_back(back_s)
        for lost in self._lost.values():
            lost.move_back(back_s)
        self._unknown_since_s = {
            name: since_s - back_s for name, since_s in self._unknown_since_s.items()
        }
        for away in self.state.away.values():
            away.move_back(back_s, self.config)
        for state in self.state.tenants.values():
            state.move_back(back_s, self.config)
        return 0.0

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

    def _advance(
        self, cgroup: str, state: TenantState, cycle: Cycle, orders: Mapping[str, Wish]
    ) -> list[Decision]:
        """What is under way on one tenant."""
        look = cycle.look(cgroup)
        trial = state.trial
        order = orders.get(cgroup, NO_WISH)
        if order.policy is not None:
            state.restore = None
        banned = trial is not None and trial.to_policy not in look.allowed
        moved = order.limit_bytes not in (None, look.seen.limit_bytes)
        if trial is not None and (order.policy is not None or banned or moved):
            back = order.policy is None and not banned
            outcome = Outcome(Event.ABANDONED, "an operator decided otherwise", back=back)
            return [policy_guard.end(state, cgroup, outcome, look, self.config)]
        ended = policy_guard.step(state, look, self.config)
        if ended is not None:
            return [ended]
        return self._frozen(state, look)

    def _make_room(self, cycle: Cycle, held: Ahead, lifted: Ahead) -> list[Decision]:
        """Ends trials of policies that memory comes before."""
        memory = self.state.memory
        if memory.restore:
            return []
        rests = cycle.collected.time_s < memory.patience.until_s
        asked = make_room.Asked(
            cycle.collected,
            cycle.objectives,
            self._standing,
            held,
            lifted,
            may_move=memory.trial is None and not rests,
            is_next=memory.trial is None
            and memory.patience.agreed >= self.config.confirm_intervals - 1,
            trial=memory.trial,
        )
        decisions = []
        for cgroup, why in make_room.to_end(
            self._room, asked, self.state.tenants, self.config
        ).items():
            outcome = Outcome(Event.ABANDONED, why, back=True, blamed=False)
            look = cycle.look(cgroup)
            state = self.state.tenants[cgroup]
            decisions.append(policy_guard.end(state, cgroup, outcome, look, self.config))
        return decisions

    def _is_clearing(self, time_s: float) -> bool:
        """Whether who is to give or get memory has not yet its earlier policy back."""
        if time_s >= self._room.kept_until_s:
            return False
        return any(state.restore is not None for state in self.state.tenants.values())

    def _propose(self, cycle: Cycle, wishes: dict[str, Wish]) -> list[Decision]:
        """Begins trials of policies that nothing comes before."""
        memory = self.state.memory
        agreed = memory.trial is None and memory.patience.agreed > 0
        made = cycle.collected.time_s < self._room.kept_until_s
        since_s = cycle.collected.time_s - self.config.cool_down_s
        awaited = [name for name, one_s in self._unknown_since_s.items() if one_s >= since_s]
        waits = proposals.waits_for_memory(cycle.plan, self._standing, awaited)
        before = Before(
            self._standing,
            agreed or made or waits,
            proposals.moving(memory),
            proposals.lost(cycle.plan),
            grows(cycle.plan),
            proposals.kept(cycle.plan),
            frozenset(memory.restore),
        )
        return proposals.propose(
            cycle, wishes, self.state.tenants, self._recent, before, self.config
        )

    def _fall_back(self, cycle: Cycle, orders: Mapping[str, Wish]) -> list[Decision]:
        """Takes policies back whose phase is over."""
        decisions = []
        for cgroup, state in self.state.tenants.items():
            recent = self._recent[cgroup]
            before, phase = state.told_phase, cycle.collected.seen[cgroup].wire.phase
            if before == phase and recent.phase_age > phase_guard.FRESH_INTERVALS:
                continue
            look = cycle.look(cgroup)
            phase_guard.note_phase(state, recent, look)
            if orders.get(cgroup, NO_WISH).policy is None:
                objective = cycle.objectives.of(cgroup)
                found = phase_guard.fall_back(state, recent, look, objective, self.config)
                decisions += [] if found is None else [found]
        return decisions

    def _frozen(self, state: TenantState, look: Look) -> list[Decision]:
        """Says once that a trial waits because its curves are not to be trusted."""
        recent = self._recent[look.seen.tenant.cgroup]
        trust = look.seen.tenant.trust
        frozen = not trust.trusted and look.seen.window is not None
        was, recent.frozen = recent.frozen, state.trial is not None and frozen
        if state.trial is None or was or not recent.frozen:
            return []
        why = f"the trial waits: {trust.reason}"
        return [state.trial.decision(look.seen.tenant.cgroup, look.time_s, Event.FROZEN, why)]

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
