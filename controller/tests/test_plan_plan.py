# SPDX-License-Identifier: Apache-2.0
"""Properties of every plan: bounds, SLOs, pins, and exact replay from a record."""

import json
from base64 import b64encode
from dataclasses import replace

import numpy as np
import pytest
from experiments.control_loop.instances import MIB, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from cachepilot.domain.json_values import RecordError
from cachepilot.domain.objectives.objective import Goal, Mode, Objective, Objectives
from cachepilot.domain.planned import Held, Plan, SloState
from cachepilot.domain.snapshot import Curves, Snapshot, Trust
from cachepilot.errors import InputError
from cachepilot.model.throughput import ModelKind
from cachepilot.plan.allocators import ALLOCATORS
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.config import Config
from cachepilot.plan.problem.limits import InfeasibleError
from cachepilot.plan.record import Record, from_bytes, replay, to_bytes
from cachepilot.sizes import parse_size

EVERYBODY = Objectives((Objective("*"),))
CAPACITIES = (1e12, 20_000.0, 2_000.0)
snapshots = st.builds(
    snapshot,
    st.integers(0, 10_000),
    tenants=st.integers(1, 7),
    policies=st.integers(1, 4),
    points=st.integers(1, 12),
    capacity_iops=st.sampled_from(CAPACITIES),
)
configs = st.builds(
    Config,
    allocator=st.sampled_from(sorted(ALLOCATORS)),
    model=st.sampled_from(sorted(ModelKind)),
    movement_share=st.sampled_from((0.0, 0.05, 0.3, 1.0)),
    switch_cost=st.sampled_from((0.0, 0.02)),
)
objectives = st.builds(
    lambda goal, ops, hits, lowest: Objectives(
        (
            Objective("/t00000", throughput_ops=ops, priority=2),
            Objective("/t00001", hit_ratio=hits, priority=1, weight=3.0),
            Objective("/t0000[23]", memory_min=parse_size(lowest)),
            Objective("*"),
        ),
        goal,
    ),
    st.sampled_from(sorted(Goal)),
    st.floats(1, 1e6),
    st.floats(0.01, 1),
    st.sampled_from(("1MiB", "0.02")),
)


def _limits(found: Plan) -> int:
    return sum(action.limit_bytes for action in found.actions)


@settings(max_examples=60)
@given(snapshots, objectives, configs)
def test_bounds_hold_for_every_allocator_and_goal(
    seen: Snapshot, asked: Objectives, config: Config
) -> None:
    found = plan(seen, asked, config)
    budget = seen.node.budget_bytes
    assert _limits(found) + found.unallocated_bytes == budget
    assert found.unallocated_bytes >= 0
    assert found.device_share <= 1 + 1e-6 or config.model is not ModelKind.SERVICE
    for tenant, action in zip(seen.tenants, found.actions, strict=True):
        assert action.cgroup == tenant.cgroup
        assert action.limit_bytes >= tenant.floor_bytes
        lifted = max(0, budget // 50 - tenant.limit_bytes)
        moved = abs(action.limit_bytes - tenant.limit_bytes)
        assert moved <= max(int(config.movement_share * budget), lifted)
        assert tenant.curves is not None and action.policy in tenant.curves.policies


@settings(max_examples=25)
@given(snapshots, st.integers(1, 64))
def test_more_memory_never_lowers_the_objective(seen: Snapshot, more_mib: int) -> None:
    seen = replace(seen, device=replace(seen.device, capacity_iops=1e12))
    # The share of the larger budget is the same number of bytes, so only the budget grows.
    larger = seen.node.budget_bytes + more_mib * MIB
    movement = 0.2 * seen.node.budget_bytes
    wider = replace(seen, node=replace(seen.node, budget_bytes=larger))
    config = Config(movement_share=movement / seen.node.budget_bytes)
    less = plan(seen, EVERYBODY, config)
    more = plan(wider, EVERYBODY, replace(config, movement_share=movement / larger))
    assert more.objective >= less.objective * (1 - 1e-3)
    assert more.bound is not None and less.bound is not None
    assert more.bound >= less.bound * (1 - 1e-6)


@settings(max_examples=30)
@given(snapshots, st.sampled_from(("optimal",)))
def test_never_worse_than_to_keep_everything(seen: Snapshot, allocator: str) -> None:
    found = plan(seen, EVERYBODY, Config(allocator=allocator))
    kept = plan(seen, EVERYBODY, Config(allocator="static"))
    assert found.objective >= kept.objective * (1 - 1e-9)


@settings(max_examples=30)
@given(snapshots, st.sampled_from(sorted(ALLOCATORS)))
def test_a_pinned_policy_stays_and_an_untrusted_or_observed_tenant_is_left_alone(
    seen: Snapshot, allocator: str
) -> None:
    first = seen.tenants[0]
    frozen = replace(first, trust=Trust(False, "too few samples"))
    seen = replace(seen, tenants=(frozen, *seen.tenants[1:]))
    pins = [Objective(t.cgroup, policies=(t.policy,)) for t in seen.tenants[1:-1]]
    observed = Objective(seen.tenants[-1].cgroup, mode=Mode.OBSERVE)
    asked = Objectives((*pins, observed, Objective("*")))
    found = plan(seen, asked, Config(allocator=allocator, movement_share=0.5))
    for tenant, action in zip(seen.tenants, found.actions, strict=True):
        assert action.policy == tenant.policy
    for at in (0, -1):
        assert found.actions[at].limit_bytes == seen.tenants[at].limit_bytes
        assert found.actions[at].held is not Held.NOT
    if len(seen.tenants) > 1:
        assert found.actions[0].held is Held.UNTRUSTED
        assert "too few samples" in found.actions[0].why


def test_a_pin_to_another_policy_is_obeyed() -> None:
    seen = snapshot(1, tenants=3, policies=3)
    other = next(name for name in ("policy0", "policy1") if name != seen.tenants[0].policy)
    asked = Objectives((Objective("/t00000", policies=(other,)), Objective("*")))
    assert plan(seen, asked, Config()).actions[0].policy == other


def test_recommend_changes_nothing() -> None:
    seen = snapshot(8, tenants=4, policies=3)
    found = plan(seen, Objectives((Objective("*", mode=Mode.RECOMMEND),)), Config())
    for tenant, action in zip(seen.tenants, found.actions, strict=True):
        assert (action.policy, action.limit_bytes) == (tenant.policy, tenant.limit_bytes)


@settings(max_examples=40)
@given(snapshots, objectives, configs)
def test_a_decision_is_replayed_from_its_record(
    seen: Snapshot, asked: Objectives, config: Config
) -> None:
    record = Record(seen, asked, config, plan(seen, asked, config))
    read = from_bytes(to_bytes(record), "here")
    assert read == record
    assert replay(read) == record.plan
    assert replay(read.applying()) == record.plan


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"snapshot": {"epoch": 1}}', "null", '{"x": 1}'])
def test_invalid_records_are_refused(text: str) -> None:
    with pytest.raises(RecordError, match=r"^here: "):
        from_bytes(text.encode(), "here")


def test_a_record_of_arrays_as_earlier_is_read_and_one_of_other_arrays_refused() -> None:
    seen = snapshot(8, tenants=1, policies=2)
    record = Record(seen, EVERYBODY, Config(), plan(seen, EVERYBODY, Config()))
    line, _, arrays = to_bytes(record).partition(b"\n")
    told = json.loads(line)
    curves = told["snapshot"]["tenants"][0]["curves"]
    known = seen.tenants[0].curves
    assert known is not None
    for name in ("sizes_bytes", "miss_ratio"):
        array = dict(curves[name])
        values = getattr(known, name)
        in_base64 = {"base64": b64encode(values.tobytes()).decode()}
        earlier = {key: array[key] for key in ("kind", "shape")} | in_base64
        for one in (values.tolist(), earlier):
            curves[name] = one
            assert from_bytes(json.dumps(told).encode() + b"\n" + arrays, "here") == record
        outside = ({"at": -1}, {"at": len(arrays)}, {"shape": [-1]}, {"shape": [7]})
        for wrong in ({"kind": "O"}, *outside, {"base64": "-"}, {"base64": "AAAA"}):
            curves[name] = array | wrong
            with pytest.raises(RecordError, match=r"^here: "):
                from_bytes(json.dumps(told).encode() + b"\n" + arrays, "here")
        curves[name] = array


def test_the_order_of_tenants_does_not_matter_and_the_seed_does_where_chance_is_used() -> None:
    seen = snapshot(4, tenants=6, policies=2)
    backwards = replace(seen, tenants=seen.tenants[::-1])
    for name in ALLOCATORS:
        config = Config(allocator=name, movement_share=0.5)
        assert plan(backwards, EVERYBODY, config) == plan(seen, EVERYBODY, config)
        other = plan(seen, EVERYBODY, replace(config, seed=1))
        assert (other == plan(seen, EVERYBODY, config)) is (name != "annealing")


def test_floors_beyond_the_budget_are_refused_by_name() -> None:
    seen = snapshot(4, tenants=3, policies=2)
    small = replace(seen, node=replace(seen.node, budget_bytes=8 * MIB))
    with pytest.raises(InfeasibleError, match=r"node node: .* budget of 8 MiB"):
        plan(small, EVERYBODY, Config())


def test_limits_beyond_the_budget_shrink_at_once_and_it_is_said() -> None:
    seen = snapshot(4, tenants=3, policies=2)
    half = replace(seen, node=replace(seen.node, budget_bytes=seen.node.budget_bytes // 2))
    found = plan(half, EVERYBODY, Config())
    assert _limits(found) <= half.node.budget_bytes
    assert found.notes
    assert all(
        a.limit_bytes >= t.floor_bytes for a, t in zip(found.actions, seen.tenants, strict=True)
    )


def test_an_allocator_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="allowed: annealing, optimal, proportional, static"):
        plan(snapshot(1, 1, 1), EVERYBODY, Config(allocator="best"))


def test_an_empty_node_has_an_empty_plan() -> None:
    empty = replace(snapshot(1, 1, 1), tenants=())
    for name in ALLOCATORS:
        assert plan(empty, EVERYBODY, Config(allocator=name)).actions == ()


def _two(seen: Snapshot, cliff_mib: int) -> Snapshot:
    """Return two tenants of 100 MiB with a cliff at `cliff_mib`, in a budget of 200 MiB."""
    sizes = np.array([cliff_mib * MIB - 4096, cliff_mib * MIB])
    curves = Curves(("lru",), sizes, np.array([[1.0, 0.1]]))
    tenants = tuple(
        replace(t, policy="lru", limit_bytes=100 * MIB, floor_bytes=20 * MIB, curves=curves)
        for t in seen.tenants[:2]
    )
    node = replace(seen.node, budget_bytes=200 * MIB)
    return replace(seen, tenants=tenants, node=node)


def test_the_slo_of_the_higher_priority_is_met_if_only_one_fits() -> None:
    seen = _two(snapshot(2, 2, 1), cliff_mib=120)
    for winner, loser in ((0, 1), (1, 0)):
        asked = Objectives(
            (
                Objective(f"/t0000{winner}", hit_ratio=0.9, priority=5),
                Objective(f"/t0000{loser}", hit_ratio=0.9, weight=1000.0),
            )
        )
        found = plan(seen, asked, Config(movement_share=0.5))
        states = {slo.cgroup: slo.state for slo in found.slos}
        assert states == {
            f"/t0000{winner}": SloState.MET,
            f"/t0000{loser}": SloState.OUTBID,
        }
        assert found.actions[winner].limit_bytes >= 120 * MIB


def test_an_slo_beyond_the_bound_on_movement_is_approached_and_reached() -> None:
    seen = _two(snapshot(2, 2, 1), cliff_mib=130)
    asked = Objectives((Objective("/t00000", hit_ratio=0.9), Objective("*")))
    states = []
    for _ in range(4):
        found = plan(seen, asked, Config(movement_share=0.05))
        states.append(found.slos[0].state)
        seen = replace(
            seen,
            tenants=tuple(
                replace(tenant, limit_bytes=action.limit_bytes)
                for tenant, action in zip(seen.tenants, found.actions, strict=True)
            ),
        )
    assert states == [*[SloState.APPROACHING] * 2, *[SloState.MET] * 2]


def test_an_infeasible_slo_is_named_with_what_is_attainable() -> None:
    seen = _two(snapshot(2, 2, 1), cliff_mib=120)
    asked = Objectives((Objective("/t00000", throughput_ops=1e9), Objective("*")))
    slo = plan(seen, asked, Config(movement_share=0.5)).slos[0]
    demand = seen.tenants[0].demand
    time_us = demand.service_us + demand.accesses_per_op * 0.1 * seen.device.miss_cost_us
    assert slo.state is SloState.UNATTAINABLE
    assert slo.attainable_ops == pytest.approx(1e6 * demand.concurrency / time_us)
    assert "infeasible" in slo.why and f"{slo.attainable_ops:,.0f} ops/s" in slo.why


def test_a_latency_slo_is_met_only_where_latency_is_measured() -> None:
    seen = _two(snapshot(2, 2, 1), cliff_mib=120)
    asked = Objectives((Objective("/t00000", latency_p99_us=1.0), Objective("*")))
    assert plan(seen, asked, Config()).slos[0].state is SloState.UNKNOWN
    first = seen.tenants[0]
    slow = plan(seen, EVERYBODY, Config(allocator="static")).actions[0].throughput_ops
    readings = replace(first.indicators, latency_p99_us=1000.0, throughput_ops=slow)
    measured = replace(seen, tenants=(replace(first, indicators=readings), seen.tenants[1]))
    asked = Objectives((Objective("/t00000", latency_p99_us=900.0, priority=1), Objective("*")))
    found = plan(measured, asked, Config(movement_share=0.5))
    assert found.slos[0].state is SloState.MET
    assert found.actions[0].limit_bytes >= 120 * MIB


def test_least_memory_keeps_slos_and_what_others_have_with_less() -> None:
    seen = _two(snapshot(2, 2, 1), cliff_mib=60)
    asked = Objectives((Objective("/t00000", hit_ratio=0.9), Objective("*")), Goal.LEAST_MEMORY)
    found = plan(seen, asked, Config(movement_share=0.5))
    assert [action.limit_bytes for action in found.actions] == [60 * MIB, 60 * MIB]
    assert found.slos[0].state is SloState.MET


def test_least_memory_switches_where_there_is_no_room_to_stay() -> None:
    seen = _two(snapshot(2, 2, 1), cliff_mib=100)
    sizes = np.array([99, 100, 101]) * MIB
    curves = Curves(("lru", "lfu"), sizes, np.array([[1.0, 1.0, 0.1], [1.0, 0.1, 0.1]]))
    seen = replace(seen, tenants=tuple(replace(one, curves=curves) for one in seen.tenants))
    asked = Objectives((Objective("*", hit_ratio=0.9),), Goal.LEAST_MEMORY)
    found = plan(seen, asked, Config(movement_share=0.5))
    assert found.unallocated_bytes >= 0
    assert all(slo.state is SloState.MET for slo in found.slos)
