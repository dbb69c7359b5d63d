# SPDX-License-Identifier: Apache-2.0
"""Starts a controller and two agents with simulated nodes, as processes of this machine."""

import os
import sys
from pathlib import Path

from experiments.autopilot.children import Children, free_port
from experiments.autopilot.configs import Addresses, controller_config, simulated_agent_config
from experiments.autopilot.scenario import Scenario
from experiments.autopilot.timeline import SIDES

from cachepilot import agent

READY_SECONDS = 60.0


def start_controller(children: Children, folder: Path, scenario: Scenario) -> Addresses:
    """Start a controller with the objectives of `scenario`. Its files are in `folder`."""
    addresses = Addresses(free_port(), free_port())
    objectives = folder / "objectives.toml"
    objectives.write_text(scenario.objectives(), "utf-8")
    config = controller_config(folder, addresses, objectives)
    cli = (sys.executable, "-m", "cachepilot.cli")
    children.start("controller", [*cli, "controller", "run", "--config", config])
    return addresses


def start(children: Children, folder: Path, scenario: Scenario) -> Addresses:
    """Start the controller and an agent per side. Files and logs are in `folder`.

    Raises InputError when no agent was built.
    """
    program = agent.find(os.environ)
    addresses = start_controller(children, folder, scenario)
    for side in SIDES:
        config = simulated_agent_config(folder, side, addresses, scenario)
        children.start(f"agent-{side}", [program, "run", "--config", config])
    return addresses
