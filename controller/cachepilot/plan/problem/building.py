# SPDX-License-Identifier: Apache-2.0
"""Builds the allocation problem of a node from its snapshot and what is asked of its tenants."""

from collections.abc import Sequence

import numpy as np

from cachepilot.domain.objectives.objective import Objective
from cachepilot.domain.planned import Held
from cachepilot.domain.snapshot import BoolArray, Curves, FloatArray, IntArray, Snapshot, Tenant
from cachepilot.model.throughput import throughput_model
from cachepilot.plan.problem.asked import Asked
from cachepilot.plan.problem.config import Config
from cachepilot.plan.problem.limits import limits_of
from cachepilot.plan.problem.packed_curves import PackedCurves
from cachepilot.plan.problem.problem import Problem
from cachepilot.plan.problem.step_errors import StepErrors
from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.sizes import PAGE_BYTES


def min_ops_of(
    tenants: Sequence[Tenant], objectives: Sequence[Objective], with_margin: bool = False
) -> FloatArray:
    """The throughput that meets every SLO of throughput and of latency, shape (N,).

    With `with_margin` the SLO of throughput includes its margin. An SLO of latency has none.

    The p99 is assumed proportional to the time of an operation. By Little's law this time is the
    number of operations in flight divided by the throughput, so the p99 is inversely proportional
    to throughput. An SLO of latency does not count while no p99 is measured.
    """
    found = np.zeros(len(tenants))
    for i, (tenant, objective) in enumerate(zip(tenants, objectives, strict=True)):
        if objective.throughput_ops is None and objective.latency_p99_us is None:
            continue
        readings = tenant.indicators
        wanted = (objective.aims if with_margin else objective).throughput_ops or 0.0
        if objective.latency_p99_us is not None and readings.latency_p99_us is not None:
            faster = readings.latency_p99_us / objective.latency_p99_us
            wanted = max(wanted, readings.throughput_ops * faster)
        found[i] = wanted
    return found


def build(snapshot: Snapshot, asked: Asked, config: Config, free: frozenset[Held]) -> Problem:
    """Build the problem in which tenants whose `held` is in `free` may change, and no others.

    Raises InfeasibleError if the least memory of the tenants that may change exceeds the budget.
    """
    tenants, stated = asked.tenants, asked.objectives
    movable = asked.movable(free)
    limits = limits_of(asked, free, snapshot, config)
    told = asked.curves
    curves = PackedCurves.of(told)
    names = [one.policies for one in told]
    present = np.array([_present(*pair) for pair in zip(tenants, names, strict=True)], np.int64)
    usable = usable_of(curves, names, asked.policies(free))
    rows = np.arange(len(tenants))
    # A tenant whose allowed policies have no curve keeps its own: nothing better is known.
    stay = usable[rows, present] | ~usable.any(axis=1) if tenants else np.zeros(0, dtype=np.bool_)
    allowed = usable.copy()
    allowed[rows, present] = False
    current = np.array([tenant.limit_bytes for tenant in tenants], dtype=np.int64)
    measured = np.array([tenant.indicators.miss_ratio for tenant in tenants], dtype=np.float64)
    hits = [one.hit_ratio or 0.0 for one in stated]
    aimed_hits = [one.aims.hit_ratio or 0.0 if one.hit_ratio else 0.0 for one in stated]
    first = np.array([tenant.first_bytes for tenant in tenants], dtype=np.int64)
    # An operator who pins a limit overrides what the tenant would keep.
    keep = np.array(
        [
            one.keep if fixed.limit_bytes is None else 0.0
            for one, fixed in zip(stated, asked.fixed, strict=True)
        ],
        dtype=np.float64,
    )
    return Problem(
        budget_bytes=max(snapshot.node.shared_bytes, int(limits.low.sum())),
        curves=curves,
        model=throughput_model(tenants, snapshot.device, config.model),
        allowed=allowed & movable[:, None],
        stay=stay | ~movable,
        present=present,
        given=np.where(movable & ~stay & (usable.sum(axis=1) == 1), usable.argmax(axis=1), present)
        if tenants
        else present,
        current_bytes=current,
        least_bytes=limits.least,
        most_bytes=limits.most,
        low_bytes=limits.low,
        high_bytes=limits.high,
        movable=movable,
        present_miss=np.where(movable, curves.miss(current[:, None], present)[:, 0], measured),
        weight=np.array([one.weight for one in stated], dtype=np.float64),
        priority=np.array([one.priority for one in stated], dtype=np.int64),
        min_ops=min_ops_of(tenants, stated),
        max_miss=1.0 - np.array(hits, dtype=np.float64),
        aim_ops=min_ops_of(tenants, stated, with_margin=True),
        aim_miss=1.0 - np.array(aimed_hits, dtype=np.float64),
        keep=np.where(first > 0, keep, 0.0),
        first_bytes=first,
        first_miss=_first_miss(
            tenants, told, curves.miss(first[:, None], _defaults(names, present))[:, 0]
        ),
        errors=StepErrors.of(told, present.tolist(), curves.sizes_bytes.shape[1]),
        goal=asked.goal,
        config=config,
        widened=limits.widened,
        over_bytes=limits.over_bytes,
    )


def usable_of(
    curves: PackedCurves, names: Sequence[tuple[str, ...]], allowed: Sequence[tuple[str, ...]]
) -> BoolArray:
    """Mark the curves whose policies each tenant may have, (N, P).

    `allowed` are the names of the policies allowed to each tenant; an empty tuple allows all.
    """
    count, policies = curves.miss_ratio.shape[:2]
    # Thousands of tenants share a few combinations of names.
    known: dict[tuple[tuple[str, ...], tuple[str, ...]], list[bool]] = {}
    rows = []
    for pair in zip(names, allowed, strict=True):
        row = known.get(pair)
        if row is None:
            has, wanted = pair
            row = [name in wanted if wanted else True for name in has]
            row = known[pair] = row + [False] * (policies - len(has))
        rows.append(row)
    return np.array(rows, dtype=np.bool_).reshape(count, policies)


def _first_miss(
    tenants: Sequence[Tenant], told: Sequence[Curves], by_curves: FloatArray
) -> FloatArray:
    """Miss ratios with the first memory, (N,).

    A tenant whose curves have low confidence gets the measured one, unless its limit is still its
    first memory.
    """
    found = by_curves.copy()
    for i, (tenant, curves) in enumerate(zip(tenants, told, strict=True)):
        if curves is tenant.certain and abs(tenant.limit_bytes - tenant.first_bytes) >= PAGE_BYTES:
            found[i] = tenant.first_miss
    return found


def _defaults(names: Sequence[Sequence[str]], present: IntArray) -> IntArray:
    """The index of the kernel's default policy of each tenant, (N,).

    The present policy stands for it if the default has no curve.
    """
    found = [
        one.index(DEFAULT) if DEFAULT in one else now
        for one, now in zip(names, present.tolist(), strict=True)
    ]
    return np.array(found, dtype=np.int64)


def _present(tenant: Tenant, names: Sequence[str]) -> int:
    return names.index(tenant.policy) if tenant.policy in names else 0
