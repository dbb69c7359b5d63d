# SPDX-License-Identifier: Apache-2.0
"""A user's own policy, which the agent does not simulate, in the control loop."""

from pathlib import Path
from typing import Any

from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat
from experiments.control_loop.world import World

SIZES = tuple(MIB * size for size in (32, 64, 128))


class Simulating(Plant):
    """A plant that simulates all policies except `mine`."""

    def _without(self, name: str, one: PlantTenant) -> Any:
        curves = one.curves
        one.curves = {key: curve for key, curve in curves.items() if key != "mine"}
        try:
            return getattr(Plant, name)(self, one)
        finally:
            one.curves = curves

    def _counterfactuals(self, one: PlantTenant) -> Any:
        return self._without("_counterfactuals", one)

    def _curves(self, one: PlantTenant) -> Any:
        return self._without("_curves", one)


def test_a_policy_that_the_agent_does_not_simulate_stays(tmp_path: Path) -> None:
    """In mode auto without a list of policies, the one in force is always allowed."""
    curves = {"default": flat(0.5), "lru": flat(0.5), "mine": flat(0.3)}
    tenant = PlantTenant("/a", curves, 64 * MIB)
    world = World(tmp_path, Simulating([tenant], 128 * MIB, SIZES))
    world.run(30)
    tenant.policy = "mine"
    world.run(660)
    assert tenant.policy == "mine", world.events()
