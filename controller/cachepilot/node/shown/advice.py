# SPDX-License-Identifier: Apache-2.0
"""Recommendations as they are shown: with bounds, the predicted effect, and its confidence."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from cachepilot.domain.objectives.objective import Objective, Objectives, size_bytes
from cachepilot.domain.planned import Action, Plan
from cachepilot.domain.recommended import Recommendation
from cachepilot.domain.snapshot import Curves
from cachepilot.model.throughput import ModelKind, tenant_throughput
from cachepilot.node.deciding.tenant_state import Advised
from cachepilot.sense.collect import Collected, Seen
from cachepilot.sense.curves.wire_curves import value_at
from cachepilot.sizes import PAGE_BYTES, pages_up

BAR_SIGMAS = 1.96
"""Standard errors in an error bar of 95%."""
LEAST_LOSS = 0.01
"""A share of a throughput: a smaller loss counts as none."""
BISECTIONS = 24


@dataclass(frozen=True)
class Advice:
    """The recommendations for a node after a cycle, and what they are based on.

    `collected` is the node with the recommendations in force. `plan` is the plan that was made for
    it by calibrated curves and by the throughput model `model`. `sigmas` are, by cgroup, relative
    standard errors of an interval against the prediction of its setting, if they are known.
    """

    collected: Collected
    plan: Plan
    objectives: Objectives
    advised: Mapping[str, Advised]
    model: ModelKind
    sigmas: Mapping[str, float] = field(default_factory=dict)

    def predicted_ops(self, present: Seen) -> float | None:
        """Operations per second that the plan predicts of a tenant's present setting, if it can."""
        tenant, shadow = present.tenant, self.collected.seen.get(present.tenant.cgroup)
        curves = None if shadow is None else shadow.tenant.curves
        if curves is None or tenant.policy not in curves.policies:
            return None
        throughput = tenant_throughput(tenant, self.collected.snapshot.device, self.model)
        miss = miss_at(curves, tenant.policy, tenant.limit_bytes)
        return throughput.ops(self.plan.device_wait_us, miss)

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


def _chance(value: float, bar: float, least: float) -> float:
    """The probability that a `value` with an error bar of 95% is at least `least`.

    The error is assumed to be normal.
    """
    if bar <= 0:
        return 1.0 if value >= least else 0.0
    return (1 + math.erf((value - least) * BAR_SIGMAS / bar / math.sqrt(2))) / 2


class _Shown:
    """One recommendation: `present` is the tenant as it is, `shadow` as recommended."""

    def __init__(
        self, advice: Advice, present: Seen, shadow: Seen, objective: Objective, curves: Curves
    ) -> None:
        self._present, self._curves, self._objective = present, curves, objective
        device, self._wait_us = advice.collected.snapshot.device, advice.plan.device_wait_us
        self._throughput = tenant_throughput(present.tenant, device, advice.model)
        self._budget = advice.collected.snapshot.node.budget_bytes
        self._floor = present.tenant.floor_bytes
        self._policy, self._limit = shadow.tenant.policy, shadow.limit_bytes
        self._ops_there = self._ops(self._miss(self._limit))
        by_model = (present.tenant.demand.error_pct or 0.0) / 100
        self._sigma = max(by_model, advice.sigmas.get(present.tenant.cgroup, 0.0))

    def _ops(self, miss: float) -> float:
        return self._throughput.ops(self._wait_us, min(1.0, max(0.0, miss)))

    def _miss(self, limit_bytes: int) -> float:
        return miss_at(self._curves, self._policy, limit_bytes)

    def _error(self, limit_bytes: int) -> float:
        """The half-width of the error bar of the predicted miss ratio at a limit.

        The miss ratio at the present limit is measured, so that only the step from there has an
        error, and the levels of both curves if the policy is another one. Without measured curves
        it is 1.
        """
        measured, tenant = self._present.measured, self._present.tenant
        if measured is None:
            return 1.0
        step = measured.error_between(self._policy, tenant.limit_bytes, limit_bytes)
        if self._policy == tenant.policy:
            return step
        levels = (
            measured.error_at(one, tenant.limit_bytes) for one in (self._policy, tenant.policy)
        )
        return math.hypot(*levels, step)

    @cached_property
    def _bars(self) -> tuple[float, float]:
        """By how much the throughput of an interval may be below and above the prediction, at 95%.

        It is the error of the curve's difference between the settings, and that by which intervals
        at the present setting are off their prediction. Near a miss ratio of 0 the two sides
        differ much.
        """
        there, miss, off = self._ops_there, self._miss(self._limit), self._error(self._limit)
        by_interval = BAR_SIGMAS * self._sigma * there
        below, above = there - self._ops(miss + off), self._ops(miss - off) - there
        return math.hypot(below, by_interval), math.hypot(above, by_interval)

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

    def _at_least(self, present_ops: float, kept_ops: float) -> float | None:
        """The throughput that the tenant should reach; None if there is no such value.

        That is its SLO if it has one, its present throughput if it gains, else what it keeps.
        """
        objective, readings = self._objective, self._present.tenant.indicators
        wanted = objective.throughput_ops or 0.0
        if objective.hit_ratio is not None:
            wanted = max(wanted, self._ops(1 - objective.hit_ratio))
        if objective.latency_p99_us is not None and readings.latency_p99_us is not None:
            faster = readings.latency_p99_us / objective.latency_p99_us
            wanted = max(wanted, readings.throughput_ops * faster)
        if wanted <= 0:
            gains = self._ops_there > (1 + LEAST_LOSS) * present_ops
            wanted = present_ops if gains else kept_ops
        return wanted or None

    def _chance_of(self, least: float) -> float:
        below, above = self._bars
        return _chance(self._ops_there, below if least < self._ops_there else above, least)

    def recommendation(self, kept_ops: float, advised: Advised | None) -> Recommendation:
        """Return the recommendation to show."""
        tenant, (below, above) = self._present.tenant, self._bars
        present_ops = self._ops(miss_at(self._curves, tenant.policy, tenant.limit_bytes))
        least = self._at_least(present_ops, kept_ops)
        is_sure = tenant.trust.trusted
        return Recommendation(
            policy=self._policy,
            limit_bytes=self._limit,
            lower_bytes=self._lower(),
            upper_bytes=self._upper(),
            throughput_ops=self._ops_there,
            throughput_low_ops=max(0.0, self._ops_there - below),
            throughput_high_ops=self._ops_there + above,
            present_ops=present_ops,
            at_least_ops=least,
            confidence=self._chance_of(least) if is_sure and least is not None else None,
            since_s=None if advised is None else advised.since_s,
        )
