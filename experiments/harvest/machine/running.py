# SPDX-License-Identifier: Apache-2.0
"""Makes one run in the virtual machine, with the controller on the host, and keeps every sample."""

import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.autopilot.children import Children
from experiments.autopilot.configs import Addresses, kernel_agent_lines, write_config
from experiments.autopilot.controller_client import ControllerClient
from experiments.autopilot.guest_machine import HOST_ADDRESS
from experiments.autopilot.measured.running import Watched, follow, start_controller
from experiments.autopilot.measured.world import Side, objectives
from experiments.autopilot.scenario import Device
from experiments.harvest.machine.streams import LIMIT_PAGES, Stream
from experiments.kernel_guest.compiled import program
from experiments.kernel_guest.guest_run import say
from experiments.shared.rows import commit, machine

from cachepilot import agent

NAME = "harvest"
SCRIPT = Path(__file__).resolve().parent / "guest.sh"
DEFAULT = "default"
AUTOPILOT = "autopilot"
LIMIT_BYTES = 4096 * LIMIT_PAGES
DISK_REQUESTS = 1024
"""Largest number of requests that the disk serves at once: far more than there are players."""
SETUP_SECONDS = 240.0


@dataclass(frozen=True)
class World:
    """Rounds of streams, each played for `seconds` by every side at once.

    `sides` are `default`, `autopilot`, and the policies that are pinned. A read of the disk takes
    `latency_us`, however many are in flight.
    """

    rounds: Sequence[Sequence[Stream]]
    sides: Sequence[str]
    seconds: int
    latency_us: int

    @property
    def players(self) -> int:
        """Largest number of streams that are played at once."""
        return len(self.sides) * max(map(len, self.rounds))


def orders(world: World, shared: Path, addresses: Addresses) -> dict[str, Any]:
    """Write the files for guest.sh, and return the orders for guest_machine.py."""
    told = []
    for number, streams in enumerate(world.rounds, start=1):
        for one in streams:
            told.append(f"{number} {one.name} {one.file_pages} {one.write(shared)}\n")
    (shared / "rounds").write_text("".join(told), "utf-8")
    kernels = (DEFAULT, AUTOPILOT)
    sides = [f"{side} {'-' if side in kernels else side}\n" for side in world.sides]
    (shared / "sides").write_text("".join(sides), "utf-8")
    url = f"http://{HOST_ADDRESS}:{addresses.grpc_port}"
    device = Device(0.0, DISK_REQUESTS, DISK_REQUESTS * 1_000_000 // world.latency_us)
    budget_bytes = LIMIT_BYTES * max(map(len, world.rounds))
    lines = kernel_agent_lines("guest", url, [f"{AUTOPILOT}/*"], budget_bytes, device)
    binary = agent.find(os.environ)
    environment = {
        "AGENT": str(binary),
        "AGENT_CONFIG": str(write_config(shared / "agent.toml", lines)),
        "PLAYER": str(program("play_stream")),
        "ROUNDS": str(shared / "rounds"),
        "SIDES": str(shared / "sides"),
        "LIMIT_BYTES": str(LIMIT_BYTES),
        "PLAY_SECONDS": str(world.seconds),
        "OUT": str(shared),
    }
    return {
        "script": str(SCRIPT),
        "iops": None,
        "latency_us": world.latency_us,
        "timeout_seconds": len(world.rounds) * (world.seconds + SETUP_SECONDS),
        "environment": agent.environment_for(binary, {}) | environment,
    }


def ticks(text: str, begin_s: float) -> list[list[float]]:
    """Return time, requests and reads of the whole disk for every second of the player's output."""
    found: list[list[float]] = []
    start_ns = 0
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        told = json.loads(line)
        if told["at"] == "start":
            start_ns = told["ns"]
        if told["at"] in ("start", "tick"):
            time_s = begin_s + (told["ns"] - start_ns) / 1e9
            found.append([time_s, told["accesses"], told["block_reads"]])
    return found


def _played(world: World, shared: Path) -> dict[str, Any]:
    """Return the player's ticks and the counters of cache_ext, by stream and side."""
    found: dict[str, Any] = {}
    for number, streams in enumerate(world.rounds, start=1):
        begin_s = float((shared / f"{number}.begin").read_text())
        for one in streams:
            sides = found[one.name] = {}
            for side in world.sides:
                counted = shared / f"{side}.{one.name}.cache_ext"
                text = (shared / f"{side}.{one.name}").read_text("utf-8", "replace")
                sides[side] = {
                    "ticks": ticks(text, begin_s),
                    "cache_ext": counted.read_text("utf-8") if counted.is_file() else "",
                }
    return found


def steered(world: World) -> Side:
    """Return the autopilot's side: limits stay fixed, and there are no SLOs."""
    stated = objectives(AUTOPILOT, {"*": {}})
    planner: Mapping[str, object] = {"movement_share": 0.0}
    return Side(AUTOPILOT, world.seconds, world.seconds / 2, stated, planner)


def run(world: World) -> dict[str, Any]:
    """Run a world in a guest, and return every sample.

    The folder with its logs is printed and kept.

    Raises ChildError when a part of it ended too early, InputError without an agent.
    """
    folder = Path(tempfile.mkdtemp(prefix="cachepilot-harvest-vm-"))
    shared = folder / "guest"
    shared.mkdir()
    say(f"{NAME}: files and logs in {folder}")
    began = time.time()
    side = steered(world)
    with ExitStack() as stack:
        children = stack.enter_context(Children(folder))
        addresses = start_controller(children, folder, side)
        told = json.dumps(orders(world, shared, addresses), indent=1)
        (shared / "guest.json").write_text(told + "\n", "utf-8")
        client = stack.enter_context(closing(ControllerClient(addresses.http_url)))
        watched = Watched(side, client)
        loads = follow(children, [watched], shared)
        decisions = [one.model_dump() for one in client.history()]
    return {
        "experiment": NAME,
        "commit": commit(),
        "machine": machine(),
        "began_s": began,
        "lasted_s": time.time() - began,
        "load": loads,
        "seconds": world.seconds,
        "latency_us": world.latency_us,
        "players": world.players,
        "requests": {one.name: len(one.pages) for part in world.rounds for one in part},
        "played": _played(world, shared),
        "looks": watched.looks,
        "details": watched.details,
        "decisions": decisions,
    }
