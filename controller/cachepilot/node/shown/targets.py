# SPDX-License-Identifier: Apache-2.0
"""SLO targets as they are passed to the planner, and the plan's SLO outcomes as they are reported.

The model's error at the setting in force is assumed to be the same at every setting.
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
"""An interval that misses a target by less is no reason to give all first memory back."""


class Targets:
    """The targets of the tenants of one node. What is learnt of them is lost on a restart."""

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
        """Take in an interval of every tenant; `wait_us` is how long a device read waits by plan.

        `shifts` are the errors of curves. The page caches of `unsettled` tenants still turn over.
        """
        known, self._errors = self._errors, {}
        fallen = set()
        for cgroup, seen in collected.seen.items():
            targets = slo_targets(objectives.of(cgroup))
            if not targets:
                continue
            # The model learns nothing from curves that cannot be trusted: a change of regime is no
            # error of it.
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
        """Tenants that miss a target more often than chance explains."""
        return frozenset(cgroup for (cgroup, _), one in self._errors.items() if one.is_short)

    def fallen(self) -> frozenset[str]:
        """Tenants that missed a target in the last interval by more than intervals scatter."""
        return self._fallen

    def unknown(self) -> frozenset[str]:
        """Tenants with an SLO whose intervals' scatter is not known yet."""
        return frozenset(cgroup for (cgroup, _), one in self._errors.items() if not one.is_known)

    def corrected(self, objectives: Objectives) -> Objectives:
        """Return objectives for the planner, with corrected targets and margins above them.

        A prediction that meets a corrected target meets the stated one by measurement. A tenant
        with several targets gets the greatest margin. With the goal `least_memory` the margin keeps
        at least half of the present distance above the target, so that memory is taken in steps.
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
        """Convert the plan's outcomes for corrected targets to outcomes for the stated targets.

        An SLO that was called infeasible remains so while the curves have low confidence.
        """
        found, known, self._named = [], self._named, {}
        for outcome in outcomes:
            key = outcome.cgroup, outcome.kind
            told, named = self._told(outcome, objectives), known.get(key)
            trust = collected.seen[outcome.cgroup].tenant.trust
            unknown = told.state in (SloState.HELD, SloState.UNKNOWN) and not trust.trusted
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
        if outcome.kind != "throughput_ops" or error is None:
            return outcome
        told = replace(outcome, target=target)
        if value is None or most is None:
            return told
        value, most = value * error.ratio, most * error.ratio
        told = replace(told, value=value, attainable=most, attainable_ops=most)
        _, _, more = outcome.why.partition("; ")
        if outcome.state is SloState.MET:
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
    """Whether a reading misses its target by at least the margin that plans aim for above it.

    An interval misses the aimed mean by twice the margin in fewer than one case in 100,000. The
    margin of a tenant whose intervals never scattered is 0: `MARGIN_MIN` applies instead.
    """
    if not error.is_known:
        return False
    sign = 1 if kind == "latency_p99_us" else -1
    return not is_met(kind, value, target * (1 + sign * max(error.margin, MARGIN_MIN)))
