# SPDX-License-Identifier: Apache-2.0
"""What one cycle left to be looked at: whole, and never changed once it is published."""

from dataclasses import dataclass, field, replace

from cachepilot.control.guard import GuardState
from cachepilot.control.guard_config import GuardConfig
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.planned import Plan, SloOutcome, SloState
from cachepilot.domain.recorded import RunningTrial
from cachepilot.domain.slos import SloStatus
from cachepilot.node.slo_windows import SloWindows, is_met, measured, promises
from cachepilot.plan.slo_outcomes import meets
from cachepilot.readable import number
from cachepilot.sense.collect import Collected


@dataclass(frozen=True)
class LastDecision:
    """The last decision about a tenant, in one line."""

    text: str
    time_s: float


@dataclass(frozen=True)
class Report:
    """One node after a cycle; `plan` is None where none could be made."""

    collected: Collected
    plan: Plan | None
    objectives: Objectives
    epoch: int
    problem: str
    slos: dict[str, list[SloStatus]] = field(default_factory=dict)
    trials: dict[str, RunningTrial] = field(default_factory=dict)
    last: dict[str, LastDecision] = field(default_factory=dict)
    decisions: dict[str, dict[str, int]] = field(default_factory=dict)
    """Totals by cgroup and event."""


def trial_views(
    state: GuardState, collected: Collected, config: GuardConfig, interval_s: float
) -> dict[str, RunningTrial]:
    """Trials that run, by cgroup: of policies, and of memory."""
    found = {}
    for cgroup, one in state.tenants.items():
        trial = one.policy.trial
        if trial is not None:
            found[cgroup] = RunningTrial(
                started_s=trial.started_s,
                ends_s=max(trial.ends_s, collected.time_s),
                from_policy=trial.from_policy,
                to_policy=trial.to_policy,
                from_limit_bytes=trial.limit_bytes,
                to_limit_bytes=trial.limit_bytes,
                baseline_ops=trial.baseline[0],
                predicted_ops=trial.predicted[0],
            )
    memory = state.memory.trial
    if memory is None:
        return found
    judged_s = config.adapt_max_s + config.judge_intervals * interval_s
    ends_s = (memory.settled_s or memory.started_s + config.extend_max_s) + judged_s
    for cgroup, member in memory.members.items():
        if cgroup in collected.seen and cgroup not in found:
            found[cgroup] = RunningTrial(
                started_s=memory.started_s,
                ends_s=ends_s,
                from_policy=member.policy,
                to_policy=member.policy,
                from_limit_bytes=member.from_bytes,
                to_limit_bytes=member.to_bytes,
                baseline_ops=member.baseline.ops,
                predicted_ops=member.predicted.ops or 0.0,
            )
    return found


def _as_promised(outcome: SloOutcome, target: float) -> SloOutcome:
    """An outcome of what the planner aimed at, above the promise, as one of the promise itself."""
    value, most = outcome.value, outcome.attainable
    if outcome.state is not SloState.UNATTAINABLE or value is None or most is None:
        return outcome
    if not meets(outcome.kind, most, target):
        return outcome
    state = SloState.KEPT if meets(outcome.kind, value, target) else SloState.APPROACHING
    asked = f"{number(target, 6)} asked, {number(most, 6)} attainable"
    why = f"{asked}: too near to keep it in every window"
    return replace(outcome, state=state, why=why)


def slo_views(
    collected: Collected, plan: Plan, objectives: Objectives, windows: SloWindows
) -> dict[str, list[SloStatus]]:
    """Every promise: what is measured, what the plan makes of it, how often it was kept."""
    outcomes = {(one.cgroup, one.kind): one for one in plan.slos}
    found: dict[str, list[SloStatus]] = {}
    for cgroup, seen in collected.seen.items():
        for kind, target in promises(objectives.of(cgroup)):
            outcome = outcomes.get((cgroup, kind))
            outcome = None if outcome is None else _as_promised(outcome, target)
            value = measured(kind, seen)
            total = windows.total(cgroup, kind)
            found.setdefault(cgroup, []).append(
                SloStatus(
                    kind=kind,
                    target=target,
                    measured=value,
                    predicted=None if outcome is None else outcome.value,
                    attainable=None if outcome is None else outcome.attainable,
                    attainable_ops=None if outcome is None else outcome.attainable_ops,
                    state="unmeasured" if outcome is None else str(outcome.state),
                    met=None if value is None else is_met(kind, value, target),
                    attainment=windows.attainment(cgroup, kind),
                    why="not planned" if outcome is None else outcome.why,
                    windows_total=None if total is None else total.windows,
                    windows_met_total=None if total is None else total.met,
                )
            )
    return found
