# SPDX-License-Identifier: Apache-2.0
"""Promises that cannot be kept: what is told of them, and for how long.

A plan says what is attainable while trials hold limits and memory is on its way. What is told is
what the limits where that leads will give, corrected by how far predictions of the tenant are off.
Once a promise is named infeasible it stays so until data that can be trusted say otherwise.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.planned import Plan, SloOutcome, SloState
from cachepilot.plan.problem.limits import InfeasibleError
from cachepilot.plan.slo_outcomes import meets
from cachepilot.readable import number
from cachepilot.sense.collect import Collected

MUCH_PCT = 10.0
"""Throughput that another policy must promise to count: it is not in force yet."""
ASK_S = 5.0
"""Where memory leads takes plans of its own: they hold for so long."""

Ends = tuple[Plan, Plan]
"""Where all leads in the end under the present policies, and under any that may be tried."""


@dataclass
class _Named:
    """A promise as it was named, and the target that it had."""

    target: float
    outcome: SloOutcome


class Infeasible:
    """What was named on one node; not kept on restart."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, str], _Named] = {}
        self._end_ops: dict[str, float] = {}
        self._asked_s = float("-inf")

    def told(
        self,
        collected: Collected,
        objectives: Objectives,
        outcomes: tuple[SloOutcome, ...],
        ends: Callable[[], Ends],
        accuracy: Mapping[str, float],
    ) -> tuple[SloOutcome, ...]:
        """Outcomes for the operator, of what is `objectives`: the planner may aim higher.

        `accuracy` is measured over predicted throughput by cgroup.
        """
        lost = [one for one in outcomes if one.state is SloState.UNATTAINABLE]
        if lost and not 0 <= collected.time_s - self._asked_s < ASK_S:
            self._asked_s = collected.time_s
            try:
                self._end_ops = _end_ops(ends())
            except InfeasibleError:
                self._end_ops = {}
        known = {(one.cgroup, one.kind): one for one in outcomes}
        self._named = {key: one for key, one in self._named.items() if key in known}
        return tuple(self._of(one, collected, objectives, accuracy) for one in outcomes)

    def _of(
        self,
        outcome: SloOutcome,
        collected: Collected,
        objectives: Objectives,
        accuracy: Mapping[str, float],
    ) -> SloOutcome:
        key = outcome.cgroup, outcome.kind
        target = getattr(objectives.of(outcome.cgroup), outcome.kind)
        if outcome.state is SloState.UNATTAINABLE:
            told = self._in_the_end(outcome, target, accuracy.get(outcome.cgroup, 1.0))
            if told.attainable is None or not meets(told.kind, told.attainable, target):
                self._named[key] = _Named(target, told)
            return told
        named = self._named.get(key)
        if named is None:
            return outcome
        unknown = outcome.state in (SloState.HELD, SloState.UNMEASURED)
        trust = collected.seen[outcome.cgroup].tenant.trust
        if named.target == target and unknown and not trust.trusted:
            why = f"{named.outcome.why}; since then {trust.reason or 'curves are not trusted'}"
            return replace(named.outcome, value=outcome.value, why=why)
        del self._named[key]
        return outcome

    def _in_the_end(self, outcome: SloOutcome, target: float, accuracy: float) -> SloOutcome:
        """With what is attainable where all leads; of throughput, which alone is corrected."""
        ops = self._end_ops.get(outcome.cgroup)
        if ops is None or outcome.kind != "throughput_ops":
            return outcome
        ops *= accuracy
        why = (
            f"{number(target, 6)} ops/s asked; infeasible on this node: "
            f"attainable are {number(ops)} ops/s, "
            f"others at their least and as far as predictions were right so far"
        )
        return replace(outcome, attainable=ops, attainable_ops=ops, why=why)


def _end_ops(ends: Ends) -> dict[str, float]:
    """Throughput in the end; under another policy only where that promises much."""
    present, free = ({one.cgroup: one.throughput_ops for one in end.actions} for end in ends)
    much = 1 + MUCH_PCT / 100
    return {
        cgroup: free[cgroup] if free[cgroup] >= much * ops else ops
        for cgroup, ops in present.items()
    }
