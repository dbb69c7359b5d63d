# SPDX-License-Identifier: Apache-2.0
"""A device at its capacity: with a plan reads would wait less, and no tenant has that yet."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import Curve, Plant, PlantTenant, linear, scan
from experiments.control_loop.world import World

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.memory import step as memory
from cachepilot.decide.memory.interval import MemoryInterval
from cachepilot.decide.memory.state import MemoryState
from cachepilot.domain.decisions import Decision, Event
from cachepilot.domain.objectives.objective import Objective

GIB = 1 << 30
CLIFF = scan(11 * GIB, 0.05)
FULL, IDLE = 6000.0, 1e9


def node(path: Path, capacity_iops: float, taker: Curve) -> World:
    """Return a world of two tenants at their first memory. One of them may give 6 GiB."""
    tenants = [
        PlantTenant("/donor", {"default": scan(2 * GIB, 0.3)}, 8 * GIB, threads=4),
        PlantTenant("/taker", {"default": taker}, 8 * GIB, threads=4),
    ]
    sizes = tuple(GIB * size // 2 for size in (1, 2, 4, 8, 12, 16, 20, 22, 24, 32))
    plant = Plant(tenants, 16 * GIB, sizes, miss_cost_us=100.0, capacity_iops=capacity_iops)
    return World(path, plant, (Objective("*"),))


@pytest.mark.parametrize("capacity_iops", [IDLE, FULL])
def test_a_tenant_with_its_first_memory_spends_no_budget(
    tmp_path: Path, capacity_iops: float
) -> None:
    world = node(tmp_path, capacity_iops, CLIFF)
    world.run(20)
    assert [one.limit_bytes for one in world.plant.tenants] == [8 * GIB] * 2
    assert all(one.owed_s <= 0 for one in world.loop._decider.state.tenants.values())


@pytest.mark.parametrize("capacity_iops", [IDLE, FULL])
def test_no_tenant_gives_a_part_if_only_the_whole_plan_gains(
    tmp_path: Path, capacity_iops: float
) -> None:
    """Reads wait less beyond the cliff. A part of the way there spares the device nothing."""
    world = node(tmp_path, capacity_iops, CLIFF)
    world.run(60)
    assert world.events() == []


@pytest.mark.parametrize("capacity_iops", [IDLE, FULL])
def test_a_part_of_a_plan_gains_what_that_part_spares_the_device(
    tmp_path: Path, capacity_iops: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The budget allows a part. With it reads wait less, but longer than with the whole."""
    told, last, step = list[Decision](), list[MemoryInterval](), memory.step

    def spied(state: MemoryState, seen: MemoryInterval, config: DecideConfig) -> list[Decision]:
        last[:] = [seen]
        found = step(state, seen, config)
        told.extend(found)
        return found

    monkeypatch.setattr(memory, "step", spied)
    world = node(tmp_path, capacity_iops, linear(16 * GIB, most=0.6))
    while not any(one.event is Event.TRIAL for one in told):
        world.run(1)
        same = last[0].planned_at({name: one.limit_bytes for name, one in last[0].tenants.items()})
        for one in same.tenants.values():
            assert one.worth_planned == pytest.approx(one.worth_now, abs=1e-6)
    predicted = {one.cgroup: one.predicted.ops for one in told}
    world.run(60)
    done = {one.cgroup: one.measured.ops for one in told if one.event is Event.KEPT}
    assert done.keys() == predicted.keys()
    assert done == pytest.approx(predicted, rel=0.01)
