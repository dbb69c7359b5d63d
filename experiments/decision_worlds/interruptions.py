# SPDX-License-Identifier: Apache-2.0
"""Interruptions at random times that are no reason to change anything."""

from collections.abc import Callable

import numpy as np
from experiments.control_loop.world import World

EVERY_S = 60.0
"""Mean time between two interruptions."""
GAP_MAX_S = 60
CLOCK_MAX_S = 3600.0


class Interruptions:
    """The interruptions of one kind in one run. The same seed gives the same times."""

    def __init__(self, name: str, seed: int) -> None:
        self._random = np.random.default_rng((seed, 7))
        self._does: Callable[[World], None] | None = DOES[name]
        self._name = name
        self._silent_until = 0
        self._next = self._later(0)
        self._threads: list[float] = []

    def _later(self, interval: int) -> int:
        return interval + 1 + int(self._random.exponential(EVERY_S))

    def is_silent(self, interval: int) -> bool:
        """Return whether no snapshot arrives in this interval."""
        return interval < self._silent_until

    def begin(self, world: World, interval: int) -> None:
        """Begin an interval: an interruption that is due now happens."""
        if interval < self._next:
            return
        self._next = self._later(interval)
        if self._name == "gaps":
            self._silent_until = interval + int(self._random.integers(1, GAP_MAX_S))
            self._next = self._later(self._silent_until)
        elif self._name == "load_steps":
            self._step_load(world)
        elif self._does is not None:
            self._does(world)
        elif self._name.startswith("clock"):
            by_s = float(self._random.uniform(1.0, CLOCK_MAX_S))
            world.plant.time_s += by_s if self._name == "clock_forward" else -by_s

    def _step_load(self, world: World) -> None:
        """Double or halve the threads of each tenant at random. The next call restores them."""
        tenants = world.plant.tenants
        if self._threads:
            for one, threads in zip(tenants, self._threads, strict=True):
                one.threads = threads
            self._threads = []
            return
        self._threads = [one.threads for one in tenants]
        for one, factor in zip(tenants, self._random.choice([0.5, 2.0], len(tenants)), strict=True):
            one.threads *= float(factor)


DOES: dict[str, Callable[[World], None] | None] = {
    "": None,
    "gaps": None,
    "load_steps": None,
    "clock_forward": None,
    "clock_back": None,
    "agent_restarts": World.restart_agent,
    "controller_restarts": World.restart,
}
