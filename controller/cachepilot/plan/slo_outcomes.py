# SPDX-License-Identifier: Apache-2.0
"""The outcome of every SLO under a plan, and what is attainable if the SLO cannot be met."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.objectives.objective import Objective
from cachepilot.domain.planned import Held, SloOutcome, SloState
from cachepilot.domain.snapshot import FloatArray, Tenant
from cachepilot.plan.outlook import Outlook, attainable_miss
from cachepilot.plan.problem.asked import UNPREDICTED, Asked
from cachepilot.plan.problem.problem import Problem
from cachepilot.readable import number, numbers

MARGIN = 1e-6
UNITS = {"throughput_ops": " ops/s", "latency_p99_us": " us at p99", "hit_ratio": " hit ratio"}
NOT_MEASURED = "no p99 and throughput are measured to predict it from"
WAIT_TOLD_US = 1.0
"""A shorter wait of device reads is not worth a word."""


@dataclass(frozen=True)
class _Point:
    """A predicted point of one tenant, and the wait of a device read there."""

    miss: float
    ops: float
    wait_us: float


def _in_kind(kind: str, point: _Point, tenant: Tenant) -> float | None:
    """Convert a prediction to the unit of an SLO; None if it lacks a measurement to start from."""
    if kind == "throughput_ops":
        return point.ops
    if kind == "hit_ratio":
        return 1.0 - point.miss
    readings = tenant.indicators
    if readings.latency_p99_us is None or readings.throughput_ops <= 0:
        return None
    return readings.latency_p99_us * readings.throughput_ops / point.ops


def measured(kind: str, tenant: Tenant) -> float | None:
    """The measured value of a tenant in the unit of an SLO; None if it is not measured."""
    readings = tenant.indicators
    hit_ratio = 1.0 - readings.miss_ratio
    return {
        "throughput_ops": readings.throughput_ops,
        "latency_p99_us": readings.latency_p99_us,
        "hit_ratio": hit_ratio,
    }[kind]


def meets(kind: str, value: float, target: float) -> bool:
    """Whether a value meets an SLO of this kind, within rounding."""
    if kind == "latency_p99_us":
        return value <= target * (1 + MARGIN)
    return value >= target * (1 - MARGIN)


def part_reached(kind: str, value: float, target: float) -> float:
    """The part of an SLO of this kind that a value reaches, at most 1."""
    if meets(kind, value, target):
        return 1.0
    return target / value if kind == "latency_p99_us" else value / target


def _targets(objective: Objective) -> Iterator[tuple[str, float]]:
    for kind in UNITS:
        target = getattr(objective, kind)
        if target is not None:
            yield kind, target


def misses(tenant: Tenant, objective: Objective) -> bool:
    """Whether a tenant is measured to miss an SLO.

    The throughput and the hit ratio of an idle tenant do not count, since it requests nothing.
    """
    is_idle = tenant.indicators.throughput_ops <= 0
    values = (
        (kind, measured(kind, tenant), target)
        for kind, target in _targets(objective)
        if kind == "latency_p99_us" or not is_idle
    )
    return any(
        value is not None and not meets(kind, value, target) for kind, value, target in values
    )


def _why(kind: str, target: float, state: SloState, value: float, attainable: _Point) -> str:
    unit = UNITS[kind]
    wanted, told = numbers((target, value), 6)
    asked = f"target {wanted}{unit}, {told} predicted"
    most = f"{number(attainable.ops, 6)} ops/s at a miss ratio of {attainable.miss:.4f}"
    if attainable.wait_us >= WAIT_TOLD_US:
        wait = number(attainable.wait_us)
        most += f" if the device is as busy as planned, reads waiting {wait} us"
    return {
        SloState.MET: asked,
        SloState.APPROACHING: f"{asked}; limits move as fast as movement_share allows",
        SloState.OUTBID: f"{asked}; other SLOs come first; alone it could reach {most}",
        SloState.UNATTAINABLE: f"{asked}; infeasible on this node, which reaches {most} at most",
        SloState.HELD: f"{asked}; the setting of the tenant is fixed",
    }[state]


def _predicted_miss(problem: Problem, planned: Outlook) -> FloatArray:
    """The miss ratios under an allocation by the curves, shape (N,).

    A tenant that only its mode holds, or another program, is planned with its measured miss ratio.
    What is predicted of it is by its curve, as for every other tenant.
    """
    limits, policies = planned.allocation.limit_bytes, planned.allocation.policy
    by_curve = problem.curves.miss(limits[:, None], policies)[:, 0]
    return np.where(problem.movable, planned.miss, by_curve)


def _why_unknown(tenant: Tenant, held: Held) -> str:
    """Why there is no prediction for an SLO of a tenant."""
    if held is Held.UNKNOWN_POLICY:
        return "no prediction: its policy has no curve"
    if held is Held.NO_CURVES:
        return f"no prediction: there are no curves yet{tenant.trust.reason and ': '}" + (
            tenant.trust.reason
        )
    told = tenant.trust.reason or "no reason given"
    return f"no prediction: confidence in the curves is low: {told}"


def slo_outcomes(problem: Problem, planned: Outlook, asked: Asked) -> tuple[SloOutcome, ...]:
    """Return an outcome per SLO, in the order of the tenants, which is that of the problem."""
    rows = [i for i, objective in enumerate(asked.objectives) if objective.has_slo]
    if not rows:
        return ()
    wait_us = planned.load.wait_us
    miss = _predicted_miss(problem, planned)
    ops = problem.model.ops(miss, wait_us)
    best_miss = np.where(problem.movable, attainable_miss(problem), miss)
    best_ops = problem.model.ops(best_miss, wait_us)
    found = []
    for i in rows:
        tenant, objective, held = asked.tenants[i], asked.objectives[i], asked.held[i]
        here = _Point(float(miss[i]), float(ops[i]), wait_us)
        best = _Point(float(best_miss[i]), float(best_ops[i]), wait_us)
        limit = planned.allocation.limit_bytes[i]
        grows = bool(limit > problem.current_bytes[i]) and limit == problem.high_bytes[i]
        may = _may_change(problem, objective, i)
        for kind, target in _targets(objective):
            value, most = _in_kind(kind, here, tenant), _in_kind(kind, best, tenant)
            if held in UNPREDICTED:
                found.append(_unknown(tenant, kind, target, _why_unknown(tenant, held)))
            elif value is None or most is None:
                found.append(_unknown(tenant, kind, target, NOT_MEASURED))
            else:
                state = _state(kind, target, (value, most), may, grows)
                why = _why(kind, target, state, value, best)
                found.append(
                    SloOutcome(tenant.cgroup, kind, target, state, value, most, best.ops, why)
                )
    return tuple(found)


def _unknown(tenant: Tenant, kind: str, target: float, why: str) -> SloOutcome:
    return SloOutcome(tenant.cgroup, kind, target, SloState.UNKNOWN, None, None, None, why)


def _may_change(problem: Problem, objective: Objective, row: int) -> bool:
    """Whether a plan may give a tenant more memory.

    It may not if the tenant is not movable, or if an operator pinned its limit.
    """
    least, most = problem.least_bytes[row], problem.most_bytes[row]
    return bool(problem.movable[row] and (objective.fixed is None or least < most))


def _state(
    kind: str, target: float, predicted: tuple[float, float], movable: bool, grows: bool
) -> SloState:
    value, most = predicted
    if meets(kind, value, target):
        return SloState.MET
    if not movable:
        return SloState.HELD
    if not meets(kind, most, target):
        return SloState.UNATTAINABLE
    return SloState.APPROACHING if grows else SloState.OUTBID
