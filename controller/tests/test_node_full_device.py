# SPDX-License-Identifier: Apache-2.0
"""A device that serves no more reads: by a plan reads wait less, and nobody has that yet."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import Curve, Plant, PlantTenant, scan
from experiments.control_loop.world import World

from cachepilot.domain.objectives.objective import Objective

GIB = 1 << 30
CLIFF = scan(11 * GIB, 0.05)
FULL, IDLE = 6000.0, 1e9


def node(path: Path, capacity_iops: float, taker: Curve) -> World:
    """One that may give 6 GiB, and another; both at their first memory."""
    tenants = [
        PlantTenant("/donor", {"default": scan(2 * GIB, 0.3)}, 8 * GIB, threads=4),
        PlantTenant("/taker", {"default": taker}, 8 * GIB, threads=4),
    ]
    sizes = tuple(GIB * size // 2 for size in (1, 2, 4, 8, 12, 16, 20, 22, 24, 32))
    plant = Plant(tenants, 16 * GIB, sizes, miss_cost_us=100.0, capacity_iops=capacity_iops)
    return World(path, plant, (Objective("*"),))


@pytest.mark.parametrize("capacity_iops", [IDLE, FULL])
def test_who_has_its_first_memory_spends_none_of_its_budget(
    tmp_path: Path, capacity_iops: float
) -> None:
    world = node(tmp_path, capacity_iops, CLIFF)
    world.run(20)
    assert [one.limit_bytes for one in world.plant.tenants] == [8 * GIB] * 2
    assert all(one.owed_s <= 0 for one in world.loop._decider.state.tenants.values())
