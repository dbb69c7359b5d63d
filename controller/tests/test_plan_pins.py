# SPDX-License-Identifier: Apache-2.0
"""Every allocator obeys pins in every mode, and a fixed setting never prevents a plan."""

from dataclasses import replace

import pytest
from experiments.control_loop.instances import MIB, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from cachepilot.domain.objectives.objective import Fixed, Goal, Mode, Objective, Objectives
from cachepilot.domain.objectives.pins import Pin, with_pins
from cachepilot.domain.planned import Held, SloState
from cachepilot.domain.snapshot import Trust
from cachepilot.errors import InputError
from cachepilot.plan.allocators import ALLOCATORS
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.config import Config
from cachepilot.plan.problem.limits import InfeasibleError
from cachepilot.plan.record import Record, from_bytes, replay, to_bytes
from cachepilot.sizes import pages_down

EVERYBODY = Objectives((Objective("*"),))
allocators = st.sampled_from(sorted(ALLOCATORS))


@settings(max_examples=30)
@given(
    st.integers(0, 10_000),
    st.integers(2, 6),
    allocators,
    st.sampled_from(sorted(Mode)),
    st.sampled_from(sorted(Goal)),
    st.sampled_from((1e12, 2000.0)),
    st.booleans(),
)
def test_a_pin_holds_exactly_for_every_allocator_in_every_mode(
    seed: int,
    tenants: int,
    allocator: str,
    mode: Mode,
    goal: Goal,
    capacity_iops: float,
    trusted: bool,
) -> None:
    seen = snapshot(seed, tenants, policies=3, capacity_iops=capacity_iops)
    first = replace(seen.tenants[0], trust=Trust(trusted, "too few samples"))
    seen = replace(seen, tenants=(first, *seen.tenants[1:]))
    others = sum(tenant.floor_bytes for tenant in seen.tenants[1:])
    room = seen.node.budget_bytes - others
    limit = pages_down(max(first.floor_bytes, seed * 12345 * 4096 % room) + 4096)
    policy = f"policy{seed % 3}"
    asked = Objectives((Objective("/t00000", mode=mode), Objective("*")), goal)
    pinned = with_pins(asked, [Pin(cgroup="/t00000", policy=policy, limit_bytes=limit)], "node")
    found = plan(seen, pinned, Config(allocator=allocator))
    action = found.actions[0]
    assert (action.policy, action.limit_bytes) == (policy, limit)
    assert action.present.policy == first.policy
    total = sum(one.limit_bytes for one in found.actions)
    assert total + found.unallocated_bytes == seen.node.budget_bytes
    record = from_bytes(to_bytes(Record(seen, pinned, Config(allocator=allocator), found)), "here")
    assert record.objectives == pinned
    assert replay(record) == found


@pytest.mark.parametrize("allocator", sorted(ALLOCATORS))
def test_one_policy_allowed_is_a_pin_for_every_allocator(allocator: str) -> None:
    seen = snapshot(1, tenants=3, policies=3)
    other = next(name for name in ("policy0", "policy1") if name != seen.tenants[0].policy)
    asked = Objectives((Objective("/t00000", policies=(other,)), Objective("*")))
    found = plan(seen, asked, Config(allocator=allocator))
    assert found.actions[0].policy == other
    assert found.notes == ()
    if allocator != "optimal":
        kept = [one.policy for one in found.actions[1:]]
        assert kept == [tenant.policy for tenant in seen.tenants[1:]]


def test_a_pinned_policy_leaves_the_limit_to_the_mode() -> None:
    seen = snapshot(3, tenants=2, policies=2)
    pin = Pin(cgroup="/t00000", policy="policy1")
    left = with_pins(Objectives(()), [pin], "node")
    found = plan(seen, left, Config()).actions[0]
    assert (found.policy, found.limit_bytes) == ("policy1", seen.tenants[0].limit_bytes)
    free = plan(seen, with_pins(EVERYBODY, [pin], "node"), Config(movement_share=1.0)).actions[0]
    assert free.policy == "policy1"
    assert free.limit_bytes != seen.tenants[0].limit_bytes


def test_pins_of_this_node_come_before_those_of_all_and_others_do_not_count() -> None:
    pins = [
        Pin(cgroup="/a", node="here", policy="lfu"),
        Pin(cgroup="/a", policy="lru", limit_bytes=8 * MIB),
        Pin(cgroup="/a", node="there", limit_bytes=4 * MIB),
        Pin(cgroup="/b", node="there", policy="lru"),
    ]
    asked = with_pins(Objectives((Objective("/a", weight=3.0),)), pins, "here")
    assert asked.of("/a").fixed == Fixed("lfu", 8 * MIB)
    assert asked.of("/a").weight == 3.0
    assert asked.of("/b").fixed is None
    assert with_pins(asked, [], "here") == asked


def test_a_pin_names_one_cgroup_and_is_no_glob() -> None:
    asked = with_pins(EVERYBODY, [Pin(cgroup="/a[12]*", policy="lru")], "node")
    assert asked.of("/a[12]*").fixed == Fixed("lru", None)
    assert asked.of("/a1").fixed is None


@pytest.mark.parametrize("limit_bytes", [0, -4096, 4095, 4097, 1 << 60])
def test_a_limit_that_cannot_be_pinned_is_refused(limit_bytes: int) -> None:
    with pytest.raises(InputError, match=r"^pin /a: limit_bytes: .*allowed: whole pages"):
        with_pins(EVERYBODY, [Pin(cgroup="/a", limit_bytes=limit_bytes)], "node")


def test_a_pin_below_the_floor_gives_the_floor_and_says_so() -> None:
    seen = snapshot(4, tenants=3, policies=2)
    asked = with_pins(EVERYBODY, [Pin(cgroup="/t00001", limit_bytes=4096)], "node")
    found = plan(seen, asked, Config())
    assert found.actions[1].limit_bytes == seen.tenants[1].floor_bytes
    assert any("/t00001: pinned to 4 KiB" in note and "its floor" in note for note in found.notes)


def test_pins_beyond_the_budget_get_what_the_others_leave() -> None:
    seen = snapshot(4, tenants=3, policies=2)
    budget = seen.node.budget_bytes
    asked = with_pins(EVERYBODY, [Pin(cgroup="/t00001", limit_bytes=2 * budget)], "node")
    found = plan(seen, asked, Config())
    for i in (0, 2):
        assert found.actions[i].limit_bytes == seen.tenants[i].floor_bytes
    assert 0 <= found.unallocated_bytes < 4096 * 3
    assert "exceed the capacity by" in found.notes[0]
    assert "all that fits" in found.notes[1]


def test_a_policy_without_a_curve_can_be_pinned_and_is_not_predicted() -> None:
    seen = snapshot(4, tenants=2, policies=2)
    asked = with_pins(EVERYBODY, [Pin(cgroup="/t00000", policy="mglru")], "node")
    action = plan(seen, asked, Config()).actions[0]
    assert (action.policy, action.held) == ("mglru", Held.UNKNOWN_POLICY)
    assert action.limit_bytes == seen.tenants[0].limit_bytes
    assert action.miss_ratio == seen.tenants[0].indicators.miss_ratio
    assert "pinned; " in action.why and "no curve of its pinned policy, mglru" in action.why


def test_an_slo_that_a_pin_forbids_is_held() -> None:
    seen = snapshot(4, tenants=2, policies=2)
    least = seen.tenants[0].floor_bytes
    asked = Objectives((Objective("/t00000", throughput_ops=1e9), Objective("*")))
    pinned = with_pins(asked, [Pin(cgroup="/t00000", limit_bytes=least)], "node")
    assert plan(seen, pinned, Config()).slos[0].state is SloState.HELD


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(2, 7), st.floats(0.05, 0.99), allocators)
def test_fixed_settings_may_exceed_the_budget_and_the_others_share_the_rest(
    seed: int, tenants: int, part: float, allocator: str
) -> None:
    seen = snapshot(seed, tenants, policies=2)
    total = sum(tenant.limit_bytes for tenant in seen.tenants)
    floors = sum(tenant.floor_bytes for tenant in seen.tenants[1:])
    budget = max(floors, int(total * part))
    seen = replace(seen, node=replace(seen.node, budget_bytes=budget))
    asked = Objectives((Objective("/t00000", mode=Mode.OBSERVE), Objective("*")))
    found = plan(seen, asked, Config(allocator=allocator))
    assert found.actions[0].limit_bytes == seen.tenants[0].limit_bytes
    over = seen.tenants[0].limit_bytes + floors - budget
    for tenant, action in zip(seen.tenants[1:], found.actions[1:], strict=True):
        assert action.limit_bytes >= tenant.floor_bytes
        assert over <= 0 or action.limit_bytes <= tenant.limit_bytes
    assert any("exceed the capacity by" in note for note in found.notes) is (over > 0)
    total = sum(action.limit_bytes for action in found.actions)
    assert total <= max(budget, budget + over)
    assert found.unallocated_bytes == max(0, budget - total)


def test_only_floors_that_cannot_fit_stop_a_plan() -> None:
    seen = snapshot(4, tenants=3, policies=2)
    asked = Objectives((Objective("/t00000", mode=Mode.OBSERVE), Objective("*")))
    floors = sum(tenant.floor_bytes for tenant in seen.tenants[1:])
    exact = replace(seen, node=replace(seen.node, budget_bytes=floors))
    found = plan(exact, asked, Config())
    assert sum(action.limit_bytes for action in found.actions[1:]) == floors
    tight = replace(seen, node=replace(seen.node, budget_bytes=floors - 1))
    with pytest.raises(InfeasibleError, match="node node: tenants must have"):
        plan(tight, asked, Config())


@pytest.mark.parametrize("allocator", sorted(ALLOCATORS))
def test_a_tenant_without_curves_is_held_and_may_be_pinned(allocator: str) -> None:
    seen = snapshot(4, tenants=3, policies=2)
    blind = replace(seen.tenants[0], curves=None, trust=Trust(False, "nothing sampled yet"))
    seen = replace(seen, tenants=(blind, *seen.tenants[1:]))
    config = Config(allocator=allocator)
    found = plan(seen, EVERYBODY, config)
    action = found.actions[0]
    assert action.held is Held.NO_CURVES
    assert (action.policy, action.limit_bytes) == (blind.policy, blind.limit_bytes)
    assert action.why == "unchanged: there are no curves yet: nothing sampled yet"
    record = Record(seen, EVERYBODY, config, found)
    assert from_bytes(to_bytes(record), "here") == record
    pin = Pin(cgroup="/t00000", policy="lfu", limit_bytes=blind.floor_bytes + 4096)
    pinned = plan(seen, with_pins(EVERYBODY, [pin], "node"), config).actions[0]
    assert (pinned.policy, pinned.limit_bytes) == ("lfu", blind.floor_bytes + 4096)
    alone = replace(seen, tenants=(blind,))
    assert plan(alone, EVERYBODY, config).actions[0].held is Held.NO_CURVES
