# SPDX-License-Identifier: Apache-2.0
"""Virtual machines as nodes, each with a real kernel. Tenants are files that can be moved."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from experiments.autopilot.children import Children, free_port
from experiments.autopilot.configs import Addresses, kernel_agent_lines, toml_lines, write_config
from experiments.autopilot.guest_machine import HOST_ADDRESS
from experiments.autopilot.scenario import Device
from experiments.consolidation.moving.processes import start_controller, write_controller
from experiments.workloads.ycsb import compiled

from cachepilot import agent

SCRIPT = Path(__file__).resolve().parent / "guest_node.sh"
INTERVAL_MS = 4000
"""Longer than the default: an emulated CPU stands still for fractions of a second, and a slow
device serves few reads in one.
"""
TIMEOUT_SECONDS = 3600.0


@dataclass(frozen=True)
class Program:
    """A YCSB client with its own database. Its cgroup is /fleet/NAME."""

    name: str
    arguments: str
    limit_bytes: int

    @property
    def cgroup(self) -> str:
        """Path of its cgroup below the mount point of the hierarchy."""
        return f"/fleet/{self.name}"

    def definition(self) -> str:
        """Return the text of the file that defines the tenant, which guest_node.sh reads."""
        values = {
            "cgroup": self.cgroup,
            "limit_bytes": self.limit_bytes,
            "arguments": self.arguments,
        }
        return "\n".join(toml_lines(values)) + "\n"


@dataclass
class Guests:
    """The files of the nodes in `folder`.

    `nodes` are the initial tenants of each node, by its name.
    """

    folder: Path
    nodes: Mapping[str, Sequence[Program]]
    budget_bytes: int
    device: Device
    records: int
    addresses: Addresses = field(default_factory=lambda: Addresses(free_port(), free_port()))

    @property
    def workloads(self) -> Path:
        """The folder that has, for each node, a folder with the definitions of its tenants."""
        return self.folder / "workloads"

    def write(self) -> None:
        """Write all files: definitions, objectives, configurations, orders."""
        (self.folder / "objectives.toml").write_text("", "utf-8")
        consolidation = {"folder": str(self.workloads), "headroom_hours": 0}
        write_controller(self.folder, self.addresses, consolidation, INTERVAL_MS)
        for node, programs in self.nodes.items():
            own = self.workloads / node
            own.mkdir(parents=True)
            for one in programs:
                (own / f"{one.name}.toml").write_text(one.definition(), "utf-8")
            self._guest(node)

    def _guest(self, node: str) -> None:
        shared = self.folder / node
        shared.mkdir()
        url = f"http://{HOST_ADDRESS}:{self.addresses.grpc_port}"
        lines = kernel_agent_lines(node, url, ["fleet/*"], self.budget_bytes, self.device)
        config = write_config(shared / "agent.toml", lines)
        program = agent.find(os.environ)
        names = [one.name for programs in self.nodes.values() for one in programs]
        orders = {
            "script": str(SCRIPT),
            "iops": self.device.iops,
            "latency_us": round(self.device.read_us),
            "timeout_seconds": TIMEOUT_SECONDS,
            "folders": [str(self.workloads)],
            "environment": agent.environment_for(program, {})
            | {
                "AGENT": str(program),
                "AGENT_CONFIG": str(config),
                "YCSB": str(compiled.program()),
                "TENANTS_DIR": str(self.workloads / node),
                "NAMES": " ".join(names),
                "RECORDS": str(self.records),
            },
        }
        (shared / "guest.json").write_text(json.dumps(orders, indent=1) + "\n", "utf-8")

    def start(self, children: Children) -> None:
        """Start the controller and the virtual machines."""
        start_controller(children, self.folder)
        for node in self.nodes:
            command = [sys.executable, "-m", "experiments.autopilot.guest_machine"]
            children.start(node, [*command, self.folder / node])
