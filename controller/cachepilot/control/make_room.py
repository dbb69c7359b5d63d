# SPDX-License-Identifier: Apache-2.0
"""Trials of policies that give way to memory: for a promise that is missed, or for far more.

A tenant keeps its limit while a policy is tried on it. What a trial that promises little brings
must not hold up memory that promises much, nor choose who gives it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from cachepilot.control.collect import Collected
from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.memory_gain import Ahead, falls_short, grows, needs_memory, promised_pct
from cachepilot.control.memory_trial import MemoryTrial
from cachepilot.control.policy_guard import Proposal, TenantState
from cachepilot.control.policy_trial import PolicyTrial
from cachepilot.control.standing import Standing
from cachepilot.planner.decision import Action, Plan
from cachepilot.planner.objectives import Goal, Objectives

MUCH_PCT = 10.0
"""Throughput that a policy must promise, far beyond error bars, to come before memory."""
TIMES = 3.0
"""As much as trials do memory must promise to end them."""
LIMIT_SHARE = 0.05
"""Of a limit: who is to get so much more or less is in the way while its limit is held."""
ASK_S = 3.0


@dataclass
class Room:
    """When it is looked at again, how often in a row that spoke for memory, and since when.

    `served` is when trials were last ended for the promise of a tenant.
    """

    ask_again_s: float = 0.0
    agreed: int = 0
    kept_until_s: float = 0.0
    served: dict[str, float] = field(default_factory=dict)

    def move_back(self, seconds: float) -> None:
        """With a clock that went back so far."""
        self.ask_again_s -= seconds
        self.kept_until_s -= seconds
        self.served = {name: time_s - seconds for name, time_s in self.served.items()}

    def lately_served(self, time_s: float, config: GuardConfig) -> Collection[str]:
        """For whom no trial ends again before the cool-down is over: the last did not help."""
        since_s = time_s - config.cool_down_s
        self.served = {name: one_s for name, one_s in self.served.items() if one_s > since_s}
        return self.served.keys()


@dataclass(frozen=True)
class Asked:
    """One cycle. `held` is where memory alone goes now, `lifted` where it would without trials.

    `may_move` is whether memory that promises enough may move, `is_next` whether it is about to;
    `trial` is what moves already.
    """

    collected: Collected
    objectives: Objectives
    standing: Standing
    held: Ahead
    lifted: Ahead
    may_move: bool
    is_next: bool = False
    trial: MemoryTrial | None = None


def promises_much(wanted: Proposal) -> bool:
    """Whether a policy is worth that memory waits for its verdict."""
    return wanted.is_far and wanted.gain_pct() >= MUCH_PCT


def _gain_ops(trial: PolicyTrial) -> float:
    return max(0.0, (trial.predicted.ops or 0.0) - trial.baseline.ops)


def _is_little(trial: PolicyTrial) -> bool:
    much = _gain_ops(trial) >= MUCH_PCT / 100 * trial.baseline.ops
    return not (trial.is_far and much)


def _changes(action: Action) -> bool:
    here = action.present.limit_bytes
    return abs(action.limit_bytes - here) >= LIMIT_SHARE * here


def _in_the_way(plan: Plan, states: Mapping[str, TenantState]) -> dict[str, PolicyTrial]:
    """Trials that promise little, of tenants whose limit a plan changes."""
    found = {}
    for action in plan.actions:
        trial = states[action.cgroup].trial
        if trial is not None and _is_little(trial) and _changes(action):
            found[action.cgroup] = trial
    return found


def _for_promise(plan: Plan, asked: Asked, but: Collection[str] = ()) -> str | None:
    """Who misses its SLO and gets memory by a plan; None when nobody does, or only those `but`.

    While memory rests or is on trial only what must move does, and only where it can.
    """
    needy = (grows(plan) & asked.standing.short).difference(but)
    if not asked.may_move:
        needy &= needs_memory(plan) | falls_short(asked.collected, plan)
        needy = frozenset(one for one in needy if asked.trial is None or asked.trial.may_take(one))
    return min(needy, default=None)


def _for_more(plan: Plan, trials: Mapping[str, PolicyTrial], asked: Asked, least: float) -> bool:
    """Whether memory promises far more than trials, and more than it does beside them."""
    collected, objectives = asked.collected, asked.objectives
    gain_pct, error_pct = promised_pct(collected, plan, objectives)
    if gain_pct < least + error_pct:
        return False
    before = sum(objectives.of(one.cgroup).weight * one.present.throughput_ops
                 for one in plan.actions)  # fmt: skip
    tried = sum(objectives.of(name).weight * _gain_ops(one) for name, one in trials.items())
    if gain_pct / 100 * before < TIMES * tried:
        return False
    beside_pct, _ = promised_pct(collected, asked.held(), objectives)
    return gain_pct >= beside_pct + least


def to_end(
    room: Room, asked: Asked, states: Mapping[str, TenantState], config: GuardConfig
) -> dict[str, str]:
    """Tenants whose trial is to end now, and why. Takes plans of its own, so not every cycle."""
    time_s = asked.collected.time_s
    running = any(one.trial is not None for one in states.values())
    wanted = asked.standing.short or (asked.may_move and asked.objectives.goal is Goal.THROUGHPUT)
    if not running or not wanted:
        room.agreed = 0
        return {}
    if time_s < room.ask_again_s and not asked.is_next:
        return {}
    plan = asked.lifted()
    trials = _in_the_way(plan, states)
    needy = _for_promise(plan, asked, room.lately_served(time_s, config))
    for_more = asked.may_move and _for_more(plan, trials, asked, config.memory_gain_pct)
    if not trials or (needy is None and not for_more):
        room.agreed, room.ask_again_s = 0, time_s + ASK_S
        return {}
    room.agreed += 1
    # Memory that is about to move has been confirmed: it would come from whoever is free.
    if room.agreed < config.confirm_intervals and not (asked.is_next and for_more):
        return {}
    # A policy that the node has yet to attach cannot be taken back at once.
    ready = [cgroup for cgroup, one in trials.items() if one.effective_s is not None]
    if not ready:
        return {}
    room.agreed, room.kept_until_s = 0, time_s + config.dwell_s
    if needy is not None:
        room.served[needy] = time_s
    why = "memory promises far more" if needy is None else f"memory for the SLO of {needy}"
    return dict.fromkeys(ready, f"{why}: the trial is in its way")
