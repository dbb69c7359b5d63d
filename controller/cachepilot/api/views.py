# SPDX-License-Identifier: Apache-2.0
"""Views of nodes and tenants, made from the last report of a node."""

from collections.abc import Iterable

import numpy as np

from cachepilot.api.shapes.detail import CurvesView, DemandView, PolicyView, TenantDetail
from cachepilot.api.shapes.objectives import ObjectiveShape
from cachepilot.api.shapes.views import (
    ConditionView,
    NodeView,
    RecommendationView,
    SloView,
    TenantView,
    TrialView,
    WorkloadView,
)
from cachepilot.api.stale import stale_node
from cachepilot.domain.objectives.objective import UNNAMED, Objective, Objectives
from cachepilot.domain.planned import Action
from cachepilot.domain.units import US_PER_S
from cachepilot.fleet.rivals import Rival
from cachepilot.node.freshness import NEVER_HEARD
from cachepilot.node.loop import NodeLoop
from cachepilot.node.protection import why_floor, why_kept
from cachepilot.node.shown.readings import shown_readings
from cachepilot.node.shown.report import Report
from cachepilot.plan.explanation import Explanation, explain
from cachepilot.plan.problem.asked import NOTHING_FIXED
from cachepilot.plan.problem.config import Config
from cachepilot.sense.collect import Seen
from cachepilot.sense.conditions import workloads_of
from cachepilot.v1 import session_pb2 as wire

NAME_TAKEN = "name_taken"


def node_view(loop: NodeLoop, rival: Rival | None = None) -> NodeView:
    """Return the view of a node, connected or not; `rival` is a second agent of its name."""
    hello, report = loop.hello, loop.report
    seen = [] if report is None else list(report.collected.seen.values())
    device = None if report is None else report.collected.snapshot.device
    why, free = loop.freshness.why, loop.free.told
    view = NodeView(
        name=loop.name,
        kind=hello.kind,
        kernel=hello.kernel,
        agent_version=hello.agent_version,
        capabilities=list(hello.capabilities),
        policies=list(hello.policies),
        connected=loop.connected,
        last_seen_s=loop.last_seen_s,
        epoch=loop.epoch if report is None else report.epoch,
        budget_bytes=(
            hello.budget_bytes if report is None else report.collected.snapshot.node.budget_bytes
        ),
        limits_bytes=sum(one.limit_bytes for one in seen),
        device_capacity_iops=0.0 if device is None else device.capacity_iops,
        device_iops=0.0 if report is None else report.collected.device_iops,
        tenants=len(seen),
        dropped_events_total=0 if report is None else report.collected.dropped_events_total,
        problem=NEVER_HEARD if report is None else report.problem,
        conditions=_node_conditions(report, rival),
        heard_s=loop.heard_s or None,
        free_bytes=free.free_bytes,
        sure_free_bytes=free.sure_bytes,
        free_for_s=free.for_s,
        free_confidence=free.confidence,
    )
    return stale_node(view, why) if why else view


def _node_conditions(report: Report | None, rival: Rival | None) -> list[ConditionView]:
    found = [] if report is None else _conditions(report.collected.conditions)
    if rival is not None:
        told = ConditionView(kind=NAME_TAKEN, message=rival.text, since_s=rival.since_s)
        found.append(told)
    return found


def _conditions(told: Iterable[wire.Condition]) -> list[ConditionView]:
    return [
        ConditionView.of_checked(
            kind=wire.Condition.Kind.Name(one.kind).lower(),
            message=one.message,
            since_s=one.since_us / US_PER_S,
        )
        for one in told
    ]


def _workload(told: wire.Tenant) -> WorkloadView | None:
    if not told.HasField("workload"):
        return None
    one = told.workload
    names = {"namespace": one.namespace, "pod": one.pod, "container": one.container}
    return WorkloadView.of_checked(**names, labels=dict(one.labels))


def tenant_view(node: str, report: Report, cgroup: str) -> TenantView:
    """Return a tenant's view; raise KeyError if the node has none of that path."""
    seen = report.collected.seen[cgroup]
    tenant, told = seen.tenant, seen.wire
    objective, last = report.objectives.of(cgroup), report.last.get(cgroup)
    fixed, window = objective.fixed or NOTHING_FIXED, seen.window
    trial, shown = report.trials.get(cgroup), shown_readings(seen)
    return TenantView.of_checked(
        node=node,
        cgroup=cgroup,
        policy=tenant.policy,
        limit_bytes=told.limit_bytes,
        target_limit_bytes=told.target_limit_bytes,
        floor_bytes=tenant.floor_bytes,
        current_bytes=told.current_bytes,
        hit_ratio=shown.hit_ratio,
        throughput_ops=shown.throughput_ops,
        indicator=str(seen.indicator),
        latency_p99_us=shown.latency_p99_us,
        device_iops=None if window is None else window.block_reads,
        mode=str(objective.mode),
        priority=objective.priority,
        weight=float(objective.weight),
        pinned_policy=fixed.policy,
        pinned_limit_bytes=fixed.limit_bytes,
        pinned_until_s=fixed.until_s,
        trusted=tenant.trust.trusted,
        distrust=tenant.trust.reason,
        interference=told.interference,
        slos=[
            SloView.of_checked(**vars(one), verdict=one.verdict)
            for one in report.slos.get(cgroup, [])
        ],
        trial=None if trial is None else TrialView.of_checked(**vars(trial)),
        last_decision="" if last is None else last.text,
        last_decision_s=None if last is None else last.time_s,
        decisions_total=report.decisions.get(cgroup, {}),
        least_limit_bytes=seen.least_limit_bytes,
        file_bytes=told.file_bytes,
        initial_limit_bytes=told.initial_limit_bytes,
        readahead_policy=told.readahead.policy if told.HasField("readahead") else None,
        conditions=_conditions(told.conditions),
        workload=_workload(told),
        stale=False,
        recommendation=_recommendation(report, seen),
    )


def _recommendation(report: Report, seen: Seen) -> RecommendationView | None:
    found = None if report.advice is None else report.advice.of(seen)
    return None if found is None else RecommendationView.of_checked(**vars(found))


def tenant_detail(
    node: str, report: Report, cgroup: str, config: Config, stated: Objectives
) -> TenantDetail:
    """Return all details of one tenant; raise KeyError if the node has none of that path.

    `stated` are the present objectives of operators; the cycle of the report may have had older
    ones.
    """
    seen = report.collected.seen[cgroup]
    action = _action(report, cgroup)
    stated = stated.among(workloads_of([seen.wire]))
    known = explain(report.collected.snapshot, report.objectives, config, cgroup)
    tenant = tenant_view(node, report, cgroup)
    predicted_ops = None if seen.window is None else known.throughput_ops
    return TenantDetail(
        tenant=tenant,
        curves=_curves(seen),
        demand=_demand(seen),
        predicted_miss_ratio=known.miss_ratio,
        predicted_ops=predicted_ops,
        best_policy=known.best_policy,
        why=_why(report, seen, action, report.objectives.of(cgroup)),
        needed_for_slo_bytes=known.needed_for_slo_bytes,
        needed_policy=known.needed_policy,
        policies=policies_of(known, tenant.policy),
        prediction_error=prediction_error(predicted_ops, tenant.throughput_ops),
        read_latency_total=list(seen.wire.counters.read_latency_total),
        stated=_stated(stated.of(cgroup)),
        inherited=_stated(stated.of_globs(cgroup)),
    )


def policies_of(known: Explanation, present: str) -> list[PolicyView]:
    """Return the policies in the order of the ranking, each with a note derived from that order."""
    found, is_first_allowed = [], True
    for at, one in enumerate(known.ranking):
        words = ["in use"] if one.policy == present else []
        if one.allowed and is_first_allowed:
            words.append("best" if at == 0 else "best allowed")
            is_first_allowed = False
        elif not one.allowed:
            words.append("not allowed")
        found.append(PolicyView(**vars(one), note=", ".join(words)))
    return found


def prediction_error(predicted_ops: float | None, measured_ops: float | None) -> float | None:
    """Return the relative excess of a prediction over the measurement, or None if unknown."""
    if predicted_ops is None or not measured_ops:
        return None
    return predicted_ops / measured_ops - 1


def _stated(objective: Objective) -> ObjectiveShape | None:
    return None if objective is UNNAMED else ObjectiveShape.of(objective)


def _why(report: Report, seen: Seen, action: Action | None, objective: Objective) -> str:
    if report.problem or action is None:
        return report.problem
    bounds = why_floor(seen, objective), why_kept(seen, objective, action)
    return "; ".join((action.why, *filter(None, bounds)))


def _action(report: Report, cgroup: str) -> Action | None:
    actions = () if report.plan is None else report.plan.actions
    return next((one for one in actions if one.cgroup == cgroup), None)


def _curves(seen: Seen) -> CurvesView | None:
    """Return the curves over limits: those planned with, or the measured ones without a plan."""
    if seen.measured is None:
        return None
    curves, planned = seen.measured.curves, seen.tenant.curves
    if planned is not None and planned.policies == curves.policies:
        curves = planned
    return CurvesView(
        policies=list(curves.policies),
        sizes_bytes=curves.sizes_bytes.tolist(),
        miss_ratio=curves.miss_ratio.tolist(),
        error_bar=np.zeros_like(curves.miss_ratio).tolist()
        if curves.error_bar is None
        else curves.error_bar.tolist(),
        sampled=seen.measured.sampled,
        rate=seen.measured.rate,
    )


def _demand(seen: Seen) -> DemandView | None:
    if seen.window is None:
        return None
    demand = seen.tenant.demand
    return DemandView(
        service_us=demand.service_us,
        accesses_per_op=demand.accesses_per_op,
        concurrency=demand.concurrency,
        error_pct=demand.error_pct,
    )
