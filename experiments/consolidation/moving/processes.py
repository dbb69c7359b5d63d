# SPDX-License-Identifier: Apache-2.0
"""A controller and an agent per simulated node. Tenants are files that can be moved."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from experiments.autopilot.children import Child, Children, free_port
from experiments.autopilot.configs import Addresses, toml_lines, write_config

from cachepilot import agent


@dataclass(frozen=True)
class Tenant:
    """A tenant: the contents of its definition, and its SLO of throughput, if it has one."""

    cgroup: str
    source: Mapping[str, Any]
    limit_bytes: int
    service_us: float = 2000.0
    concurrency: int = 2
    accesses_per_op: int = 4
    floor_bytes: int | None = None
    throughput_ops: float | None = None

    def definition(self) -> str:
        """Return the text of the file that defines the tenant."""
        keys = ("cgroup", "limit_bytes", "service_us", "concurrency", "accesses_per_op")
        values = {key: getattr(self, key) for key in keys}
        if self.floor_bytes is not None:
            values["floor_bytes"] = self.floor_bytes
        source = ", ".join(toml_lines(self.source))
        return "\n".join([*toml_lines(values), f"phase = [{{ source = {{ {source} }} }}]"]) + "\n"

    def objective(self) -> str:
        """Return its entry in the objectives file."""
        lines = ["[[tenant]]", f'cgroup = "{self.cgroup}"']
        if self.throughput_ops is not None:
            lines.append(f"throughput_ops = {self.throughput_ops:g}")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Node:
    """A simulated node and its initial tenants."""

    name: str
    tenants: Sequence[Tenant]
    budget_bytes: int
    read_us: float = 400.0
    iops: int = 20_000
    seed: int = 1


def write_controller(
    folder: Path, addresses: Addresses, consolidation: Mapping[str, object], interval_ms: int
) -> None:
    """Write controller.toml. objectives.toml and the store are in the same folder."""
    top: dict[str, object] = {
        "listen": f"127.0.0.1:{addresses.grpc_port}",
        "http": f"127.0.0.1:{addresses.http_port}",
        "store": str(folder / "controller.db"),
        "objectives": str(folder / "objectives.toml"),
        "interval_ms": interval_ms,
    }
    moving = ["[consolidation]", *toml_lines(consolidation)]
    write_config(folder / "controller.toml", [*toml_lines(top), *moving])


def start_controller(children: Children, folder: Path) -> Child:
    """Start the controller whose configuration is in `folder`."""
    command = [sys.executable, "-m", "cachepilot.cli", "controller", "run", "--config"]
    return children.start("controller", [*command, folder / "controller.toml"])


@dataclass
class Fleet:
    """The files of a fleet in `folder`, and the start of its processes."""

    folder: Path
    nodes: Sequence[Node]
    interval_ms: int = 250
    pace: str = "real"
    options: Mapping[str, object] = field(default_factory=dict)
    """Options of the controller's section `consolidation`, besides the folder."""
    addresses: Addresses = field(default_factory=lambda: Addresses(free_port(), free_port()))

    @property
    def workloads(self) -> Path:
        """The folder that has, for each node, a folder with the definitions of its tenants."""
        return self.folder / "workloads"

    def write(self) -> None:
        """Write all files: definitions, objectives, configurations."""
        stated = [one.objective() for node in self.nodes for one in node.tenants]
        (self.folder / "objectives.toml").write_text("\n".join(stated), "utf-8")
        for node in self.nodes:
            own = self.workloads / node.name
            own.mkdir(parents=True)
            for tenant in node.tenants:
                name = tenant.cgroup.strip("/").replace("/", "-")
                (own / f"{name}.toml").write_text(tenant.definition(), "utf-8")
            self._agent(node)
        options = {"folder": str(self.workloads), **self.options}
        write_controller(self.folder, self.addresses, options, self.interval_ms)

    def _agent(self, node: Node) -> None:
        top = {
            "node": node.name,
            "controller": f"http://127.0.0.1:{self.addresses.grpc_port}",
            "kind": "simulated",
            "state_dir": str(self.folder / f"{node.name}.state"),
            "metrics": "",
            "reconnect_max_ms": 500,
        }
        simulated = {
            "budget_bytes": node.budget_bytes,
            "pace": self.pace,
            "seed": node.seed,
            "tenants_dir": str(self.workloads / node.name),
        }
        device = {"read_us": node.read_us, "parallelism": 32, "iops": node.iops}
        lines = [*toml_lines(top), "[simulated]", *toml_lines(simulated)]
        lines += ["[simulated.device]", *toml_lines(device)]
        write_config(self.folder / f"{node.name}.toml", lines)

    def start_controller(self, children: Children) -> Child:
        """Start the controller. It may be killed and started again."""
        return start_controller(children, self.folder)

    def start_agents(self, children: Children) -> None:
        """Start an agent per node. Raises InputError when no agent was built."""
        program = agent.find(os.environ)
        for node in self.nodes:
            config = self.folder / f"{node.name}.toml"
            children.start(f"agent-{node.name}", [program, "run", "--config", config])
