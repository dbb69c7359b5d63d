# SPDX-License-Identifier: Apache-2.0
"""Targets as the planner is given them, and what is told of them.

What the model is off by at the setting in force is taken to be off everywhere.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from cachepilot.domain.objectives.objective import UPPER, Goal, Objective, Objectives
from cachepilot.domain.planned import SloOutcome, SloState
from cachepilot.model.limit_calibration import Shifts
from cachepilot.model.throughput import ModelKind, tenant_throughput
from cachepilot.model.throughput_error import TargetError
from cachepilot.node.deciding.calibrated import miss_at
from cachepilot.node.shown.readings import measured
from cachepilot.node.shown.slo_windows import is_met, slo_targets
from cachepilot.plan.slo_outcomes import meets
from cachepilot.readable import number, numbers
from cachepilot.sense.collect import Collected

MARGIN_MIN = 0.01
"""By less than that no interval falls short so far that a tenant gets all that it had."""


class Targets:
    """Targets of the tenants of one node; what is known of them is lost on a restart."""

    def __init__(self, model: ModelKind) -> None:
        """`model` is that by which the planner predicts."""
        self._model = model
        self._errors: dict[tuple[str, str], TargetError] = {}
        self._named: dict[tuple[str, str], SloOutcome] = {}
        self._fallen: frozenset[str] = frozenset()

    def take(
        self,
        collected: Collected,
        objectives: Objectives,
        shifts: Mapping[str, Shifts],
        unsettled: Collection[str],
        wait_us: float,
    ) -> None:
        """An interval of every tenant; `wait_us` is what a device read waits by the last plan.

        Curves are off by `shifts`. Page caches of those that are `unsettled` still turn over.
        """
        known, self._errors = self._errors, {}
        fallen = set()
        for cgroup, seen in collected.seen.items():
            targets = slo_targets(objectives.of(cgroup))
            if not targets:
                continue
            # What cannot be trusted teaches nothing: a change of regime is no error of the model.
            miss = miss_at(seen, seen.limit_bytes, shifts[cgroup])
            is_known = miss is not None and seen.tenant.trust.trusted
            for kind, target in targets:
                error = self._errors[cgroup, kind] = known.get((cgroup, kind)) or TargetError()
                value = measured(kind, seen)
                if value is not None and _falls_short(kind, value, target, error):
                    fallen.add(cgroup)
                if value is None or not is_known:
                    continue
                told = 0.0
                if kind == "throughput_ops" and miss is not None:
                    device = collected.snapshot.device
                    model = tenant_throughput(seen.tenant, device, self._model)
                    told = model.ops(wait_us, miss)
                met = None if cgroup in unsettled else is_met(kind, value, target)
                error.take((seen.tenant.policy, seen.wire.limit_bytes), value, told, met)
        self._fallen = frozenset(fallen)

    def short(self) -> frozenset[str]:
        """Tenants that miss a target by more than chance."""
        return frozenset(cgroup for (cgroup, _), one in self._errors.items() if one.is_short)

    def fallen(self) -> frozenset[str]:
        """Tenants that missed a target in the last interval by more than intervals scatter."""
        return self._fallen

    def unknown(self) -> frozenset[str]:
        """Tenants of which it is not known yet by how much their intervals scatter."""
        return frozenset(cgroup for (cgroup, _), one in self._errors.items() if not one.is_known)

    def corrected(self, objectives: Objectives) -> Objectives:
        """Objectives for the planner: predictions that meet the targets, and the margins above.

        The margin of a tenant with several targets is the greatest. To least memory a tenant goes
        half of the way at once.
        """
        found: dict[str, Objective] = {}
        for (cgroup, kind), error in self._errors.items():
            objective = found.get(cgroup) or objectives.of(cgroup)
            margin = max(objective.slo_margin, error.margin)
            if kind == "throughput_ops" and objective.throughput_ops:
                if objectives.goal is Goal.LEAST_MEMORY:
                    margin = max(margin, error.half_way(objective.throughput_ops))
                target = min(objective.throughput_ops / error.ratio, UPPER["throughput_ops"])
                found[cgroup] = replace(
                    objective, pattern=cgroup, throughput_ops=target, slo_margin=margin
                )
            elif kind == "hit_ratio" and objective.hit_ratio:
                found[cgroup] = replace(objective, pattern=cgroup, slo_margin=margin)
        if not found:
            return objectives
        return replace(objectives, pinned=(*found.values(), *objectives.pinned))

    def told(
        self, outcomes: Iterable[SloOutcome], objectives: Objectives, collected: Collected
    ) -> tuple[SloOutcome, ...]:
        """Outcomes of what is asked, of those of what the planner was given.

        What was named infeasible stays so while confidence in the curves is low.
        """
        found, known, self._named = [], self._named, {}
        for outcome in outcomes:
            key = outcome.cgroup, outcome.kind
            told, named = self._told(outcome, objectives), known.get(key)
            trust = collected.seen[outcome.cgroup].tenant.trust
            unknown = told.state in (SloState.HELD, SloState.UNMEASURED) and not trust.trusted
            if unknown and named is not None and named.target == told.target:
                self._named[key] = named
                why = f"{named.why}; since then {trust.reason or 'the curves have low confidence'}"
                told = replace(named, value=told.value, why=why)
            elif told.state is SloState.UNATTAINABLE:
                self._named[key] = told
            found.append(told)
        return tuple(found)

    def _told(self, outcome: SloOutcome, objectives: Objectives) -> SloOutcome:
        target = getattr(objectives.of(outcome.cgroup), outcome.kind)
        value, most = outcome.value, outcome.attainable
        error = self._errors.get((outcome.cgroup, outcome.kind))
        if outcome.kind != "throughput_ops" or error is None or value is None or most is None:
            return outcome
        value, most = value * error.ratio, most * error.ratio
        told = replace(outcome, target=target, value=value, attainable=most, attainable_ops=most)
        _, _, more = outcome.why.partition("; ")
        if outcome.state is SloState.KEPT:
            in_nearly_all = meets(outcome.kind, value, target * (1 + error.margin))
            more = "" if in_nearly_all else "intervals scatter, some may miss it"
        elif outcome.state is SloState.OUTBID:
            more = f"other SLOs come first; alone it could reach {number(most)} ops/s"
        elif outcome.state is SloState.UNATTAINABLE:
            more = f"infeasible on this node, which reaches {number(most)} ops/s at most"
            more += ", others at their least"
        wanted, predicted = numbers((target, value), 6)
        asked = f"target {wanted} ops/s, {predicted} predicted"
        return replace(told, why=f"{asked}; {more}" if more else asked)


def _falls_short(kind: str, value: float, target: float, error: TargetError) -> bool:
    """Whether a reading is as far beyond its target as a plan aims on this side of it.

    By twice the margin an interval misses what is aimed at in fewer than one case in 100,000. A
    tenant that always hit scattered by nothing: `MARGIN_MIN` then.
    """
    if not error.is_known:
        return False
    sign = 1 if kind == "latency_p99_us" else -1
    return not is_met(kind, value, target * (1 + sign * max(error.margin, MARGIN_MIN)))
