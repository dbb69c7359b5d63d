# SPDX-License-Identifier: Apache-2.0
"""First memory in the control loop: the limit at first sight, and the share that a tenant keeps."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from experiments.control_loop.plant import MIB, Curve, Plant, PlantTenant, flat, linear, power, scan
from experiments.control_loop.world import World

from cachepilot.api.shapes.questions import Pin
from cachepilot.domain.objectives.objective import Goal, Objective, Objectives
from cachepilot.node.deciding.first_memory import (
    AT_REST_CYCLES,
    grown_bytes,
    note_wish,
    set_by_operator,
)
from cachepilot.node.deciding.tenant_state import Recent
from cachepilot.sense.collect import Seen
from cachepilot.v1 import session_pb2 as wire

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 80, 96, 112, 128, 160, 192, 256, 384, 512))
SLO = Objective("/hungry", hit_ratio=0.78, priority=1)
"""Needs some 190 MiB."""
GOALS = pytest.mark.parametrize("goal", [Goal.PROPORTIONAL_FAIRNESS, Goal.TOTAL_THROUGHPUT])
CLIFF, GENTLE = scan(190 * MIB), linear(240 * MIB)


def world_of(
    tmp_path: Path,
    *stated: Objective,
    keep: float = 0.9,
    goal: Goal = Objectives.goal,
    curve: Curve = GENTLE,
) -> World:
    """Return a world of two tenants with 128 MiB each, of which `/hungry` has much to gain."""
    hungry = PlantTenant("/hungry", {"default": curve}, 128 * MIB, threads=64)
    donor = PlantTenant("/donor", {"default": linear(200 * MIB)}, 128 * MIB)
    plant = Plant([hungry, donor], 256 * MIB, SIZES)
    return World(tmp_path, plant, (*stated, Objective("*", keep=keep)), goal=goal)


def kept(world: World) -> float:
    """Return the donor's throughput at its present limit, divided by that at its first memory."""
    donor = world.plant.of("/donor")
    miss = donor.curves["default"]
    return (50 + 500 * miss(128 * MIB)) / (50 + 500 * miss(donor.limit_bytes))


def first_mib(world: World) -> float:
    """Return the donor's first memory, which must be the same in the store and in the plan."""
    stored = world.loop._decider.state.tenants["/donor"].held_first_bytes
    report = world.loop.report
    assert report is not None
    assert report.collected.seen["/donor"].tenant.first_bytes == stored
    return stored / MIB


@GOALS
@pytest.mark.parametrize(("keep", "is_kept"), [(0.9, True), (0.0, False)])
def test_a_donor_keeps_its_share(tmp_path: Path, goal: Goal, keep: float, is_kept: bool) -> None:
    world = world_of(tmp_path, keep=keep, goal=goal, curve=CLIFF)
    world.run(100)
    assert (kept(world) >= 0.9) is is_kept
    assert is_kept or kept(world) < 0.7


def test_a_donor_gives_down_to_its_keep_with_the_reason(tmp_path: Path) -> None:
    world = world_of(tmp_path, goal=Goal.TOTAL_THROUGHPUT)
    world.run(150)
    assert 0.9 <= kept(world) < 0.93
    why = world.service.tenant("/donor").why
    assert "keeps 90% of its throughput at its first memory of 128 MiB" in why


def test_an_slo_of_a_higher_priority_takes_it_and_it_comes_back_when_that_is_gone(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path, SLO)
    world.run(100)
    assert kept(world) < 0.7
    world.restart()
    world.run(2)
    assert first_mib(world) == 128
    world.service.set_objectives(Objectives((Objective("*"),)))
    world.run(200)
    assert kept(world) >= 0.88


def test_a_keep_of_a_higher_priority_stands_before_an_slo(tmp_path: Path) -> None:
    world = world_of(tmp_path, SLO, Objective("/donor", priority=2))
    world.run(100)
    assert kept(world) >= 0.9


def test_a_tenant_without_hits_gives_memory_that_others_gain_by(tmp_path: Path) -> None:
    tenants = [
        PlantTenant(name, {"default": curve}, 100 * MIB)
        for name, curve in (
            ("/flat", flat(1.0)),
            ("/one", power(16 * MIB, 0.8)),
            ("/two", power(16 * MIB, 0.8)),
        )
    ]
    world = World(tmp_path, Plant(tenants, 300 * MIB, SIZES))
    world.run(150)
    assert tenants[0].limit_bytes <= 51 * MIB
    assert all(one.limit_bytes > 115 * MIB for one in tenants[1:])


def test_a_limit_that_an_operator_sets_is_the_first_from_then_on(tmp_path: Path) -> None:
    world = world_of(tmp_path, SLO)
    world.run(3)
    assert first_mib(world) == 128
    donor = world.plant.of("/donor")
    donor.limit_bytes = donor.target_bytes = 40 * MIB
    world.run(4)
    assert first_mib(world) == 40
    world.restart()
    world.run(60)
    assert first_mib(world) == 40


def test_a_pinned_limit_leaves_the_first_memory_as_it_was(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.run(3)
    world.service.pin(Pin(cgroup="/donor", limit_bytes=MIB))
    world.run(40)
    assert world.plant.of("/donor").limit_bytes == MIB
    assert first_mib(world) == 128
    world.restart()
    world.run(2)
    assert first_mib(world) == 128


@GOALS
def test_an_unpinned_tenant_gets_the_memory_that_it_would_have_without_the_pin(
    tmp_path: Path, goal: Goal
) -> None:
    """Compare a world with a pin of one MiB for a minute with one without a pin."""
    (tmp_path / "pinned").mkdir()
    (tmp_path / "free").mkdir()
    world, free = (world_of(tmp_path / name, goal=goal) for name in ("pinned", "free"))
    world.run(3)
    world.service.pin(Pin(cgroup="/donor", limit_bytes=MIB))
    world.run(60)
    world.service.unpin("/donor")
    world.run(120)
    free.run(183)
    assert kept(world) >= 0.88
    limits = [one.plant.of("/donor").limit_bytes for one in (world, free)]
    assert abs(limits[0] - limits[1]) < 0.05 * limits[1]


def test_a_pinned_policy_keeps_the_floor_and_what_is_kept(tmp_path: Path) -> None:
    """The curve says that memory is useless to it. The floor bounds that, pinned or not."""
    for name, policy in (("free", None), ("pinned", "default")):
        (tmp_path / name).mkdir()
        world = world_of(tmp_path / name, curve=CLIFF)
        world.plant.of("/donor").told = {"default": linear(8 * MIB, 0.02)}
        world.run(1)
        if policy is not None:
            world.service.pin(Pin(cgroup="/donor", policy=policy))
        world.run(100)
        view = world.service.tenant("/donor").tenant
        assert view.pinned_policy == policy
        assert view.floor_bytes == 64 * MIB, name
        assert world.plant.of("/donor").limit_bytes >= 64 * MIB, name


def seen_at(limit: int, target: int = 0, initial: int = 0) -> Seen:
    told = wire.Tenant(
        limit_bytes=limit, target_limit_bytes=target or limit, initial_limit_bytes=initial
    )
    return cast("Seen", SimpleNamespace(wire=told, limit_bytes=limit))


@pytest.mark.parametrize(
    ("limit", "is_filling", "first"), [(0, True, 50), (0, False, 20), (60, True, 20)]
)
@pytest.mark.parametrize("initial", [0, 60])
def test_without_a_limit_the_first_memory_is_what_a_cache_holds_once_it_has_filled(
    limit: int, is_filling: bool, first: int, initial: int
) -> None:
    told = wire.Tenant(limit_bytes=limit, initial_limit_bytes=initial)
    seen = SimpleNamespace(wire=told, limit_bytes=50, is_filling=is_filling)
    assert grown_bytes(cast("Seen", seen), 20) == (20 if initial else first)


def test_steps_on_the_way_that_was_asked_for_and_ways_back_are_no_operators() -> None:
    recent = Recent(1)
    assert set_by_operator(recent, seen_at(100)) is None
    note_wish(recent, seen_at(100), 60)
    for limit, target in ((90, 60), (80, 60), (75, 75), (75, 75)):
        assert set_by_operator(recent, seen_at(limit, target)) is None
    for _ in range(AT_REST_CYCLES):
        assert set_by_operator(recent, seen_at(75)) is None
    note_wish(recent, seen_at(75), 85)
    for _ in range(2 * AT_REST_CYCLES):
        assert set_by_operator(recent, seen_at(85)) is None
    # The agent undoes a change, or restores the first limit.
    for limit in (75, 75, 100, 100):
        assert set_by_operator(recent, seen_at(limit, initial=100)) is None
    assert set_by_operator(recent, seen_at(50)) is None
    assert set_by_operator(recent, seen_at(50)) == 50
    assert set_by_operator(recent, seen_at(50)) is None
    assert set_by_operator(recent, seen_at(0)) is None
