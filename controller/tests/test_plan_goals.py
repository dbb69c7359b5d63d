# SPDX-License-Identifier: Apache-2.0
"""The goals of memory beyond SLOs, and what tenants without an SLO keep."""

from dataclasses import replace

import numpy as np
import pytest
from experiments.control_loop.instances import MIB, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from cachepilot.domain.objectives.as_json import objectives_from_json, objectives_to_json
from cachepilot.domain.objectives.objective import Goal, Objective, Objectives
from cachepilot.domain.planned import Plan, SloState
from cachepilot.domain.snapshot import (
    Curves,
    Demand,
    Device,
    FloatArray,
    Indicators,
    Node,
    Snapshot,
    Tenant,
)
from cachepilot.plan.allocators import ALLOCATORS
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.config import Config

SIZES = np.arange(1, 33) * 8 * MIB
FAR = Config(movement_share=1.0)
BUSY = Indicators(throughput_ops=1000.0, miss_ratio=0.5, device_iops=1000.0)


def linear(working_set_mib: int, least: float = 0.0) -> FloatArray:
    """Return miss ratios that fall evenly to `least` at the working set."""
    return np.maximum(least, 1 - (1 - least) * SIZES / (working_set_mib * MIB))


def power(scale_mib: int, exponent: float) -> FloatArray:
    """Return miss ratios with a heavy tail."""
    found: FloatArray = (1 + SIZES / (scale_mib * MIB)) ** -exponent
    return found


def tenant(
    name: str, misses: FloatArray, threads: float = 1.0, first_mib: int = 0, limit_mib: int = 128
) -> Tenant:
    """Return a tenant under `lru` with a floor of 8 MiB."""
    curves = Curves(("lru",), SIZES, misses[None, :])
    demand = Demand(service_us=50.0, accesses_per_op=1.0, concurrency=threads)
    limit, first = limit_mib * MIB, first_mib * MIB
    return Tenant(name, "lru", limit, 8 * MIB, curves, demand, BUSY, first_bytes=first)


def node(*tenants: Tenant, budget_mib: int = 256) -> Snapshot:
    """Return a node whose tenants share 256 MiB and a device that keeps up."""
    return Snapshot(1, 0.0, Node("node", budget_mib * MIB), Device(1e12, 500.0), tenants)


def limits(found: Plan) -> list[float]:
    return [action.limit_bytes / MIB for action in found.actions]


def two(keep: float, goal: Goal = Goal.PROPORTIONAL_FAIRNESS) -> Objectives:
    return Objectives((Objective("*", keep=keep),), goal)


def test_fairness_does_not_starve_a_tenant_with_slower_operations() -> None:
    seen = node(tenant("/fast", power(16, 0.8), threads=100.0), tenant("/slow", power(16, 0.8)))
    fair = plan(seen, two(0.0), FAR)
    total = plan(seen, two(0.0, Goal.TOTAL_THROUGHPUT), FAR)
    assert limits(total)[1] == 8
    assert limits(fair) == [128, 128]


def test_the_unit_of_an_operation_does_not_matter_to_fairness() -> None:
    misses = linear(200), linear(300, 0.2)
    plans = [
        plan(node(*(tenant(f"/{i}", one) for i, one in enumerate(misses))), two(0.0), FAR),
        plan(node(tenant("/0", misses[0], threads=64.0), tenant("/1", misses[1])), two(0.0), FAR),
    ]
    assert limits(plans[0]) == limits(plans[1])


def test_fairness_is_the_default_and_what_was_called_throughput_is_read() -> None:
    assert Objectives().goal is Goal.PROPORTIONAL_FAIRNESS
    old = objectives_to_json(Objectives(goal=Goal.TOTAL_THROUGHPUT))
    old = old.replace('"total_throughput"', '"throughput"')
    assert objectives_from_json(old, "old").goal is Goal.TOTAL_THROUGHPUT


def test_the_objective_of_a_fair_plan_is_a_geometric_mean() -> None:
    seen = node(tenant("/a", linear(200)), tenant("/b", linear(100, 0.1)))
    found = plan(seen, two(0.0), replace(FAR, allocator="static"))
    ops = [action.throughput_ops for action in found.actions]
    assert found.objective == pytest.approx((ops[0] * ops[1]) ** 0.5)
    best = plan(seen, two(0.0), FAR)
    assert best.bound is not None and best.bound >= best.objective > found.objective


def test_a_tenant_that_does_nothing_yet_is_planned() -> None:
    idle = tenant("/idle", linear(200), threads=1e-300)
    found = plan(node(idle, tenant("/busy", linear(200))), two(0.9), FAR)
    assert all(np.isfinite([found.objective, *limits(found)]))


@pytest.mark.parametrize("allocator", ["optimal", "annealing", "proportional"])
@pytest.mark.parametrize("goal", [Goal.PROPORTIONAL_FAIRNESS, Goal.TOTAL_THROUGHPUT])
def test_a_tenant_keeps_its_share_of_what_it_did_with_its_first_memory(
    goal: Goal, allocator: str
) -> None:
    hungry = tenant("/hungry", linear(240), threads=100.0, first_mib=128)
    donor = tenant("/donor", linear(400), first_mib=128)
    config = replace(FAR, allocator=allocator)
    stated = Objective("/hungry", weight=50.0), Objective("/donor", keep=0.95)
    found = plan(node(hungry, donor), Objectives(stated, goal), config).actions[0]
    first = 1e6 / (50 + 500 * (1 - 128 / 400))
    assert found.kept_ops == pytest.approx(0.95 * first)
    assert found.kept_ops <= found.throughput_ops < 0.97 * first
    free = replace(stated[1], keep=0.0)
    found = plan(node(hungry, donor), Objectives((stated[0], free), goal), config).actions[0]
    assert found.kept_ops == 0 and found.throughput_ops < 0.9 * first


def test_a_tenant_without_hits_at_any_size_gives_first() -> None:
    flat = tenant("/flat", np.ones(SIZES.size), first_mib=85, limit_mib=85)
    others = [tenant(f"/{i}", power(16, 0.8), first_mib=85, limit_mib=85) for i in range(2)]
    found = plan(node(flat, *others), two(0.9), FAR)
    assert found.actions[2].cgroup == "/flat" and limits(found)[2] == 8
    assert all(limit > 85 for limit in limits(found)[:2])


@pytest.mark.parametrize("first_mib", [64, 61])
def test_no_tenant_keeps_more_than_its_first_memory(first_mib: int) -> None:
    """Its policy is not allowed, and the allowed one never does as much."""
    both = Curves(("lru", "bad"), SIZES, np.stack((linear(200), np.ones(SIZES.size))))
    bad = replace(tenant("/bad", linear(200), first_mib=64), curves=both)
    bad = replace(bad, first_bytes=first_mib * MIB, limit_bytes=32 * MIB)
    other = tenant("/other", linear(240), threads=100.0, first_mib=128, limit_mib=32)
    stated = Objective("/bad", policies=("bad",)), Objective("*", keep=0.0)
    seen = node(bad, other, budget_mib=first_mib + 8)
    assert limits(plan(seen, Objectives(stated), FAR)) == [first_mib, 8]


def slo(priority: int) -> Objective:
    """Return an SLO whose hit ratio takes 240 MiB."""
    return Objective("/slo", hit_ratio=0.9, priority=priority)


@pytest.mark.parametrize(("priority", "wins"), [(2, True), (1, True), (0, False)])
def test_an_slo_comes_before_what_tenants_of_no_higher_priority_keep(
    priority: int, wins: bool
) -> None:
    cliff = np.where(SIZES >= 240 * MIB, 0.05, 1.0)
    seen = node(tenant("/slo", cliff), tenant("/plain", linear(200), first_mib=128))
    asked = Objectives((slo(priority), Objective("*", priority=1)))
    found = plan(seen, asked, FAR)
    plain = found.actions[0]
    assert (found.slos[0].state is SloState.MET) is wins
    assert (plain.throughput_ops >= plain.kept_ops) is not wins


def test_all_others_keep_the_same_part_if_an_slo_takes_too_much() -> None:
    cliff = np.where(SIZES >= 160 * MIB, 0.05, 1.0)
    others = [tenant(f"/{i}", linear(200), 9.0**i, 85, 85) for i in range(2)]
    seen = node(tenant("/slo", cliff, limit_mib=85), *others)
    for goal in (Goal.PROPORTIONAL_FAIRNESS, Goal.TOTAL_THROUGHPUT):
        found = plan(seen, Objectives((slo(1), Objective("*", keep=1.0)), goal), FAR)
        parts = [one.throughput_ops / one.kept_ops for one in found.actions[:2]]
        assert found.slos[0].state is SloState.MET
        assert min(parts) > 0.75 and max(parts) - min(parts) < 0.05


def test_least_memory_leaves_what_is_kept() -> None:
    seen = node(tenant("/a", linear(160, 0.1), first_mib=160), budget_mib=256)
    found = plan(seen, two(0.9, Goal.LEAST_MEMORY), FAR).actions[0]
    first = 1e6 / (50 + 500 * 0.1)
    assert found.limit_bytes > 128 * MIB
    assert found.throughput_ops == pytest.approx(0.9 * first, rel=1e-3)


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 7),
    st.integers(1, 4),
    st.sampled_from((Goal.PROPORTIONAL_FAIRNESS, Goal.TOTAL_THROUGHPUT)),
    st.sampled_from(("optimal", "annealing", "proportional")),
    st.floats(0.0, 1.0),
    st.booleans(),
)
def test_no_tenant_without_an_slo_is_planned_below_what_it_keeps(
    seed: int, tenants: int, policies: int, goal: Goal, allocator: str, keep: float, far: bool
) -> None:
    """First memories fit into the budget. If memory moves in small steps, all still have them."""
    seen = snapshot(seed, tenants, policies)
    random = np.random.default_rng(seed)
    most = 1.0 if not far else seen.node.budget_bytes / sum(t.limit_bytes for t in seen.tenants)
    known = tuple(
        replace(one, first_bytes=int(one.limit_bytes * random.uniform(0.1, most)))
        for one in seen.tenants
    )
    if far:  # They lost all of it meanwhile, and may get it back at once.
        known = tuple(replace(one, limit_bytes=one.floor_bytes) for one in known)
    config = Config(allocator=allocator, movement_share=1.0 if far else 0.05)
    found = plan(replace(seen, tenants=known), two(keep, goal), config)
    for action in found.actions:
        assert action.throughput_ops >= action.kept_ops * (1 - 1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from(sorted(Goal)),
    st.sampled_from(sorted(ALLOCATORS)),
    st.sampled_from((0.0, 0.05, 1.0)),
)
def test_every_keep_has_a_plan_within_the_budget(
    seed: int, goal: Goal, allocator: str, movement: float
) -> None:
    """First memories may exceed all memory, policies differ from those in force, SLOs vary."""
    random = np.random.default_rng(seed)
    seen = snapshot(seed, int(random.integers(1, 9)), 3, capacity_iops=(1e12, 2e3)[seed % 2])
    budget = int(seen.node.budget_bytes * random.uniform(0.4, 1.2))
    tenants = tuple(
        replace(
            one,
            first_bytes=int(one.limit_bytes * random.uniform(0, 3)),
            floor_bytes=one.floor_bytes // 4,
        )
        for one in seen.tenants
    )
    stated = tuple(
        Objective(
            one.cgroup,
            keep=float(random.random()),
            priority=int(random.integers(3)),
            hit_ratio=float(random.uniform(0.1, 1)) if random.random() < 0.3 else None,
            policies=(f"policy{random.integers(3)}",) if random.random() < 0.3 else (),
        )
        for one in tenants
    )
    here = replace(seen, tenants=tenants, node=replace(seen.node, budget_bytes=budget))
    config = Config(allocator=allocator, movement_share=movement)
    found = plan(here, Objectives(stated, goal), config)
    assert sum(action.limit_bytes for action in found.actions) <= budget
