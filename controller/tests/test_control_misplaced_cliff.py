# SPDX-License-Identifier: Apache-2.0
"""A loop whose sample is a little too small: it fits in the simulation and not in reality."""

from pathlib import Path

from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat
from experiments.control_loop.world import World

from cachepilot.domain.objectives.objective import Objective

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 128))


def test_a_policy_that_was_undone_by_such_a_simulation_is_back_soon(tmp_path: Path) -> None:
    """The default misses everything and LIRS a twentieth. Both are measured."""
    web = PlantTenant("/web", {"default": flat(1.0), "lirs": flat(0.05)}, 64 * MIB)
    here = World(tmp_path, Plant([web], 64 * MIB, SIZES), (Objective("*"),))
    here.run(60)
    assert web.policy == "lirs"
    web.told = {"default": flat(0.0)}
    under = []
    for _ in range(300):
        here.run(1)
        under.append(web.policy)
    assert under[-1] == "lirs" and "default" in under and under.count("default") < 60
