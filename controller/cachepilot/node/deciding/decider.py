# SPDX-License-Identifier: Apache-2.0
"""The decider of one node: it calls the steps for policies and memory, and acts on their outcomes.

The steps are pure functions whose only clock is that of the snapshots. A tenant has at most one
unsettled change under way, either of its policy or of its memory.

A *foreign* limit is one that neither the controller nor the agent set. A *yielded* limit is a
foreign one that the agent no longer contests.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from cachepilot.decide.advice.law import AdviceState
from cachepilot.decide.config import DecideConfig
from cachepilot.decide.memory import asked, giving_back
from cachepilot.decide.memory import rollout as memory_rollout
from cachepilot.decide.memory import step as memory
from cachepilot.decide.memory.state import MemoryState
from cachepilot.decide.state import is_settling, is_unproven
from cachepilot.domain.decisions import Decision, Event
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.planned import Plan
from cachepilot.model.limit_calibration import Shifts
from cachepilot.model.throughput import ModelKind
from cachepilot.node.deciding import before_pin, first_memory, measuring, others, policies, presence
from cachepilot.node.deciding.before_pin import BeforePin
from cachepilot.node.deciding.memory import interval
from cachepilot.node.deciding.policies import Cycle
from cachepilot.node.deciding.presence import Away
from cachepilot.node.deciding.tenant_state import Recent, TenantState
from cachepilot.node.deciding.wish import NO_WISH, Wish
from cachepilot.node.deciding.worth import MemoryCycle
from cachepilot.sense.clock import Clock
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sense.policy_costs import PolicyCosts

UNKNOWN_REGIME = 1 << 64
"""Greater than any regime number of an agent: the next one reported is no change of regime."""


@dataclass
class NodeState:
    """All state of the decider that survives a restart."""

    tenants: dict[str, TenantState] = field(default_factory=dict)
    away: dict[str, Away] = field(default_factory=dict)
    memory: MemoryState = field(default_factory=MemoryState)
    advice: AdviceState = field(default_factory=AdviceState)
    costs: PolicyCosts = field(default_factory=PolicyCosts)
    clock: Clock = field(default_factory=Clock)
    before_pins: dict[str, BeforePin] = field(default_factory=dict)


@dataclass(frozen=True)
class Decided:
    """The wishes of a cycle by cgroup, and the decisions that led to them."""

    wishes: dict[str, Wish]
    decisions: list[Decision]


@dataclass(frozen=True)
class Look:
    """The input of one cycle's decisions.

    `refused` are policies that the node did not attach, and why. `orders` are an operator's: an
    ordered policy or limit is set without a trial. `short` are tenants that measurably miss an SLO.
    With `limits_fixed` no limit changes except by an order. No limit changes by more than
    `step_bytes` at once. Without `may_begin` changes under way are judged and rolled back, and
    nothing else begins. Tenants that are `restored` get back the protected share of their first
    memory. `plan_objectives` are those that the plan was made for, with targets corrected by the
    error of the model. `fallen` are tenants that missed an SLO in the last interval by more than
    intervals scatter. `model` is the throughput model that the plan was made by.
    """

    collected: Collected
    plan: Plan
    objectives: Objectives
    plan_objectives: Objectives
    step_bytes: int
    model: ModelKind
    refused: Mapping[str, str] = field(default_factory=dict)
    orders: Mapping[str, Wish] = field(default_factory=dict)
    short: frozenset[str] = frozenset()
    limits_fixed: bool = False
    may_begin: bool = True
    restored: frozenset[str] = frozenset()
    fallen: frozenset[str] = frozenset()


class Decider:
    """The decider of one node."""

    def __init__(
        self,
        config: DecideConfig,
        state: NodeState | None = None,
        interval_s: float | None = None,
    ) -> None:
        """Begin with a restored `state`, if any; `interval_s` is the time between snapshots."""
        self.config = config
        self.state = state or NodeState()
        if self.state.clock.interval_s is None:
            self.state.clock.interval_s = interval_s
        self.recents: dict[str, Recent] = {}
        self.shifts: dict[str, Shifts] = {}
        """By cgroup, the error of the curve that was measured at the limits that the tenant had."""
        self._elapsed_s, self._is_gap = 0.0, False
        self._swapped: dict[str, str] = {}
        self.left_alone: frozenset[str] = frozenset()

    @property
    def elapsed_s(self) -> float:
        """Seconds since the last snapshot that count; a gap counts as a few intervals."""
        return self._elapsed_s

    @property
    def is_gap(self) -> bool:
        """Whether no snapshot covers a part of the time since the last one."""
        return self._is_gap

    def agent_restarted(self) -> None:
        """Expect regime numbers from zero: the next one reported is no change of regime."""
        away = (one.state for one in self.state.away.values())
        for state in (*self.state.tenants.values(), *away):
            state.policy.regime = state.limits_regime = UNKNOWN_REGIME

    def observe(self, collected: Collected, objectives: Objectives) -> list[Decision]:
        """Take in a snapshot before the plan is made: tenants present, and measurements.

        Return decisions about changes that ended because their cgroup is gone.
        """
        self._elapsed_s, self._is_gap = self._advance(collected.time_s)
        self.state.costs.take(collected.seen.values(), self._elapsed_s)
        decisions = presence.follow(
            self.state.tenants, self.state.away, collected.seen, collected.time_s
        )
        self.recents = _recents(self.recents, collected.seen)
        self.left_alone = others.left_alone(collected, objectives, self.recents)
        self.shifts = {}
        interval = measuring.Interval(
            collected.time_s,
            self._elapsed_s,
            self._is_gap,
            collected.snapshot.device.miss_cost_us,
            self.config.calibration_half_life_s,
        )
        for cgroup, seen in collected.seen.items():
            state, recent = self.state.tenants[cgroup], self.recents[cgroup]
            changed = measuring.first_memory_of(state, recent, seen)
            if changed and cgroup in self.state.before_pins:
                self.state.before_pins[cgroup].limit_bytes = changed
            interval.take(seen, state, recent, objectives.of(cgroup))
            self.shifts[cgroup] = state.limits.shifts(seen.tenant.demand)
        before_pin.note(self.state.before_pins, collected, objectives, self.state.away)
        return decisions

    def restored(
        self, collected: Collected, objectives: Objectives
    ) -> tuple[Objectives, dict[str, Wish]]:
        """Return objectives and orders that give unpinned tenants their earlier setting."""
        foreign = {name for name, one in self.recents.items() if one.is_foreign}
        known = self.state.before_pins
        return before_pin.restored(known, collected, objectives, foreign | self.left_alone)

    def held(self, collected: Collected) -> frozenset[str]:
        """Tenants whose limit must not change now.

        Their page cache turns over, their limit is foreign or stuck, a policy that was sent is not
        in force yet, or the node is about to undo a change that this controller does not know.
        """
        states = self.state.tenants
        found = {name for name in collected.seen if is_settling(states[name].policy)}
        # Somebody else may have set this limit. It counts as theirs once later snapshots show it
        # again.
        found.update(name for name, one in self.recents.items() if one.is_foreign)
        # A policy that was sent may take time to attach, or be refused for ever. The plan changes
        # the limits of the other tenants meanwhile.
        for name, policy in self._swapped.items():
            if name in collected.seen and collected.seen[name].tenant.policy != policy:
                found.add(name)
        stuck = memory_rollout.held(self.state.memory, collected.time_s)
        return others.foreign(states, collected.seen) | found | (stuck & collected.seen.keys())

    def unproven(self, collected: Collected) -> frozenset[str]:
        """Tenants whose policy is new: it is not shown yet that it does as predicted."""
        states = self.state.tenants
        return frozenset(name for name in collected.seen if is_unproven(states[name].policy))

    def least_bytes(self, collected: Collected, unknown: Collection[str]) -> dict[str, int]:
        """Limits below which the goal `least_memory` plans nothing, bytes by cgroup.

        These are limits below which a tenant lacked memory a short time ago. For tenants whose SLO
        margin is `unknown`, it is the present limit.
        """
        seen = collected.seen
        return {
            **giving_back.least_bytes(self.state.memory, collected.time_s),
            **{name: seen[name].limit_bytes for name in unknown if name in seen},
        }

    def unsettled(self, collected: Collected, held: frozenset[str]) -> frozenset[str]:
        """Tenants that are `held` or whose page cache fills.

        What is measured of them is not yet of their setting.
        """
        return held | {name for name, one in collected.seen.items() if one.is_filling}

    def step(self, look: Look) -> Decided:
        """Decide on the snapshot that was observed, with the plan that was made for it."""
        collected, states, memories = look.collected, self.state.tenants, self.state.memory
        moving = asked.keeping_policy(memories, collected.time_s)
        cycle = Cycle(
            collected, look.plan, look.objectives, self._elapsed_s, look.refused, look.orders,
            moving | others.foreign(states, collected.seen), self._is_gap, look.may_begin,
            self.state.costs,
        )  # fmt: skip
        wishes, decisions = policies.decide(cycle, states, self.recents, self.config)
        swapped = {
            name: wish.policy
            for name, wish in wishes.items()
            if wish.policy not in (None, collected.seen[name].tenant.policy)
        }
        busy = self.held(collected) | swapped.keys() | self.left_alone
        self._swapped = swapped
        memory_cycle = MemoryCycle(
            collected=collected,
            plan=look.plan,
            objectives=look.plan_objectives,
            model=look.model,
            states=states,
            shifts=self.shifts,
            elapsed_s=self._elapsed_s,
            step_bytes=look.step_bytes,
            short=look.short,
            busy=busy,
            ordered={n for n, wish in look.orders.items() if wish.limit_bytes is not None},
            away=frozenset(self.state.away),
            may_begin=look.may_begin and not look.limits_fixed,
            is_gap=self._is_gap,
            restored=look.restored,
            yielded=self.left_alone,
            fallen=look.fallen,
            lacks=partial(self._lacks, collected),
            hits=lambda cgroup: self.recents[cgroup].turnover.hits,
        )
        seen = interval(memory_cycle, self.config)
        self._note_kept(memory_cycle)
        moved = memory.step(memories, seen, self.config)
        for one in moved:
            if one.event is Event.TRIAL:
                states[one.cgroup].begin_change(collected.snapshot.epoch)
        decisions += moved
        for cgroup, limit in asked.wanted(memories, seen).items():
            if self.recents[cgroup].is_foreign or cgroup in self.left_alone:
                continue
            earlier = wishes.get(cgroup, NO_WISH)
            wishes[cgroup] = replace(earlier, limit_bytes=earlier.limit_bytes or limit)
        for cgroup, wish in wishes.items():
            if wish.limit_bytes is not None:
                told = collected.seen[cgroup]
                first_memory.note_wish(self.recents[cgroup], told, wish.limit_bytes)
        self._keep_ledger(look.plan, collected)
        return Decided(wishes, decisions)

    def _lacks(self, collected: Collected, cgroup: str, did_ops: float) -> bool:
        trust, kept = collected.seen[cgroup].tenant.trust, self.recents[cgroup].kept
        return kept.is_lacking(did_ops, trust, self.config.least_gain)

    def _note_kept(self, cycle: MemoryCycle) -> None:
        for action in cycle.plan.actions:
            seen, kept = cycle.collected.seen[action.cgroup], self.recents[action.cgroup].kept
            kept.take(seen.tenant.trust, action.kept_ops, cycle.did_ops(seen))

    def _keep_ledger(self, plan: Plan, collected: Collected) -> None:
        """Add up the seconds that each tenant lost or gained against what it keeps.

        What it keeps is computed for the present load. Gains count as credit up to `loss_share` of
        `reserve_s`.
        """
        if self._is_gap or self._elapsed_s <= 0:
            return
        most_s = self.config.loss_share * self.config.reserve_s
        for action in plan.actions:
            state, ops = self.state.tenants[action.cgroup], action.present.throughput_ops
            state.managed_s += self._elapsed_s
            if action.kept_ops > 0 and ops > 0:
                # If the plan itself gives a tenant less than it keeps, because an SLO of another
                # needs the memory, that part was not lost by a change.
                given = min(1.0, action.throughput_ops / action.kept_ops)
                due = min(action.kept_now_ops, max(ops, given * action.kept_now_ops))
                lost = self._elapsed_s * (due - ops) / max(due, ops)
                state.owed_s = max(-most_s, state.owed_s + lost)

    def _advance(self, time_s: float) -> tuple[float, bool]:
        """Return the seconds since the last snapshot that count, and whether there is a gap.

        If the clock went back, all stored times go back with it. Over a gap, or if the clock was
        put forward, times since when something is observed move forward by what does not count,
        because nothing was observed in it. Times until which a policy is barred stay, so that no
        such wait gets longer.
        """
        counted_s, skipped_s = passed = self.state.clock.advance(time_s)
        state = self.state
        tenants = (*state.tenants.values(), *(one.state for one in state.away.values()))
        if skipped_s != 0:
            state.memory.move_back(-skipped_s)
        for one in tenants if skipped_s != 0 else ():
            if skipped_s < 0:
                one.move_back(-skipped_s)
            else:
                one.skip(skipped_s)
        for away in state.away.values() if passed.is_gap else ():
            away.since_s += skipped_s
        return counted_s, passed.is_gap


def _recents(known: Mapping[str, Recent], seen: Mapping[str, Seen]) -> dict[str, Recent]:
    """The memory of tenants that are present. A cgroup recreated under its name starts again."""
    found = {}
    for cgroup, one in seen.items():
        recent = known.get(cgroup)
        if recent is None or recent.cgroup_id != one.wire.cgroup_id:
            recent = Recent(one.wire.cgroup_id)
        found[cgroup] = recent
    return found
