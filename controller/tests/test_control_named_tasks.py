# SPDX-License-Identifier: Apache-2.0
"""Every plan names the tasks that objectives name."""

from pathlib import Path

from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World

from cachepilot.domain.objectives.objective import Objective


def test_every_plan_names_the_tasks_that_objectives_name(tmp_path: Path) -> None:
    curves = {"default": linear(200 * MIB)}
    plant = Plant(
        [PlantTenant(cgroup, curves, 64 * MIB) for cgroup in ("/a", "/b/c", "/d")],
        192 * MIB,
        (8 * MIB, 64 * MIB, 256 * MIB),
    )
    world = World(tmp_path, plant)

    def told() -> list[tuple[str, list[str]]]:
        snapshot = plant.snapshot()
        ids = {tenant.cgroup: tenant.cgroup_id for tenant in snapshot.tenants}
        plan = world.loop.cycle(snapshot)
        assert all(one.cgroup_id == ids[one.cgroup] for one in plan.named_tasks)
        return [(one.cgroup, list(one.names)) for one in plan.named_tasks]

    assert told() == []
    names = ("rocksdb:low", "backup*")
    world.service.set_objective(Objective("/b/c", tasks=names))
    expected = [("/b/c", list(names))]
    assert told() == expected
    assert told() == expected, "with every plan, changed or not"
    world.service.set_objective(Objective("/b/c"))
    assert told() == []
