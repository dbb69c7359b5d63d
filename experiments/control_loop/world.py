# SPDX-License-Identifier: Apache-2.0
"""Runs a simulated node (see `plant`) under the real control loop, in virtual time."""

from collections.abc import Sequence
from pathlib import Path

from cachepilot.api.fleet_service import ControlService
from cachepilot.decide.config import DecideConfig
from cachepilot.domain.objectives.objective import Goal, Objective, Objectives
from cachepilot.fleet.config import ControllerConfig
from cachepilot.fleet.fleet import Fleet
from cachepilot.store.store import Store

from .plant import Plant

EVERYBODY = (Objective("*"),)


class World:
    """A plant and a controller that share one virtual time."""

    def __init__(
        self,
        path: Path,
        plant: Plant,
        objectives: Sequence[Objective] = EVERYBODY,
        decide: DecideConfig | None = None,
        goal: Goal = Objectives.goal,
    ) -> None:
        self.path, self.plant = path / "controller.db", plant
        self.config = ControllerConfig(store=self.path, decide=decide or DecideConfig())
        self.store = Store(self.path)
        self.store.set_objectives(Objectives(tuple(objectives), goal))
        self.begin()

    def begin(self) -> None:
        """Start the controller, or start it again."""
        self.fleet = Fleet(self.config, self.store, lambda indicator: None)
        self.service = ControlService(self.fleet)
        self.loop = self.fleet.join("plant")
        self.plant.forget_session()
        self.loop.begin(self.plant.hello())

    def restart(self) -> None:
        """Restart the controller as after a kill: it writes nothing before it ends."""
        self.store.close()
        self.store = Store(self.path)
        self.begin()

    def restart_agent(self) -> None:
        """Kill the agent and start it again. The controller keeps running."""
        self.plant.restart_agent()
        self.loop.begin(self.plant.hello())

    def run(self, cycles: int) -> None:
        """Run this many control intervals."""
        for _ in range(cycles):
            self.plant.pass_time()
            plan = self.loop.cycle(self.plant.snapshot())
            ack = self.plant.apply(plan)
            if ack.refused:
                raise RuntimeError(ack.refused)
            self.loop.acknowledge(ack)
            self.loop.after()
            report = self.loop.report
            if report is None or report.plan is None:
                raise RuntimeError("no plan" if report is None else report.problem)

    def events(self, cgroup: str | None = None) -> list[str]:
        """Return the events of all decisions, oldest first."""
        return [one.event for one in reversed(self.service.history(cgroup))]
