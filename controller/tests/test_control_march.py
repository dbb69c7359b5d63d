# SPDX-License-Identifier: Apache-2.0
"""Memory that goes straight to where it gains, and what happens meanwhile."""

from collections.abc import Callable
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear, scan
from experiments.control_loop.world import World

from cachepilot.api.shapes.questions import Pin
from cachepilot.control.memory_trial import MemoryTrial
from cachepilot.domain.decisions import Event
from cachepilot.domain.objectives.objective import Goal, Objective, Objectives
from cachepilot.sizes import pages_down, parse_size

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256, 384, 512))


def trial_of(world: World) -> MemoryTrial | None:
    return world.loop._guard.state.memory.trial


def under_way(tmp_path: Path) -> World:
    """Two donors on their way to what they keep at least, 50 MiB each, for one that gains much."""
    whole = PlantTenant("/whole", {"default": linear(190 * MIB)}, 100 * MIB)
    donors = [PlantTenant(f"/{i}", {"default": linear(600 * MIB)}, 100 * MIB) for i in range(2)]
    world = World(tmp_path, Plant([whole, *donors], 300 * MIB, SIZES))
    while trial_of(world) is None:
        world.run(1)
    world.run(2)
    assert 80 * MIB < world.plant.of("/0").limit_bytes < 90 * MIB
    return world


def least_of(world: World, cycles: int) -> float:
    """The lowest limit of the first donor, MiB."""
    found = []
    for _ in range(cycles):
        world.run(1)
        found.append(world.plant.of("/0").limit_bytes / MIB)
    return min(found)


def state_minimum(world: World) -> None:
    world.service.set_objective(Objective("/0", memory_min=parse_size("80MiB")))


def raise_floor(world: World) -> None:
    world.plant.of("/0").floor_bytes = 80 * MIB


def promise(world: World) -> None:
    """What it does with 78 MiB."""
    tenant = world.plant.of("/0")
    limit, tenant.limit_bytes = tenant.limit_bytes, 78 * MIB
    ops = world.plant.ops(tenant)
    tenant.limit_bytes = limit
    world.service.set_objective(Objective("/0", throughput_ops=ops))


@pytest.mark.parametrize(
    ("state", "least"), [(state_minimum, 80), (raise_floor, 80), (promise, 78)]
)
def test_what_is_stated_meanwhile_holds(
    tmp_path: Path, state: Callable[[World], None], least: int
) -> None:
    world = under_way(tmp_path)
    state(world)
    assert least_of(world, 60) >= least


def test_no_taker_gets_more_than_a_maximum_that_is_stated_meanwhile(tmp_path: Path) -> None:
    world = under_way(tmp_path)
    world.service.set_objective(Objective("/whole", memory_max=parse_size("140MiB")))
    for _ in range(30):
        world.run(1)
        assert world.plant.of("/whole").limit_bytes <= 140 * MIB


def test_memory_goes_back_when_who_was_to_get_it_is_gone(tmp_path: Path) -> None:
    world = under_way(tmp_path)
    world.plant.tenants.pop(0)
    world.run(int(world.config.guard.patience_s) + 10)
    assert [one.limit_bytes for one in world.plant.tenants] == [100 * MIB] * 2
    assert world.events("/0")[-1] == Event.ABANDONED


def test_nobody_gives_what_nobody_takes(tmp_path: Path) -> None:
    world = under_way(tmp_path)
    here = pages_down(world.plant.of("/whole").limit_bytes)
    world.service.pin(Pin(cgroup="/whole", limit_bytes=here))
    assert least_of(world, 20) >= 80


@pytest.mark.parametrize("phases", [0, 1])
def test_a_gain_that_is_a_lie_is_taken_back_in_another_phase_too(
    tmp_path: Path, phases: int
) -> None:
    """A neighbour's phase is enough for what all do together not to be compared any more."""
    whole = PlantTenant("/whole", {"default": linear(2000 * MIB)}, 100 * MIB)
    whole.told = {"default": scan(190 * MIB)}
    donors = [PlantTenant(f"/{i}", {"default": linear(110 * MIB)}, 100 * MIB) for i in range(2)]
    for one in donors:
        one.told = {"default": linear(600 * MIB, 0.0, 0.2)}
    aside = PlantTenant("/aside", {"default": linear(10 * MIB)}, 20 * MIB)
    world = World(tmp_path, Plant([whole, *donors, aside], 320 * MIB, SIZES))
    while trial_of(world) is None:
        world.run(1)
    world.run(3)
    aside.phase += phases
    world.run(60)
    assert Event.REVERTED in world.events("/0") and Event.KEPT not in world.events("/0")
    assert min(one.limit_bytes for one in donors) >= 95 * MIB


def test_where_the_least_memory_is_wanted_each_donor_is_judged(tmp_path: Path) -> None:
    liar = PlantTenant("/liar", {"default": linear(120 * MIB)}, 100 * MIB)
    liar.told = {"default": lambda _: 0.17}
    other = PlantTenant("/other", {"default": linear(30 * MIB)}, 100 * MIB)
    world = World(tmp_path, Plant([liar, other], 300 * MIB, SIZES))
    world.store.set_objectives(Objectives((Objective("*"),), Goal.LEAST_MEMORY))
    world.begin()
    world.run(30)
    assert world.events("/liar") == [Event.TRIAL, Event.REVERTED]
    assert liar.limit_bytes == 100 * MIB


def test_a_promise_that_is_missed_does_not_wait_for_others_to_arrive(tmp_path: Path) -> None:
    whole, promised = (
        PlantTenant(f"/{name}", {"default": linear(size * MIB)}, 60 * MIB)
        for name, size in (("whole", 190), ("promised", 60))
    )
    donors = [PlantTenant(f"/{i}", {"default": linear(900 * MIB)}, 140 * MIB) for i in range(2)]
    stated = (Objective("/promised", throughput_ops=8000.0), Objective("*"))
    world = World(tmp_path, Plant([whole, promised, *donors], 400 * MIB, SIZES), stated)
    while trial_of(world) is None:
        world.run(1)
    world.run(1)
    promised.change({"default": linear(100 * MIB)})
    missed = 0
    for _ in range(40):
        world.run(1)
        missed += world.plant.ops(promised) < 8000
    assert missed <= 14
