# SPDX-License-Identifier: Apache-2.0
"""Recommendations as they are shown: with bounds, the predicted effect, and its confidence."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from cachepilot.domain.objectives.objective import Objective, Objectives, size_bytes
from cachepilot.domain.planned import Action, Plan
from cachepilot.domain.recommended import Recommendation
from cachepilot.domain.snapshot import Curves, FloatArray
from cachepilot.model.foreseen import Known, Predicted, miss_error
from cachepilot.model.throughput import ModelKind, Throughput, tenant_throughput, throughput_model
from cachepilot.node.deciding.tenant_state import Advised
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sense.curves.wire_curves import value_at
from cachepilot.sizes import PAGE_BYTES, pages_up

LEAST_LOSS = 0.01
"""A share of a throughput: a smaller loss counts as none."""
BISECTIONS = 24


@dataclass(frozen=True)
class Advice:
    """The recommendations for a node after a cycle, and what they are based on.

    `collected` is the node with the recommendations in force. `plan` is the plan that was made for
    it by calibrated curves and by the throughput model `model`. `known` is, by cgroup, what was
    measured of the tenants in their present settings, and `present` are the tenants in these.
    """

    collected: Collected
    plan: Plan
    objectives: Objectives
    advised: Mapping[str, Advised]
    model: ModelKind
    known: Mapping[str, Known] = field(default_factory=dict)
    present: Mapping[str, Seen] = field(default_factory=dict)

    @cached_property
    def _throughput(self) -> Throughput:
        snapshot = self.collected.snapshot
        return throughput_model(snapshot.tenants, snapshot.device, self.model)

    @cached_property
    def present_wait_us(self) -> float:
        """How long a device read waits with the settings in force."""
        return self._throughput.wait_us(self._missed(self.present))

    @cached_property
    def _miss_there(self) -> FloatArray:
        return self._missed(self.collected.seen)

    def _missed(self, settings: Mapping[str, Seen]) -> FloatArray:
        """The miss ratio of each tenant in its setting among these.

        It is by the curve; the measured one if there is no curve of the policy. The waits
        in the present and in the recommended settings then differ only if the settings do. The wait
        of `plan` is that after its actions, which may not be recommended.
        """
        found = []
        for cgroup, shadow in self.collected.seen.items():
            tenant, curves = settings.get(cgroup, shadow).tenant, shadow.tenant.curves
            if curves is not None and tenant.policy in curves.policies:
                found.append(miss_at(curves, tenant.policy, tenant.limit_bytes))
            else:
                found.append(tenant.indicators.miss_ratio)
        return np.array(found)

    @cached_property
    def wait_us(self) -> float:
        """How long a device read waits with the recommendations in force."""
        return self._throughput.wait_us(self._miss_there)

    @cached_property
    def wait_error_us(self) -> float:
        """The half-width of the error bar of `wait_us`, by those of all miss ratios."""
        off = []
        for one in self.collected.snapshot.tenants:
            present, known = self.present.get(one.cgroup), self.known.get(one.cgroup)
            if present is None or known is None:
                off.append(0.0)
                continue
            here = present.tenant.policy, present.tenant.limit_bytes
            off.append(known.error(present.measured, here, (one.policy, one.limit_bytes)))
        return self._throughput.wait_error_us(self._miss_there, np.array(off), self.wait_us)

    @cached_property
    def _actions(self) -> dict[str, Action]:
        return {one.cgroup: one for one in self.plan.actions}

    def of(self, present: Seen) -> Recommendation | None:
        """Return the recommendation for a tenant in its present state.

        None if it gets none, or has no curve of its present and its recommended policy.
        """
        cgroup, tenant = present.tenant.cgroup, present.tenant
        shadow, action = self.collected.seen.get(cgroup), self._actions.get(cgroup)
        objective = self.objectives.of(cgroup)
        if not objective.is_advised or shadow is None or action is None:
            return None
        curves = shadow.tenant.curves
        if curves is None or not {tenant.policy, shadow.tenant.policy} <= {*curves.policies}:
            return None
        shown = _Shown(self, present, shadow, objective, curves)
        return shown.recommendation(action.kept_ops, self.advised.get(cgroup))


def miss_at(curves: Curves, policy: str, limit_bytes: int) -> float:
    """The miss ratio at a limit by the curve of a policy, which must have one."""
    row = curves.miss_ratio[curves.policies.index(policy)]
    return float(value_at(curves.sizes_bytes.tolist(), row.tolist(), 1.0, limit_bytes))


class _Shown:
    """One recommendation: `present` is the tenant as it is, `shadow` as recommended."""

    def __init__(
        self, advice: Advice, present: Seen, shadow: Seen, objective: Objective, curves: Curves
    ) -> None:
        self._present, self._curves, self._objective = present, curves, objective
        device, self._wait_us = advice.collected.snapshot.device, advice.wait_us
        self._throughput = tenant_throughput(present.tenant, device, advice.model)
        self._budget = advice.collected.snapshot.node.budget_bytes
        self._floor = present.tenant.floor_bytes
        self._policy, self._limit = shadow.tenant.policy, shadow.limit_bytes
        self._ops_there = self._ops(self._miss(self._limit))
        self._known = advice.known.get(present.tenant.cgroup, Known())
        self._present_wait_us, self._wait_error_us = advice.present_wait_us, advice.wait_error_us

    def _ops(self, miss: float) -> float:
        return self._throughput.ops(self._wait_us, min(1.0, max(0.0, miss)))

    def _ops_here(self, miss: float) -> float:
        return self._throughput.ops(self._present_wait_us, min(1.0, max(0.0, miss)))

    def _miss(self, limit_bytes: int) -> float:
        return miss_at(self._curves, self._policy, limit_bytes)

    def _error(self, limit_bytes: int) -> float:
        tenant, measured = self._present.tenant, self._present.measured
        here, there = (tenant.policy, tenant.limit_bytes), (self._policy, limit_bytes)
        return miss_error(measured, here, there, self._known.calibration)

    @cached_property
    def _predicted(self) -> Predicted:
        """The model's view of the present and of the recommended setting."""
        tenant, ops = self._present.tenant, self._throughput.ops
        missed = self._miss(self._limit)
        there = self._ops(missed)
        return Predicted(
            ops_here=self._ops_here,
            ops_there=self._ops,
            here=miss_at(self._curves, tenant.policy, tenant.limit_bytes),
            there=missed,
            step=self._error(self._limit),
            by_wait=(
                there - ops(self._wait_us + self._wait_error_us, missed),
                ops(max(0.0, self._wait_us - self._wait_error_us), missed) - there,
            ),
            error_pct=tenant.demand.error_pct,
        )

    def _bound(self, end_bytes: int, is_enough: Callable[[int], bool]) -> int:
        """The furthest limit from the recommended one towards an end that `is_enough` accepts.

        It goes through the sizes of the curve and bisects between the last accepted one and the
        next.
        """
        low, high = sorted((self._limit, end_bytes))
        between = [one for one in self._curves.sizes_bytes.tolist() if low < one < high]
        good = self._limit
        for size in sorted((*between, end_bytes), reverse=end_bytes < self._limit):
            if is_enough(int(size)):
                good = int(size)
                continue
            bad = int(size)
            for _ in range(BISECTIONS):
                middle = (good + bad) // 2
                good, bad = (middle, bad) if is_enough(middle) else (good, middle)
            break
        return good

    def _lower(self) -> int:
        least = (1 - LEAST_LOSS) * self._ops_there
        end = min(self._limit, max(PAGE_BYTES, self._floor))
        found = self._bound(end, lambda at: self._ops(self._miss(at) - self._error(at)) >= least)
        return min(self._limit, pages_up(found))

    def _upper(self) -> int:
        """The limit that surely reaches the throughput, at most `memory_max` or the budget.

        The search ends at the limit above which more memory brings nothing.
        """
        stated, least = self._objective.memory_max, (1 - LEAST_LOSS) * self._ops_there
        most = self._budget if stated is None else size_bytes(stated, self._budget)
        most = max(self._limit, most)
        best = self._ops(self._miss(most))

        def is_short(at: int) -> bool:
            miss = self._miss(at)
            gains = (1 - LEAST_LOSS) * best > self._ops(miss)
            return gains and self._ops(miss + self._error(at)) < least

        if not is_short(self._limit):
            return self._limit
        return max(self._limit, min(most, pages_up(self._bound(most, is_short) + PAGE_BYTES)))

    def _at_least(
        self, present_ops: float, there_ops: float, ratio: float, kept_ops: float
    ) -> float | None:
        """The throughput that the tenant should reach; None if there is no such value.

        That is its SLO if it has one, its present throughput if it gains, else what it keeps.
        What the model predicts counts times `ratio`, of measured and predicted throughput.
        """
        objective, readings = self._objective, self._present.tenant.indicators
        wanted = objective.throughput_ops or 0.0
        if objective.hit_ratio is not None:
            wanted = max(wanted, ratio * self._ops(1 - objective.hit_ratio))
        if objective.latency_p99_us is not None and readings.latency_p99_us is not None:
            faster = readings.latency_p99_us / objective.latency_p99_us
            wanted = max(wanted, readings.throughput_ops * faster)
        if wanted <= 0:
            gains = there_ops > (1 + LEAST_LOSS) * present_ops
            wanted = present_ops if gains else ratio * kept_ops
        return wanted or None

    def recommendation(self, kept_ops: float, advised: Advised | None) -> Recommendation:
        """Return the recommendation to show."""
        predicted, is_sure = self._predicted, self._present.tenant.trust.trusted
        found, ratio = predicted.foreseen(self._known), predicted.ratio(self._known)
        present_ops = ratio * predicted.ops_here(predicted.here)
        least = self._at_least(present_ops, found.ops, ratio, kept_ops)
        return Recommendation(
            policy=self._policy,
            limit_bytes=self._limit,
            lower_bytes=self._lower(),
            upper_bytes=self._upper(),
            throughput_ops=found.ops,
            throughput_low_ops=found.low_ops,
            throughput_high_ops=found.ops + found.above,
            present_ops=present_ops,
            at_least_ops=least,
            confidence=found.chance_of(least) if is_sure and least is not None else None,
            since_s=None if advised is None else advised.since_s,
        )
