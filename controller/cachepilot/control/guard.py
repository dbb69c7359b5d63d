# SPDX-License-Identifier: Apache-2.0
"""The guard: what is done of a plan, as trials that are measured and kept or taken back.

A state machine whose only clock is that of the snapshots. One trial per tenant for its policy, and
one per node for memory that moves between tenants; a tenant on trial keeps its limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cachepilot.control import memory_guard, phase_guard, policy_guard
from cachepilot.control.collect import Collected
from cachepilot.control.constraints import constrained
from cachepilot.control.decisions import Decision, Event, Reading, Setting
from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.memory_gain import Ahead, needs_memory
from cachepilot.control.memory_guard import MemoryState
from cachepilot.control.memory_member import MemoryLook
from cachepilot.control.policy_guard import Look, Recent, TenantState
from cachepilot.control.policy_trial import Outcome
from cachepilot.planner.decision import Action, Held, Plan
from cachepilot.planner.decision import Setting as Present
from cachepilot.planner.objectives import Objectives

RECOMMENDED_SHARE = 0.1
"""Of a limit: by how much a recommendation must differ to be written down again."""


@dataclass
class GuardState:
    """All that outlives a restart."""

    tenants: dict[str, TenantState] = field(default_factory=dict)
    memory: MemoryState = field(default_factory=MemoryState)
    last_s: float | None = None


@dataclass(frozen=True)
class Wish:
    """What one tenant is to have; None leaves it as it is. `ordered` is an operator's."""

    policy: str | None = None
    limit_bytes: int | None = None
    ordered: bool = False

    def changes(self, now: Present) -> bool:
        """Whether a tenant has not yet what it is to have."""
        limit = self.limit_bytes not in (None, now.limit_bytes)
        return limit or self.policy not in (None, now.policy)


NO_WISH = Wish()


@dataclass(frozen=True)
class Guarded:
    """What is to be done now, by cgroup, and what was decided."""

    wishes: dict[str, Wish]
    decisions: list[Decision]


class Guard:
    """The guard of one node."""

    def __init__(self, config: GuardConfig, state: GuardState | None = None) -> None:
        self.config = config
        self.state = state or GuardState()
        self._recent: dict[str, Recent] = {}
        self._needy: frozenset[str] = frozenset()

    def constrain(self, collected: Collected, objectives: Objectives) -> Objectives:
        """Objectives as the planner may see them; see `cachepilot.control.constraints`."""
        return constrained(
            collected,
            objectives,
            self.state.tenants,
            self.state.memory.restore,
            self._needy & collected.seen.keys(),
            self.config,
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
    ) -> Guarded:
        """Lets one snapshot pass. `refused` are policies that the node would not attach, and why.

        `orders` are an operator's; a policy or a limit that is ordered is not tried but done.
        With `limits_fixed` no limit is changed otherwise. `step_bytes` bounds a step on the way
        back. `ahead` says where memory alone is going in many cycles; it is where the plan goes
        when it is not given.
        """
        elapsed_s = self._elapsed(collected)
        self._needy = needs_memory(plan)
        decisions = self._forget(collected)
        cycle = _Cycle(collected, plan, objectives, elapsed_s, refused)
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
        # Memory goes back also where what is held leaves no room for a plan: that frees it.
        if not limits_fixed or self.state.memory.restore:
            look = MemoryLook(
                collected,
                plan,
                objectives,
                elapsed_s,
                step_bytes,
                wishes.keys(),
                ahead or (lambda: plan),
                {name for name, wish in orders.items() if wish.limit_bytes is not None},
            )
            wanted, moved = memory_guard.step(
                self.state.memory, look, self.state.tenants, self._recent, self.config
            )
            decisions += moved
            for cgroup, limit in wanted.items():
                earlier = wishes.get(cgroup, NO_WISH)
                wishes[cgroup] = replace(earlier, limit_bytes=earlier.limit_bytes or limit)
        decisions += self._recommend(plan, collected)
        return Guarded(wishes, decisions)

    def _elapsed(self, collected: Collected) -> float:
        """Since the last snapshot. A node whose clock went back gets no trial judged by it."""
        last, self.state.last_s = self.state.last_s, collected.time_s
        if last is None:
            return 0.0
        if collected.time_s < last:
            back_s = last - collected.time_s
            patience = self.state.memory.patience
            patience.until_s -= back_s
            patience.ask_again_s -= back_s
            for state in self.state.tenants.values():
                if state.course is not None:
                    state.course.time_s -= back_s
                state.cool_until_s -= back_s
                state.limit_cool_until_s -= back_s
                state.swaps_s = [one - back_s for one in state.swaps_s]
                for tried in state.tried.values():
                    tried.until_s -= back_s
                state.ended_s = None if state.ended_s is None else state.ended_s - back_s
                if state.fell_back_s is not None:
                    state.fell_back_s -= back_s
                if state.trial is not None:
                    state.trial.waited_s = self.config.patience_s + self.config.effect_s
            return 0.0
        return collected.time_s - last

    def _forget(self, collected: Collected) -> list[Decision]:
        """Drops tenants that are gone; their trials end."""
        decisions = []
        for cgroup, state in list(self.state.tenants.items()):
            seen = collected.seen.get(cgroup)
            if seen is not None and seen.wire.cgroup_id == state.cgroup_id:
                continue
            if state.trial is not None:
                why = "the cgroup is gone"
                time_s = collected.time_s
                decisions.append(state.trial.decision(cgroup, time_s, Event.ABANDONED, why))
            del self.state.tenants[cgroup]
            self._recent.pop(cgroup, None)
        for cgroup, seen in collected.seen.items():
            if cgroup not in self.state.tenants:
                state = TenantState(seen.wire.cgroup_id)
                state.held_first_bytes = seen.limit_bytes
                self.state.tenants[cgroup] = state
            recent = self._recent.setdefault(cgroup, Recent())
            if seen.sample is not None:
                recent.samples.append(seen.sample)
        return decisions

    def _advance(
        self, cgroup: str, state: TenantState, cycle: "_Cycle", orders: Mapping[str, Wish]
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

    def _fall_back(self, cycle: "_Cycle", orders: Mapping[str, Wish]) -> list[Decision]:
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

    def _propose(self, cycle: "_Cycle", wishes: dict[str, Wish]) -> list[Decision]:
        """Begins trials of what the plan proposes, those that promise most first."""
        candidates = []
        decisions = []
        memory_trial = self.state.memory.trial
        moving = () if memory_trial is None else tuple(memory_trial.members)
        running = sum(state.trial is not None for state in self.state.tenants.values())
        room = max(0, self.config.trials_at_once - running)
        for action in cycle.plan.actions:
            cgroup = action.cgroup
            state, recent = self.state.tenants[cgroup], self._recent[cgroup]
            busy = state.trial is not None or state.restore is not None
            held = busy or action.held is not Held.NOT
            same = action.policy == action.present.policy
            if same or held or wishes.get(cgroup, NO_WISH).changes(action.present):
                recent.proposed = ""
                continue
            named = cycle.objectives.of(cgroup).policies
            banned = bool(named) and action.present.policy not in named
            if room == 0 and not banned:
                continue
            look = cycle.look(cgroup)
            if banned:
                decisions += _ordered(action, look, recent)
                policy_guard.count_swap(state, look.time_s)
                earlier = wishes.get(cgroup, NO_WISH)
                wishes[cgroup] = replace(earlier, policy=action.policy, ordered=True)
                continue
            wanted = policy_guard.proposal(look, action.policy, self.config)
            # One whose memory is on trial would leave it; that is worth no small gain.
            if wanted is None or (cgroup in moving and not wanted.is_far):
                recent.proposed = ""
            elif policy_guard.may_begin(state, recent, look, wanted, self.config):
                worth = cycle.objectives.of(cgroup).weight
                gain = (wanted.after.ops or 0.0) - (wanted.before.ops or 0.0)
                candidates.append((worth * gain, cgroup, look, wanted))
        candidates.sort(key=lambda one: (-one[0], one[1]))
        for _, cgroup, look, wanted in candidates[:room]:
            begun = policy_guard.begin(
                self.state.tenants[cgroup], self._recent[cgroup], look, wanted, self.config
            )
            decisions += [] if begun is None else [begun]
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


@dataclass(frozen=True)
class _Cycle:
    """One cycle of a node, as its tenants are looked at."""

    collected: Collected
    plan: Plan
    objectives: Objectives
    elapsed_s: float
    refused: Mapping[str, str]

    def look(self, cgroup: str) -> Look:
        """One tenant; it may have every policy when nothing is said of them."""
        seen = self.collected.seen[cgroup]
        named = self.objectives.of(cgroup).policies
        known = () if seen.measured is None else seen.measured.curves.policies
        return Look(
            seen=seen,
            elapsed_s=self.elapsed_s,
            time_s=self.collected.time_s,
            device=self.collected.snapshot.device,
            wait_us=self.plan.device_wait_us,
            allowed=frozenset(named or (*known, seen.tenant.policy)),
            refused=self.refused.get(cgroup),
        )


def _ordered(action: Action, look: Look, recent: Recent) -> list[Decision]:
    """Says once that a policy is replaced because the objectives do not allow it."""
    if recent.ordered == action.policy:
        return []
    recent.ordered = action.policy
    now = action.present
    return [
        Decision(
            time_s=look.time_s,
            cgroup=action.cgroup,
            event=Event.KEPT,
            before=Setting(now.policy, now.limit_bytes),
            after=Setting(action.policy, now.limit_bytes),
            why=f"the objectives do not allow {now.policy}; not a trial",
            predicted=Reading(action.throughput_ops, action.miss_ratio),
        )
    ]
