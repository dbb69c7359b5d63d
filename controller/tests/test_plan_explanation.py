# SPDX-License-Identifier: Apache-2.0
"""Explanations: a tenant's predictions and its least memory for SLOs, checked by plans."""

from dataclasses import replace

import numpy as np
import pytest
from experiments.control_loop.instances import snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from cachepilot.domain.objectives.objective import Mode, Objective, Objectives
from cachepilot.domain.planned import Held, SloState
from cachepilot.domain.snapshot import Indicators, Snapshot, Trust
from cachepilot.domain.what_if import WhatIf
from cachepilot.errors import InputError
from cachepilot.plan.consolidation.consolidate import consolidate
from cachepilot.plan.explanation import explain
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.config import Config
from cachepilot.plan.what_if import what_if
from cachepilot.sizes import PAGE_BYTES, parse_size

EVERYBODY = Objectives((Objective("*"),))
STATIC = Config(allocator="static")
ROOM = 1 << 40


def _ops(seen: Snapshot, policy: str, limit_bytes: int) -> float:
    """Return the predicted throughput of the first tenant with this setting.

    All other tenants stay as they are.
    """
    first = replace(seen.tenants[0], policy=policy, limit_bytes=limit_bytes)
    node = replace(seen.node, budget_bytes=ROOM)
    there = replace(seen, node=node, tenants=(first, *seen.tenants[1:]))
    return plan(there, EVERYBODY, STATIC).actions[0].present.throughput_ops


@settings(max_examples=25)
@given(
    st.integers(0, 10_000),
    st.integers(1, 5),
    st.sampled_from((1e12, 20_000.0, 2_000.0)),
    st.floats(0.2, 3),
    st.sampled_from(sorted(Mode)),
)
def test_the_memory_that_is_needed_is_enough_and_a_page_less_is_not(
    seed: int, tenants: int, capacity: float, part: float, mode: Mode
) -> None:
    seen = snapshot(seed, tenants, policies=3, capacity_iops=capacity)
    first = replace(seen.tenants[0], floor_bytes=0)
    seen = replace(seen, tenants=(first, *seen.tenants[1:]))
    now = _ops(seen, first.policy, first.limit_bytes)
    ops = now * part
    asked = Objectives((Objective("/t00000", throughput_ops=ops, mode=mode), Objective("*")))
    found = explain(seen, asked, Config(), "/t00000")
    assert found.throughput_ops == pytest.approx(now, rel=1e-9)
    curves = first.curves
    assert curves is not None
    size = found.needed_for_slo_bytes
    if size is None:
        best = int(curves.sizes_bytes[-1])
        most = min(best, seen.node.budget_bytes)
        assert all(_ops(seen, name, most) < ops * (1 + 1e-6) for name in curves.policies)
        return
    assert found.needed_policy is not None
    assert size % PAGE_BYTES == 0 or size == seen.node.budget_bytes
    assert _ops(seen, found.needed_policy, size) >= ops * (1 - 1e-6)
    if size > 2 * PAGE_BYTES:
        less = [_ops(seen, name, size - 2 * PAGE_BYTES) for name in curves.policies]
        assert max(less) < ops


def test_the_best_policy_is_the_lowest_curve_at_the_present_size() -> None:
    seen = snapshot(6, 3, policies=4)
    for tenant in seen.tenants:
        found = explain(seen, EVERYBODY, Config(), tenant.cgroup)
        curves = tenant.curves
        assert curves is not None
        sizes = np.concatenate(([0], curves.sizes_bytes))
        at = [
            float(np.interp(tenant.limit_bytes, sizes, np.concatenate(([1.0], row))))
            for row in curves.miss_ratio
        ]
        assert found.best_miss_ratio == pytest.approx(min(at))
        assert found.best_policy == curves.policies[int(np.argmin(at))]
        assert found.miss_ratio == pytest.approx(at[curves.policies.index(tenant.policy)])
        assert found.needed_for_slo_bytes is None
    pinned = Objectives((Objective("*", policies=("policy3",)),))
    assert explain(seen, pinned, Config(), "/t00000").best_policy == "policy3"


def test_bounds_and_every_slo_count() -> None:
    seen = snapshot(6, 2, policies=3)
    easy = Objective("/t00000", throughput_ops=1.0)
    found = explain(seen, Objectives((easy,)), Config(), "/t00000")
    assert found.needed_for_slo_bytes == seen.tenants[0].floor_bytes
    least = replace(easy, memory_min=parse_size("32MiB"))
    assert explain(seen, Objectives((least,)), Config(), "/t00000").needed_for_slo_bytes == 32 << 20
    both = replace(easy, hit_ratio=0.9999)
    assert explain(seen, Objectives((both,)), Config(), "/t00000").needed_for_slo_bytes is None
    latency = Objectives((replace(easy, latency_p99_us=1e9),))
    assert explain(seen, latency, Config(), "/t00000").needed_for_slo_bytes is None
    readings = Indicators(1000.0, 0.5, 100.0, latency_p99_us=10.0)
    measured = replace(seen.tenants[0], indicators=readings)
    seen = replace(seen, tenants=(measured, seen.tenants[1]))
    assert explain(seen, latency, Config(), "/t00000").needed_for_slo_bytes is not None


def test_unknown_values_are_none_and_low_confidence_is_shown() -> None:
    seen = snapshot(6, 4, policies=2)
    blind = replace(seen.tenants[0], curves=None)
    doubtful = replace(seen.tenants[1], trust=Trust(False, "few"))
    strange = replace(seen.tenants[2], policy="mglru")
    seen = replace(seen, tenants=(blind, doubtful, strange, seen.tenants[3]))
    first, second, third = (explain(seen, EVERYBODY, Config(), f"/t0000{i}") for i in range(3))
    assert (first.held, first.miss_ratio, first.best_policy) == (Held.NO_CURVES, None, None)
    assert second.held is Held.UNTRUSTED and second.ranking
    assert (second.miss_ratio, second.throughput_ops) == (None, None)
    assert second.needed_for_slo_bytes is None
    assert third.held is Held.UNKNOWN_POLICY
    assert (third.miss_ratio, third.throughput_ops) == (None, None)
    assert third.best_policy is not None
    with pytest.raises(InputError, match=r"explain: '/x' is no tenant of node \(/t00000, "):
        explain(seen, EVERYBODY, Config(), "/x")


@pytest.mark.parametrize("mode", sorted(Mode))
def test_one_setting_has_one_prediction(mode: Mode) -> None:
    """A plan that changes nothing predicts what the explanation of the present setting does."""
    seen = snapshot(3, 2, policies=2)
    readings = replace(seen.tenants[0].indicators, miss_ratio=0.999)
    seen = replace(seen, tenants=(replace(seen.tenants[0], indicators=readings), seen.tenants[1]))
    asked = Objectives((Objective("/t00000", throughput_ops=300.0, mode=mode), Objective("*")))
    told = explain(seen, asked, STATIC, "/t00000").throughput_ops
    assert plan(seen, asked, STATIC).slos[0].value == pytest.approx(told)


@pytest.mark.parametrize("mode", sorted(Mode))
@pytest.mark.parametrize(
    "own",
    [
        Objective("/t00000", throughput_ops=0.5),
        Objective("/t00000", latency_p99_us=0.5),
        Objective("/t00000", hit_ratio=0.5),
    ],
)
def test_curves_of_low_confidence_predict_no_slo(mode: Mode, own: Objective) -> None:
    seen = snapshot(3, 2, policies=2)
    doubtful = replace(seen.tenants[0], trust=Trust(False, "few accesses"))
    seen = replace(seen, tenants=(doubtful, seen.tenants[1]))
    asked = Objectives((replace(own, mode=mode), Objective("*")))
    outcome = plan(seen, asked, Config()).slos[0]
    assert outcome.state is SloState.UNKNOWN
    assert (outcome.value, outcome.attainable) == (None, None)
    assert "few accesses" in outcome.why
    assert explain(seen, asked, Config(), "/t00000").throughput_ops is None
    assert not what_if(seen, asked, Config(), WhatIf("node")).tenants[0].predicted
    row = consolidate([seen], asked, Config()).tenants[0]
    assert not row.known and row.least_bytes == row.limit_bytes


def test_a_node_over_its_budget_is_explained_all_the_same() -> None:
    seen = snapshot(6, 3, policies=2)
    seen = replace(seen, node=replace(seen.node, budget_bytes=4096))
    found = explain(seen, EVERYBODY, Config(), "/t00001")
    assert found.throughput_ops is not None
