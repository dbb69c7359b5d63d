# SPDX-License-Identifier: Apache-2.0
"""Starts the controller on the host, and the agent and tenants on the patched kernel in a guest."""

import json
import os
import sys
from pathlib import Path

from experiments.autopilot.children import Children
from experiments.autopilot.configs import Addresses, kernel_agent_config
from experiments.autopilot.embedded import start_controller
from experiments.autopilot.guest_machine import HOST_ADDRESS
from experiments.autopilot.scenario import Scenario
from experiments.workloads.ycsb import compiled

from cachepilot import agent

READY_SECONDS = 600.0
"""Time for the boot, two databases and copies of sources; an emulated CPU takes minutes."""
RECORDS = 40_000
SOURCES = "/usr/include/c++ /usr/include/linux /usr/include/x86_64-linux-gnu"


def orders(folder: Path, config: Path, scenario: Scenario) -> dict[str, object]:
    """Return the orders for the machine and for its script; see guest_tenants.sh."""
    program = agent.find(os.environ)
    environment = agent.environment_for(program, {})
    return {
        "iops": scenario.device.iops,
        "timeout_seconds": READY_SECONDS + 4 * scenario.seconds,
        "environment": environment
        | {
            "AGENT": str(program),
            "AGENT_CONFIG": str(config),
            "YCSB": str(compiled.program()),
            "SOURCES": SOURCES,
            "LIMIT_BYTES": str(scenario.equal_limit_bytes),
            "RUN_SECONDS": f"{scenario.seconds:.0f}",
            "CHANGE_SECONDS": f"{scenario.change_s:.0f}",
            "RECORDS": str(RECORDS),
        },
    }


def start(children: Children, folder: Path, scenario: Scenario) -> Addresses:
    """Start the controller and the machine. Raises InputError when no agent was built."""
    shared = folder / "guest"
    shared.mkdir()
    addresses = start_controller(children, folder, scenario)
    config = kernel_agent_config(shared, HOST_ADDRESS, addresses, scenario)
    told = json.dumps(orders(shared, config, scenario), indent=1)
    (shared / "guest.json").write_text(told + "\n", "utf-8")
    machine = "experiments.autopilot.guest_machine"
    children.start("guest", [sys.executable, "-m", machine, shared])
    return addresses
