# SPDX-License-Identifier: Apache-2.0
"""Makes one run: controllers on the host, the guest with its agents; keeps all samples of both."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
from experiments.autopilot.children import ChildError, Children, free_port
from experiments.autopilot.configs import (
    INTERVAL_MS,
    Addresses,
    kernel_agent_lines,
    toml_lines,
    write_config,
)
from experiments.autopilot.controller_client import ControllerClient
from experiments.autopilot.guest_machine import HOST_ADDRESS
from experiments.autopilot.measured import record
from experiments.autopilot.measured.world import Side, World
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import commit, machine
from experiments.workloads.ycsb import compiled

from cachepilot import agent
from cachepilot.api.shapes.views import TenantView

SCRIPT = Path(__file__).resolve().parent / "guest.sh"
POLL_SECONDS = 0.5
DETAIL_SECONDS = 20.0
SETUP_SECONDS = 400.0
SIDE_SETUP_SECONDS = 60.0
NICE = -5
"""The guest's CPUs are emulated, so anything else that uses this machine's CPUs slows them."""


@dataclass
class Watched:
    """One side's controller, and what it has reported so far."""

    side: Side
    client: ControllerClient
    looks: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    details: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    decisions: list[dict[str, Any]] = field(default_factory=list)
    pinned: set[str] = field(default_factory=set)
    asked_s: float = 0.0

    def look(self) -> None:
        """Take one look.

        Policies that an operator pins are pinned as soon as the tenant appears.
        """
        nodes = {node.name: node for node in self.client.nodes() if node.connected}
        tenants = [one for one in self.client.tenants() if one.node in nodes]
        for tenant in tenants:
            name = tenant.cgroup.rpartition("/")[2]
            self._pin(name, tenant)
            series = self.looks.setdefault(name, [])
            time_s = nodes[tenant.node].last_seen_s
            if not series or time_s > series[-1]["time_s"]:
                series.append({"time_s": time_s, **_kept(tenant)})
        if tenants and time.monotonic() - self.asked_s > DETAIL_SECONDS:
            self.asked_s = time.monotonic()
            self._ask(tenants)

    def _pin(self, name: str, tenant: TenantView) -> None:
        policy = self.side.pins.get(name)
        if policy is not None and name not in self.pinned:
            self.client.pin(tenant.cgroup, policy)
            self.pinned.add(name)

    def _ask(self, tenants: list[TenantView]) -> None:
        for tenant in tenants:
            detail = self.client.detail(tenant.cgroup)
            name = tenant.cgroup.rpartition("/")[2]
            self.details.setdefault(name, []).append(detail.model_dump(exclude={"tenant"}))
        self.decisions = [one.model_dump() for one in self.client.history()]


def _kept(tenant: TenantView) -> dict[str, Any]:
    return {
        "policy": tenant.policy,
        "limit_bytes": tenant.limit_bytes,
        "floor_bytes": tenant.floor_bytes,
        "current_bytes": tenant.current_bytes,
        "file_bytes": tenant.file_bytes,
        "hit_ratio": tenant.hit_ratio,
        "throughput_ops": tenant.throughput_ops,
        "device_iops": tenant.device_iops,
        "latency_p99_us": tenant.latency_p99_us,
        "distrust": "" if tenant.trusted else tenant.distrust,
        "trial": tenant.trial is not None,
        "last": tenant.last_decision,
        "slos": [slo.model_dump() for slo in tenant.slos],
    }


def start_controller(children: Children, folder: Path, side: Side) -> Addresses:
    """Start the controller of a side. Its files are in `folder`."""
    addresses = Addresses(free_port(), free_port())
    objectives = folder / f"{side.name}.objectives.toml"
    objectives.write_text(side.objectives, "utf-8")
    values: dict[str, object] = {
        "listen": f"127.0.0.1:{addresses.grpc_port}",
        "http": f"127.0.0.1:{addresses.http_port}",
        "store": str(folder / f"{side.name}.db"),
        "objectives": str(objectives),
        "interval_ms": INTERVAL_MS,
        "planner": side.planner,
    }
    config = write_config(folder / f"{side.name}.controller.toml", toml_lines(values))
    cli = (sys.executable, "-m", "cachepilot.cli")
    children.start(f"controller-{side.name}", [*cli, "controller", "run", "--config", config])
    return addresses


def _orders(world: World, shared: Path, addresses: Mapping[str, Addresses]) -> dict[str, Any]:
    """Write the guest's files, and return the orders for guest_machine.py and guest.sh."""
    program = agent.find(os.environ)
    lines = []
    for side in world.sides:
        url = f"http://{HOST_ADDRESS}:{addresses[side.name].grpc_port}"
        config = kernel_agent_lines(
            side.name, url, [f"{side.name}/*"], world.budget_bytes, world.device
        )
        path = write_config(shared / f"{side.name}.agent.toml", config)
        lines.append(f"{side.name} {side.seconds} {path}\n")
    (shared / "sides").write_text("".join(lines), "utf-8")
    told = [f"{one.name} {one.kind} {one.arguments}\n" for one in world.tenants]
    (shared / "tenants").write_text("".join(told), "utf-8")
    seconds = sum(side.seconds + SIDE_SETUP_SECONDS for side in world.sides)
    environment = {
        "AGENT": str(program),
        "YCSB": str(compiled.program()),
        "TENANTS": str(shared / "tenants"),
        "SIDES": str(shared / "sides"),
        "LIMIT_BYTES": str(world.limit_bytes),
        "RECORDS": str(world.records),
        "SOURCES": world.sources,
        "OUT": str(shared),
    }
    return {
        "script": str(SCRIPT),
        "iops": world.iops,
        "timeout_seconds": SETUP_SECONDS + seconds,
        "environment": agent.environment_for(program, {}) | environment,
    }


def _prefer_session(pid: int) -> None:
    """Give the autogroup of the process a nice value.

    With autogroups, a process's own niceness counts only within its session (sched(7)).
    """
    group = Path(f"/proc/{pid}/autogroup")
    if group.exists():
        group.write_text(str(NICE))


def follow(children: Children, watched: list[Watched], shared: Path) -> list[list[float]]:
    """Follow the run until the guest ends well, and return the load of the host.

    Raises ChildError when anything ends otherwise.
    """
    program = (sys.executable, "-m", "experiments.autopilot.guest_machine", str(shared))
    guest = children.start("guest", ["nice", "-n", str(NICE), *program])
    _prefer_session(guest.process.pid)
    loads: list[list[float]] = []
    current = 0
    while guest.process.poll() != 0:
        children.check()
        if not loads or time.time() - loads[-1][0] > DETAIL_SECONDS:
            loads.append([time.time(), *os.getloadavg()])
        for number in range(current, min(current + 2, len(watched))):
            try:
                watched[number].look()
            except httpx.HTTPError:
                continue
            if watched[number].looks:
                current = number
        time.sleep(POLL_SECONDS)
    return loads


def _side(watched: Watched, shared: Path, world: World) -> dict[str, Any]:
    side = watched.side
    begin_s = float((shared / f"{side.name}.begin").read_text())
    operations = {}
    for tenant in world.tenants:
        text = (shared / f"{side.name}.{tenant.name}").read_text("utf-8", "replace")
        read = record.pass_totals if tenant.kind == "search" else record.ycsb_totals
        operations[tenant.name] = read(text, begin_s)
    states = shared / f"{side.name}.cache_ext"
    return {
        "begin_s": begin_s,
        "seconds": side.seconds,
        "window_s": side.window_s,
        "operations": operations,
        "looks": watched.looks,
        "details": watched.details,
        "decisions": [one.model_dump() for one in watched.client.history()],
        "cache_ext": states.read_text("utf-8") if states.is_file() else "",
    }


def run(world: World) -> dict[str, Any]:
    """Run a world in a guest, and return every sample.

    The folder with its logs is printed and kept.

    Raises ChildError when a part of it ended too early, InputError without an agent.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"cachepilot-{world.experiment}-"))
    shared = folder / "guest"
    shared.mkdir()
    say(f"{world.experiment}: files and logs in {folder}")
    began = time.time()
    with ExitStack() as stack:
        children = stack.enter_context(Children(folder))
        addresses = {side.name: start_controller(children, folder, side) for side in world.sides}
        orders = json.dumps(_orders(world, shared, addresses), indent=1)
        (shared / "guest.json").write_text(orders + "\n", "utf-8")
        watched = []
        for side in world.sides:
            client = ControllerClient(addresses[side.name].http_url)
            watched.append(Watched(side, stack.enter_context(closing(client))))
        loads = follow(children, watched, shared)
        sides = {one.side.name: _side(one, shared, world) for one in watched}
    return {
        "experiment": world.experiment,
        "commit": commit(),
        "machine": machine(),
        "began_s": began,
        "lasted_s": time.time() - began,
        "load": loads,
        "world": asdict(world),
        "sides": sides,
    }


__all__ = ["ChildError", "Watched", "follow", "run", "start_controller"]
