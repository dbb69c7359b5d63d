# SPDX-License-Identifier: Apache-2.0
"""The report of one cycle. It is complete, and never changes once it is published."""

import threading
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field, replace

from cachepilot.domain.decisions import Decision, event_word
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.planned import Plan, SloState
from cachepilot.domain.recorded import RecordedDecision, RunningTrial
from cachepilot.domain.slos import SloStatus
from cachepilot.node.deciding.decider import NodeState
from cachepilot.node.shown.advice import Advice
from cachepilot.node.shown.readings import measured
from cachepilot.node.shown.slo_windows import SloWindows, is_met, slo_targets
from cachepilot.sense.collect import Collected
from cachepilot.sense.filling import FILLED_S


@dataclass(frozen=True)
class LastDecision:
    """The last decision about a tenant, in one line."""

    text: str
    time_s: float


@dataclass(frozen=True)
class Report:
    """One node after a cycle. `plan` is None if no plan could be made."""

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
    advice: Advice | None = None
    """None if no tenant gets recommendations."""


class Published:
    """The last report, for any thread. `last` is the last decision of each cgroup."""

    def __init__(self) -> None:
        self.last: dict[str, LastDecision] = {}
        self.latest: Report | None = None
        """The last report that was made."""
        self._make: Callable[[], Report] | None = None
        self._lock = threading.Lock()

    @property
    def report(self) -> Report | None:
        """The report of the last cycle; made now if nobody has read it yet."""
        with self._lock:
            make, self._make = self._make, None
            if make is not None:
                self.latest = make()
            return self.latest

    def later(self, make: Callable[[], Report]) -> None:
        """Note that a cycle ended. `make` makes its report on first access and must not raise."""
        self._make = make

    def fail(self, report: Report) -> None:
        """Publish the report of a failed cycle, which carries its problem."""
        self.latest = report

    def failed(self, epoch: int, problem: str) -> Report | None:
        """Return the last report without its plan, and with a problem; None before the first."""
        known = self.latest
        if known is None:
            return None
        return replace(
            known, plan=None, epoch=epoch, problem=problem, last=dict(self.last), advice=None
        )

    def note(
        self, decisions: Iterable[Decision | RecordedDecision], there: Set[str] | None = None
    ) -> None:
        """Note the decisions of a cycle, and forget those about tenants that are not `there`."""
        for one in decisions:
            self.last[one.cgroup] = LastDecision(f"{event_word(one.event)}: {one.why}", one.time_s)
        for cgroup in set() if there is None else self.last.keys() - there:
            del self.last[cgroup]


def trial_views(state: NodeState, collected: Collected) -> dict[str, RunningTrial]:
    """Return unconfirmed changes by cgroup: of policies, and of memory for the other tenants."""
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
    change = state.memory.change
    if change is None:
        return found
    for cgroup, member in change.members.items():
        if cgroup in collected.seen and cgroup not in found:
            found[cgroup] = RunningTrial(
                started_s=change.started_s,
                ends_s=max((change.settled_s or change.moved_s) + FILLED_S, collected.time_s),
                from_policy=member.policy,
                to_policy=member.policy,
                from_limit_bytes=member.from_bytes,
                to_limit_bytes=member.to_bytes,
                baseline_ops=member.baseline.ops or 0.0,
                predicted_ops=member.predicted.ops or 0.0,
            )
    return found


def slo_views(
    collected: Collected, plan: Plan, objectives: Objectives, windows: SloWindows
) -> dict[str, list[SloStatus]]:
    """Return every SLO by cgroup: its reading, what the plan predicts, and how often it was met."""
    outcomes = {(one.cgroup, one.kind): one for one in plan.slos}
    found: dict[str, list[SloStatus]] = {}
    for cgroup, seen in collected.seen.items():
        for kind, target in slo_targets(objectives.of(cgroup)):
            outcome = outcomes.get((cgroup, kind))
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
                    state=str(SloState.UNKNOWN if outcome is None else outcome.state),
                    met=None if value is None else is_met(kind, value, target),
                    attainment=windows.attainment(cgroup, kind),
                    why="not planned" if outcome is None else outcome.why,
                    windows_total=None if total is None else total.windows,
                    windows_met_total=None if total is None else total.met,
                )
            )
    return found
