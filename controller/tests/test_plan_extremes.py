# SPDX-License-Identifier: Apache-2.0
"""Amounts at and beyond the ends of their ranges: refused by name, or planned in bounds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from experiments.control_loop.instances import snapshot

from cachepilot.domain.json_values import RecordError
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.snapshot import TENANTS_MAX, Curves, SnapshotError
from cachepilot.domain.units import BYTES_MAX
from cachepilot.errors import InputError
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.config import Config
from cachepilot.plan.problem.limits import InfeasibleError
from cachepilot.plan.record import Record, from_bytes, to_bytes
from cachepilot.sizes import parse_size


@pytest.mark.parametrize("field", ["limit_bytes", "floor_bytes", "first_bytes"])
@pytest.mark.parametrize("amount", [-1, float("nan"), BYTES_MAX + 1, (1 << 63) - 4096])
def test_amounts_whose_sum_would_not_be_exact_are_refused(field: str, amount: Any) -> None:
    tenant = snapshot(1, 1, 1).tenants[0]
    with pytest.raises(SnapshotError, match=rf"^/t00000: {field} must be 0 to {BYTES_MAX}, not "):
        replace(tenant, **{field: amount})


@pytest.mark.parametrize("amount", [0, float("nan"), float("inf"), BYTES_MAX + 1])
def test_a_budget_out_of_range_is_refused(amount: Any) -> None:
    with pytest.raises(SnapshotError, match=rf"^node node: budget_bytes must be 1 to {BYTES_MAX}"):
        replace(snapshot(1, 1, 1).node, budget_bytes=amount)


def test_curves_and_numbers_of_tenants_have_an_end() -> None:
    with pytest.raises(SnapshotError, match=f"sizes_bytes must .* at most {BYTES_MAX}"):
        Curves(("lru",), np.array([BYTES_MAX + 1]), np.array([[0.5]]))
    seen = snapshot(1, 1, 1)
    with pytest.raises(SnapshotError, match=f"^node node: tenants must be at most {TENANTS_MAX}"):
        replace(seen, tenants=seen.tenants * (TENANTS_MAX + 1))


def test_the_greatest_limits_are_brought_within_the_budget() -> None:
    seen = snapshot(4, tenants=5, policies=2)
    seen = replace(seen, tenants=tuple(replace(t, limit_bytes=BYTES_MAX) for t in seen.tenants))
    found = plan(seen, Objectives((Objective("*"),)), Config())
    assert found.unallocated_bytes >= 0
    assert all(
        action.limit_bytes >= tenant.floor_bytes
        for action, tenant in zip(found.actions, seen.tenants, strict=True)
    )


@pytest.mark.parametrize("text", ["99999999TiB", "9" * 400])
def test_a_memory_max_beyond_all_memory_is_no_limit_and_such_a_memory_min_infeasible(
    text: str,
) -> None:
    seen = snapshot(4, tenants=3, policies=2)
    most = Objectives((Objective("*", memory_max=parse_size(text)),))
    assert plan(seen, most, Config()) == plan(seen, Objectives((Objective("*"),)), Config())
    with pytest.raises(InfeasibleError, match=r"node node: .* memory_min"):
        plan(seen, Objectives((Objective("*", memory_min=parse_size(text)),)), Config())


@pytest.mark.parametrize("name", ["throughput_ops", "latency_p99_us", "hit_ratio", "weight"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_an_objective_with_a_number_out_of_range_is_refused(name: str, value: float) -> None:
    wrong: dict[str, Any] = {name: value}
    with pytest.raises(InputError, match=rf"^objective /a: {name}: .*allowed: above 0 to "):
        Objective("/a", **wrong)


def test_a_record_with_a_share_that_is_no_number_is_refused() -> None:
    seen = snapshot(1, 1, 1)
    asked = Objectives((Objective("*", memory_min=parse_size("0.1")),))
    told = to_bytes(Record(seen, asked, Config(), plan(seen, asked, Config())))
    with pytest.raises(RecordError, match=r"^here: "):
        from_bytes(told.replace(b'"1/10"', b'"1/0"'), "here")


@pytest.mark.parametrize("capacity_iops", [1e12, 2000.0])
def test_the_attainable_throughput_says_whether_the_device_is_busy(capacity_iops: float) -> None:
    seen = snapshot(4, tenants=4, policies=2, capacity_iops=capacity_iops)
    asked = Objectives((Objective("/t00000", throughput_ops=1e9), Objective("*")))
    found = plan(seen, asked, Config())
    assert (found.device_wait_us > 0) is (capacity_iops < 1e12)
    assert ("as busy as planned" in found.slos[0].why) is (capacity_iops < 1e12)


def test_a_policy_that_cannot_be_obeyed_is_said() -> None:
    seen = snapshot(1, tenants=2, policies=1)
    asked = Objectives((Objective("/t00000", policies=("mglru",)), Objective("*")))
    found = plan(seen, asked, Config())
    assert found.actions[0].policy == seen.tenants[0].policy
    assert found.notes == (
        "/t00000: stays under policy0; allowed are mglru, but none of them has a curve",
    )
    two = snapshot(1, tenants=2, policies=2)
    other = next(name for name in ("policy0", "policy1") if name != two.tenants[0].policy)
    asked = Objectives((Objective("/t00000", policies=(other,)), Objective("*")))
    assert plan(two, asked, Config()).notes == ()
    three = snapshot(1, tenants=2, policies=3)
    others = {"policy0", "policy1", "policy2"} - {three.tenants[0].policy}
    asked = Objectives((Objective("/t00000", policies=tuple(sorted(others))), Objective("*")))
    assert "changes no policies" in plan(three, asked, Config(allocator="static")).notes[0]
