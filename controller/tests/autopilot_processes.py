# SPDX-License-Identifier: Apache-2.0
"""A real controller and a real agent whose node is simulated in virtual time."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from experiments.autopilot.children import free_port

from cachepilot import agent
from cachepilot.errors import InputError

DEADLINE_S = 40.0

KV = """
[[tenant]]
cgroup = "/t/kv"
concurrency = 2
accesses_per_op = 4
service_us = 400.0
limit_bytes = 16777216
phase = [{ source = { kind = "zipf", alpha = 0.9, pages = 15000 } }]
"""
LOOP = """
[[tenant]]
cgroup = "/t/loop"
concurrency = 2
accesses_per_op = 16
service_us = 800.0
limit_bytes = 16777216
phase = [{ source = { kind = "loop", pages = 6000 } }]
"""
NODE = """
pace = "virtual"
seed = 1
[device]
read_us = 90.0
parallelism = 32
iops = 20000
"""


def _binary() -> Path:
    try:
        return agent.find(os.environ)
    except InputError as error:
        pytest.skip(f"there is no agent: {error}")


class Autopilot:
    """A controller and an agent, as processes in one folder. Each can be killed and started again.

    `controller` is appended to the controller's configuration.
    """

    def __init__(
        self,
        folder: Path,
        objectives: str,
        tenants: str = KV + LOOP,
        metrics: str = "",
        node: str = NODE,
        controller: str = "",
    ) -> None:
        self.folder, self.binary = folder, _binary()
        ports = [free_port(), free_port()]
        self.address = f"127.0.0.1:{ports[1]}"
        self.http = httpx.Client(base_url=f"http://{self.address}/api/v1", timeout=10)
        listen = f'listen = "127.0.0.1:{ports[0]}"\nhttp = "127.0.0.1:{ports[1]}"\n'
        store = 'store = "c.db"\nobjectives = "objectives.toml"\n'
        (folder / "controller.toml").write_text(listen + store + controller)
        (folder / "objectives.toml").write_text(objectives)
        budget = sum(int(one) for one in re.findall(r"limit_bytes = (\d+)", tenants))
        (folder / "simulation.toml").write_text(f"budget_bytes = {budget}\n{node}{tenants}")
        (folder / "agent.toml").write_text(
            f'node = "n"\ncontroller = "http://127.0.0.1:{ports[0]}"\nkind = "simulated"\n'
            f'state_dir = "{folder / "agent"}"\nmetrics = "{metrics}"\nreconnect_max_ms = 100\n'
            '[simulated]\nfile = "simulation.toml"\n'
        )
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start `controller` or `agent`. Its output goes to a file."""
        command = {
            "controller": [sys.executable, "-m", "cachepilot.cli", "controller"],
            "agent": [str(self.binary)],
        }[name]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(
                [*command, "run", "--config", f"{name}.toml"],
                cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=agent.environment_for(self.binary, os.environ),
            )  # fmt: skip

    def kill(self, name: str) -> None:
        """Kill a process with SIGKILL, as the kernel does when memory runs out."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def get(self, path: str, **parameters: object) -> Any:
        """Return the answer of the HTTP interface; None if there is none."""
        with contextlib.suppress(httpx.TransportError):
            answer = self.http.get(path, params={k: str(v) for k, v in parameters.items()})
            if answer.status_code == 200:
                return answer.json()
        return None

    def node(self) -> dict[str, Any]:
        """Return the node, or a disconnected one if the controller shows none."""
        nodes = self.get("/nodes")
        return nodes[0] if nodes else {"epoch": 0, "connected": False}

    def tenants(self) -> dict[str, dict[str, Any]]:
        """Return the rows of the status table, by cgroup."""
        return {one["cgroup"]: one for one in self.get("/tenants") or ()}

    def history(self) -> list[dict[str, Any]]:
        """Return the decisions, oldest first."""
        return list(reversed(self.get("/history", limit=1000) or []))

    def until(self, done: Callable[[], object]) -> None:
        """Poll until `done` holds. Raises AssertionError with the logs after the deadline."""
        end = time.monotonic() + DEADLINE_S
        while not done():
            if time.monotonic() > end:
                logs = [path.read_text()[-1500:] for path in self.folder.glob("*.log")]
                raise AssertionError("not within the deadline\n" + "\n".join(logs))
            time.sleep(0.02)

    def pass_intervals(self, count: int) -> None:
        """Wait for so many control intervals, each of which is a second of the node."""
        first = self.node()["epoch"]
        self.until(lambda: self.node()["epoch"] >= first + count)

    def missed(self, intervals: int) -> dict[str, float]:
        """Return the mean miss ratio by cgroup over so many intervals, from polled rows."""
        found: dict[str, list[float]] = {}
        end = self.node()["epoch"] + intervals
        while self.node()["epoch"] < end:
            for cgroup, row in self.tenants().items():
                if row["hit_ratio"] is not None:
                    found.setdefault(cgroup, []).append(1 - row["hit_ratio"])
            time.sleep(0.01)
        return {cgroup: sum(all_) / len(all_) for cgroup, all_ in found.items()}
