# SPDX-License-Identifier: Apache-2.0
"""A fake controller in memory: two nodes and four tenants of literal values. Nothing is measured.

It keeps what is written to it: objectives and pins are real. A what-if answers by changing limits
and policies as asked.
"""

from dataclasses import dataclass, field, replace

import fake_plans
from fake_moving import FakeMoving
from fake_orders import RECOMMENDATION, FakeOrders, require_accepted
from fake_past import FakePast

from cachepilot.api.service import UnknownError
from cachepilot.api.shapes.detail import CurvesView, DemandView, PolicyView, TenantDetail
from cachepilot.api.shapes.questions import (
    Consolidation,
    Pin,
    Spread,
    WhatIf,
    WhatIfAnswer,
    WhatIfTenant,
)
from cachepilot.api.shapes.views import DecisionView, NodeView, SloView, TenantView, TrialView
from cachepilot.api.views import policies_of, prediction_error
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.planned import Held
from cachepilot.domain.slos import VERDICTS
from cachepilot.errors import InputError
from cachepilot.node.shown.changes import Changes
from cachepilot.plan.explanation import Explanation, RankedPolicy
from cachepilot.sense.curves.wire_curves import value_at

MIB = 1 << 20
NOW_S = 1_790_000_000.0


def node(name: str, connected: bool = True, problem: str = "") -> NodeView:
    return NodeView(
        name=name,
        kind="cache_ext",
        kernel="6.12.57-cachepilot",
        agent_version="0.1.0",
        capabilities=["policies", "limits", "curves"],
        policies=["lfu", "mru", "s3fifo"],
        connected=connected,
        last_seen_s=NOW_S,
        epoch=412,
        budget_bytes=1024 * MIB,
        limits_bytes=960 * MIB,
        device_capacity_iops=8000.0,
        device_iops=5200.0,
        tenants=3 if connected else 1,
        dropped_events_total=0 if connected else 7,
        problem=problem,
    )


def slo(kind: str, target: float, measured: float, state: str = "met") -> SloView:
    met = measured <= target if kind == "latency_p99_us" else measured >= target
    return SloView(
        kind=kind,
        target=target,
        measured=measured,
        predicted=measured,
        attainable=measured * 1.2,
        attainable_ops=6300.0,
        state=state,
        met=met,
        verdict=VERDICTS[met],
        attainment=0.994 if met else 0.61,
        why=f"target {target:g}, {measured:g} predicted",
        windows_total=3600,
        windows_met_total=3578 if met else 2196,
    )


TRIAL = TrialView(
    started_s=NOW_S - 4,
    ends_s=NOW_S + 6,
    from_policy="default",
    to_policy="mru",
    from_limit_bytes=256 * MIB,
    to_limit_bytes=192 * MIB,
    baseline_ops=910.0,
    predicted_ops=1650.0,
)


def tenant(cgroup: str, policy: str, limit_mib: int, on: str = "alpha") -> TenantView:
    return TenantView(
        node=on,
        cgroup=cgroup,
        policy=policy,
        limit_bytes=limit_mib * MIB,
        target_limit_bytes=limit_mib * MIB,
        floor_bytes=32 * MIB,
        least_limit_bytes=MIB,
        current_bytes=(limit_mib - 5) * MIB,
        hit_ratio=0.8731,
        throughput_ops=5240.0,
        indicator="accesses",
        latency_p99_us=840.0,
        device_iops=665.0,
        mode="auto",
        priority=0,
        weight=1.0,
        pinned_policy=None,
        pinned_limit_bytes=None,
        trusted=True,
        distrust="",
        interference="",
        slos=[],
        trial=None,
        last_decision="",
        last_decision_s=None,
    )


def tenants() -> list[TenantView]:
    database = tenant("/db", "lfu", 512).model_copy(
        update={
            "priority": 10,
            "slos": [slo("throughput_ops", 5000, 5240), slo("latency_p99_us", 900, 840)],
            "last_decision": "confirmed: lfu, 512 MiB: 5,240 ops/s against 3,900",
            "last_decision_s": NOW_S - 75,
            "readahead_policy": "leap",
            "decisions_total": {"trial": 3, "kept": 2, "reverted": 1},
        }
    )
    search = tenant("/search", "mru", 192).model_copy(
        update={
            "trial": TRIAL,
            "hit_ratio": 0.412,
            "throughput_ops": 1610.0,
            "slos": [slo("hit_ratio", 0.5, 0.412, "outbid")],
            "last_decision": "trial mru, 192 MiB",
            "last_decision_s": NOW_S - 4,
        }
    )
    batch = tenant("/system.slice/batch.service", "default", 256).model_copy(
        update={
            "trusted": False,
            "distrust": "predicted 0.31, measured 0.12, error bar 0.05",
            "mode": "recommend",
            "latency_p99_us": None,
            "target_limit_bytes": 224 * MIB,
            "recommendation": RECOMMENDATION,
        }
    )
    web = tenant("/web", "s3fifo", 128, on="beta").model_copy(
        update={"hit_ratio": None, "throughput_ops": None, "pinned_policy": "s3fifo"}
    )
    return [database, search, batch, web]


CURVES = CurvesView(
    policies=["default", "lfu", "mru", "s3fifo"],
    sizes_bytes=[size * MIB for size in (64, 128, 256, 384, 512, 768, 1024)],
    miss_ratio=[
        [0.81, 0.66, 0.48, 0.36, 0.27, 0.17, 0.12],
        [0.62, 0.44, 0.27, 0.18, 0.127, 0.09, 0.07],
        [0.93, 0.88, 0.78, 0.69, 0.6, 0.41, 0.2],
        [0.68, 0.5, 0.31, 0.22, 0.16, 0.11, 0.08],
    ],
    error_bar=[[0.02] * 7, [0.015] * 7, [0.03] * 7, [0.015] * 7],
    sampled=18_400,
    rate=0.01,
)


def ranking(found: TenantView) -> list[PolicyView]:
    """Return all policies at the limit of a tenant, best first."""
    size = found.limit_bytes
    ranked = [
        RankedPolicy(policy, value_at(CURVES.sizes_bytes, ratios, 1.0, size), bars[0], True)
        for policy, ratios, bars in zip(
            CURVES.policies, CURVES.miss_ratio, CURVES.error_bar, strict=True
        )
    ]
    ranked.sort(key=lambda one: one.miss_ratio)
    known = Explanation(found.cgroup, None, None, None, None, None, None, Held.NOT, tuple(ranked))
    return policies_of(known, found.policy)


def decision(number: int, event: str, cgroup: str = "/db") -> DecisionView:
    measured = None if event in ("trial", "recommended") else 5240.0
    return DecisionView(
        id=number,
        time_s=NOW_S - 100 * number,
        node="alpha",
        cgroup=cgroup,
        epoch=400 - number,
        event=event,
        from_policy="default",
        to_policy="lfu",
        from_limit_bytes=256 * MIB,
        to_limit_bytes=512 * MIB,
        baseline_ops=3900.0,
        predicted_ops=5300.0,
        measured_ops=measured,
        baseline_miss_ratio=0.48,
        predicted_miss_ratio=0.127,
        measured_miss_ratio=None if measured is None else 0.1269,
        why="the lowest miss ratio at every size",
    )


STATED = Objectives((Objective(pattern="/db", throughput_ops=5000, priority=10),))


@dataclass
class FakeService(FakeOrders):
    """Implements `cachepilot.api.service.Service`."""

    stated: Objectives = STATED
    pins: list[Pin] = field(default_factory=list)
    all_tenants: list[TenantView] = field(default_factory=tenants)
    changes: Changes = field(default_factory=Changes)
    past: FakePast = field(default_factory=FakePast)
    moving: FakeMoving = field(default_factory=FakeMoving)
    short: bool = True
    roomy: bool = True
    """Whether other nodes have room for a tenant that leaves a node that is short."""

    def store_problem(self) -> str:
        return ""

    def nodes(self) -> list[NodeView]:
        return [node("alpha"), node("beta", False, "no snapshot for 40 s")]

    def tenants(self, node: str | None = None) -> list[TenantView]:
        if node is not None and node not in ("alpha", "beta"):
            raise UnknownError(f"node {node}: unknown (allowed: alpha, beta)")
        return [tenant for tenant in self.all_tenants if node in (None, tenant.node)]

    def tenant(self, cgroup: str, node: str | None = None) -> TenantDetail:
        found = next((item for item in self.tenants(node) if item.cgroup == cgroup), None)
        if found is None:
            raise UnknownError(f"tenant {cgroup}: unknown")
        learned = found.cgroup != "/web"
        return TenantDetail(
            tenant=found,
            curves=CURVES if learned else None,
            demand=DemandView(service_us=120.0, accesses_per_op=3.1, concurrency=4.0, error_pct=4.2)
            if learned
            else None,
            predicted_miss_ratio=0.127 if learned else None,
            predicted_ops=5300.0 if learned else None,
            best_policy="lfu" if learned else None,
            why="lfu has the lowest miss ratio at 512 MiB; more memory would gain less here"
            if learned
            else "no curves yet",
            needed_for_slo_bytes=472 * MIB if learned else None,
            read_latency_total=[0, 0, 3],
            policies=ranking(found) if learned else [],
            prediction_error=prediction_error(5300.0, found.throughput_ops) if learned else None,
        )

    def objectives(self) -> Objectives:
        return self.stated

    def set_objectives(self, objectives: Objectives) -> None:
        self.stated = objectives

    def set_objective(self, objective: Objective) -> None:
        others = [one for one in self.stated.tenants if one.pattern != objective.pattern]
        self.stated = replace(self.stated, tenants=(*others, objective))

    def delete_objective(self, pattern: str) -> None:
        left = tuple(one for one in self.stated.tenants if one.pattern != pattern)
        if len(left) == len(self.stated.tenants):
            raise UnknownError(f"objective {pattern}: there is none")
        self.stated = replace(self.stated, tenants=left)

    def pin(self, pin: Pin, accept_missed_slos: bool = False) -> None:
        self.tenant(pin.cgroup, pin.node)
        if pin.limit_bytes is not None and pin.limit_bytes < 16 * MIB:
            require_accepted(f"pin {pin.cgroup}", accept_missed_slos)
        self.pins.append(pin)

    def revert(self, decision: int, accept_missed_slos: bool = False) -> Pin:
        found = next((row for row in self.history() if row.id == decision), None)
        if found is None:
            raise UnknownError(f"decision {decision}: unknown")
        if found.event == "reverted":
            raise InputError(f"decision {decision}: not in force any more: decision 2 is")
        pin = Pin(cgroup=found.cgroup, node=found.node, policy=found.from_policy, until_s=4e9)
        self.pin(pin, accept_missed_slos)
        return pin

    def revert_change(self, change: int, accept_missed_slos: bool = False) -> Pin:
        row = self.past.change(change).change
        if row.state == "undone":
            raise InputError(f"change {change}: undone: not in force, or not any more")
        limit_bytes = row.from_limit_bytes
        pin = Pin(cgroup=row.cgroup, node=row.node, limit_bytes=limit_bytes, until_s=4e9)
        self.pin(pin, accept_missed_slos)
        return pin

    def unpin(self, cgroup: str, node: str | None = None) -> None:
        left = [pin for pin in self.pins if (pin.cgroup, pin.node) != (cgroup, node)]
        if len(left) == len(self.pins):
            raise UnknownError(f"pin of {cgroup}: there is none")
        self.pins = left

    def history(
        self,
        cgroup: str | None = None,
        node: str | None = None,
        limit: int = 100,
        before: int | None = None,
        event: str | None = None,
    ) -> list[DecisionView]:
        rows = [decision(1, "kept"), decision(2, "trial"), decision(3, "reverted", "/search")]
        return [
            row
            for row in rows
            if cgroup in (None, row.cgroup) and event in (None, row.event) and row.id != before
        ][:limit]

    def what_if(self, question: WhatIf) -> WhatIfAnswer:
        rows = self.tenants(question.node)
        unknown = {*question.policy, *question.limit_bytes, *question.throughput_ops} - {
            row.cgroup for row in rows
        }
        if unknown:
            raise InputError(f"what-if: {min(unknown)}: no such tenant")
        return WhatIfAnswer(
            node=question.node,
            tenants=[
                WhatIfTenant(
                    cgroup=row.cgroup,
                    policy=row.policy,
                    limit_bytes=row.limit_bytes,
                    miss_ratio=0.127,
                    throughput_ops=5240.0,
                    to_policy=question.policy.get(row.cgroup, row.policy),
                    to_limit_bytes=question.limit_bytes.get(row.cgroup, row.limit_bytes),
                    to_miss_ratio=0.11,
                    to_throughput_ops=question.throughput_ops.get(row.cgroup, 5600.0),
                    slos=row.slos,
                )
                for row in rows
            ],
            unallocated_bytes=(question.budget_bytes or 1024 * MIB) - 960 * MIB,
            device_share=0.65,
            notes=["no curves yet: held at the current setting, except for pins: batch.service"],
        )

    def spread(self) -> Spread:
        return fake_plans.spread(self.all_tenants, self.short, self.roomy)

    def consolidation(self) -> Consolidation:
        return fake_plans.consolidation(self.all_tenants)
