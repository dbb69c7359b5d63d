# SPDX-License-Identifier: Apache-2.0
"""Trials of policies that begin: what the plan proposes, those that promise most first."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from cachepilot.control import policy_guard
from cachepilot.control.collect import Collected
from cachepilot.control.decisions import Decision, Event, Reading, Setting
from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.make_room import promises_much
from cachepilot.control.memory_gain import grows, needs_memory, promised
from cachepilot.control.memory_guard import MemoryState
from cachepilot.control.memory_trial import Phase
from cachepilot.control.policy_guard import Look, Proposal, Recent, TenantState
from cachepilot.control.standing import Standing
from cachepilot.planner.decision import Action, Held, Plan, SloState
from cachepilot.planner.decision import Setting as Present
from cachepilot.planner.objectives import Objectives


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
class Cycle:
    """One cycle of a node, as its tenants are looked at."""

    collected: Collected
    plan: Plan
    objectives: Objectives
    elapsed_s: float
    refused: Mapping[str, str]

    def look(self, cgroup: str) -> Look:
        """One tenant."""
        return Look(
            seen=self.collected.seen[cgroup],
            elapsed_s=self.elapsed_s,
            time_s=self.collected.time_s,
            device=self.collected.snapshot.device,
            wait_us=self.plan.device_wait_us,
            named=self.objectives.of(cgroup).policies,
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


@dataclass(frozen=True)
class Before:
    """What comes before a policy that promises little, and who is on memory trial.

    `is_memory_due` is whether memory promises much, or a promise that is missed waits for it. Of
    those that are `lost` memory alone cannot keep the promise, of those that are `kept` the plan's
    policy does; those that are `growing` get more memory, those that are `returning` get back what
    they had, at which alone a policy can be judged.
    """

    standing: Standing
    is_memory_due: bool
    moving: frozenset[str]
    lost: frozenset[str] = frozenset()
    growing: frozenset[str] = frozenset()
    kept: frozenset[str] = frozenset()
    returning: frozenset[str] = frozenset()

    def comes_first(self, action: Action, wanted: Proposal) -> bool:
        """Whether a trial may not begin now."""
        if promises_much(wanted):
            return False
        if action.cgroup in self.moving:
            return not wanted.is_far
        helped = self.lost | self.kept
        if action.cgroup in helped & self.standing.short:
            return action.cgroup in self.growing
        return self.is_memory_due or action.cgroup in self.standing.near


def unknown(plan: Plan) -> frozenset[str]:
    """Who might get memory for its SLO if more was known of it."""
    return promised(plan, SloState.HELD, SloState.UNMEASURED)


def waits_for_memory(plan: Plan, standing: Standing, awaited: Collection[str]) -> bool:
    """Whether anybody who misses its SLO is to get memory.

    Or might, of those that are `unknown` and `awaited`.
    """
    due = needs_memory(plan) | grows(plan) | unknown(plan).intersection(awaited)
    return not due.isdisjoint(standing.short)


def lost(plan: Plan) -> frozenset[str]:
    """Who gets no memory that would keep its SLO."""
    return promised(plan, SloState.OUTBID, SloState.UNATTAINABLE)


def kept(plan: Plan) -> frozenset[str]:
    """Whose SLO is kept by the plan, all of them."""
    others = (state for state in SloState if state is not SloState.KEPT)
    return promised(plan, *SloState) - promised(plan, *others)


def moving(memory: MemoryState) -> frozenset[str]:
    """Whose limit is on trial, or will be once memory moves as far as it is to."""
    trial = memory.trial
    if trial is None:
        return frozenset()
    later = trial.ways if trial.phase is Phase.MOVING and trial.ways is not None else ()
    return frozenset((*trial.members, *later))


def propose(
    cycle: Cycle,
    wishes: dict[str, Wish],
    states: Mapping[str, TenantState],
    recents: Mapping[str, Recent],
    before: Before,
    config: GuardConfig,
) -> list[Decision]:
    """Begins trials; puts a policy that the objectives do not allow right among `wishes`."""
    candidates = []
    decisions = []
    running = sum(state.trial is not None for state in states.values())
    room = max(0, config.trials_at_once - running)
    for action in cycle.plan.actions:
        cgroup = action.cgroup
        state, recent = states[cgroup], recents[cgroup]
        busy = state.trial is not None or state.restore is not None
        held = busy or action.held is not Held.NOT
        same = action.policy == action.present.policy
        named = cycle.objectives.of(cgroup).policies
        banned = bool(named) and action.present.policy not in named
        if not banned:
            recent.ordered = ""
        if same or held or wishes.get(cgroup, NO_WISH).changes(action.present):
            recent.proposed = ""
            continue
        if (room == 0 or cgroup in before.returning) and not banned:
            continue
        look = cycle.look(cgroup)
        if banned:
            told = _ordered(action, look, recent)
            decisions += told
            # Asked again and again until the node does it, it is one change.
            if told:
                policy_guard.count_swap(state, look.time_s)
            earlier = wishes.get(cgroup, NO_WISH)
            wishes[cgroup] = replace(earlier, policy=action.policy, ordered=True)
            continue
        wanted = policy_guard.proposal(look, action.policy, config)
        if wanted is None or before.comes_first(action, wanted):
            recent.proposed = ""
        elif policy_guard.may_begin(state, recent, look, wanted, config):
            worth = cycle.objectives.of(cgroup).weight
            gain = (wanted.after.ops or 0.0) - (wanted.before.ops or 0.0)
            candidates.append((worth * gain, cgroup, look, wanted))
    candidates.sort(key=lambda one: (-one[0], one[1]))
    # Of many candidates few find room, and to judge noise takes longer than all before it.
    plain = (one for one in candidates if policy_guard.can_be_told(recents[one[1]], one[3], config))
    for _, cgroup, look, wanted in islice(plain, room):
        begun = policy_guard.begin(states[cgroup], recents[cgroup], look, wanted, config)
        decisions += [] if begun is None else [begun]
    return decisions
