# SPDX-License-Identifier: Apache-2.0
"""Memory that is reserved for arriving tenants is not taken from a tenant by name."""

from pathlib import Path

from experiments.control_loop.plant import Plant, PlantTenant, linear
from experiments.control_loop.world import World

from cachepilot.domain.objectives.objective import Objective

MIB = 1 << 20
SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256))
FIRST = 128 * MIB


def test_a_node_makes_room_for_an_arriving_tenant_and_regains_it(tmp_path: Path) -> None:
    names = ("/web", "/db")
    tenants = [PlantTenant(one, {"default": linear(256 * MIB)}, FIRST) for one in names]
    plant = Plant(tenants, 2 * FIRST, SIZES)
    here = World(tmp_path, plant, (Objective("*"),))
    here.run(10)
    assert _held(plant) == 2 * FIRST
    here.loop.reserved = {"/guest": 64 * MIB}
    here.run(5)
    assert _held(plant) <= 2 * FIRST - 64 * MIB
    assert here.loop.report is not None and here.loop.report.collected.free_bytes == 0
    here.loop.reserved = {"/web": 64 * MIB}
    here.run(120)
    assert _held(plant) > 2 * FIRST - 64 * MIB, "one that is there has its own"


def _held(plant: Plant) -> int:
    return sum(plant.of(one).limit_bytes for one in ("/web", "/db"))
