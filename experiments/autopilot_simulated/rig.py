# SPDX-License-Identifier: Apache-2.0
"""Runs the real control loop and the real agent on a simulated node in virtual time.

The controller runs in this process, so that every snapshot is available. The agent is the real
program, and they speak gRPC over loopback. Minutes of the node's time take seconds.
"""

import asyncio
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from experiments.autopilot.children import free_port
from experiments.autopilot.configs import toml_lines

from cachepilot import agent
from cachepilot.api.main import Controller
from cachepilot.api.shapes.views import DecisionView, TenantView
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.fleet.config import ControllerConfig
from cachepilot.node.loop import NodeLoop
from cachepilot.plan.problem.config import Config
from cachepilot.v1 import session_pb2 as wire

NODE = "node"
STALLED_SECONDS = 120.0
WINDOW_SECONDS_MIN = 0.5

Law = Callable[[wire.Snapshot, wire.Plan], wire.Plan]
"""Makes a plan from a snapshot, in place of the controller's plan."""


class RigError(Exception):
    """The node did not reach the end of its run. The message is one line."""


@dataclass(frozen=True)
class Tenant:
    """A tenant of the simulated node; `phases` are tables of its configuration."""

    cgroup: str
    limit_bytes: int
    phases: Sequence[Mapping[str, Any]]
    concurrency: int = 4
    accesses_per_op: int = 1
    service_us: float = 200.0


@dataclass(frozen=True)
class Setup:
    """A node, its tenants, and how long it runs in its own time."""

    tenants: Sequence[Tenant]
    budget_bytes: int
    seconds: float
    read_us: float = 400.0
    parallelism: int = 32
    iops: int = 20_000
    seed: int = 1


@dataclass(frozen=True)
class Look:
    """One tenant in one snapshot; totals count since the start."""

    time_s: float
    policy: str
    limit_bytes: int
    target_limit_bytes: int
    ops_total: int
    accesses_total: int
    misses_total: int
    trusted: bool
    current_bytes: int = 0


@dataclass(frozen=True)
class SloTold:
    """What the controller reported of one SLO after a snapshot."""

    time_s: float
    state: str
    predicted: float | None
    attainable_ops: float | None


def windows(looks: Sequence[Look]) -> list[float]:
    """Return operations per second of each interval."""
    return [
        (later.ops_total - one.ops_total) / (later.time_s - one.time_s)
        for one, later in pairwise(looks)
        if later.time_s - one.time_s >= WINDOW_SECONDS_MIN
    ]


@dataclass
class Run:
    """Results of a run: looks at each tenant by time, and decisions, oldest first."""

    looks: dict[str, list[Look]] = field(default_factory=dict)
    slos: dict[str, list[SloTold]] = field(default_factory=dict)
    decisions: list[DecisionView] = field(default_factory=list)
    tenants: list[TenantView] = field(default_factory=list)
    start_s: float = 0.0

    def throughput_ops(self, cgroup: str, from_s: float, to_s: float) -> float:
        """Return a tenant's operations per second between two times since the start."""
        first, last = self._between(cgroup, from_s, to_s)
        return (last.ops_total - first.ops_total) / (last.time_s - first.time_s)

    def miss_ratio(self, cgroup: str, from_s: float, to_s: float) -> float:
        """Return a tenant's miss ratio between two times since the start."""
        first, last = self._between(cgroup, from_s, to_s)
        accesses = last.accesses_total - first.accesses_total
        return (last.misses_total - first.misses_total) / max(accesses, 1)

    def _between(self, cgroup: str, from_s: float, to_s: float) -> tuple[Look, Look]:
        inside = [one for one in self.looks[cgroup] if from_s <= one.time_s <= to_s]
        if len(inside) < 2:
            raise RigError(f"{cgroup}: fewer than two observations from {from_s:g} s to {to_s:g} s")
        return inside[0], inside[-1]


def agent_config(setup: Setup, folder: Path, port: int) -> str:
    """Return the agent's configuration as text."""
    top = {
        "node": NODE,
        "controller": f"http://127.0.0.1:{port}",
        "kind": "simulated",
        "state_dir": str(folder / "agent"),
        "metrics": "",
    }
    node = {"budget_bytes": setup.budget_bytes, "pace": "virtual", "seed": setup.seed}
    device = {"read_us": setup.read_us, "parallelism": setup.parallelism, "iops": setup.iops}
    lines = [
        *toml_lines(top),
        "[simulated]",
        *toml_lines(node),
        "[simulated.device]",
        *toml_lines(device),
    ]
    for tenant in setup.tenants:
        lines += ["[[simulated.tenant]]"]
        plain = {name: value for name, value in vars(tenant).items() if name != "phases"}
        lines += toml_lines(plain)
        for phase in tenant.phases:
            lines += ["[[simulated.tenant.phase]]", *toml_lines(phase)]
    return "\n".join(lines) + "\n"


class _Recorder:
    """Wraps a node's loop and records what passes, until the node's time is over."""

    def __init__(self, run: Run, seconds: float, done: asyncio.Event, law: Law | None) -> None:
        self._run = run
        self._law = law
        self._seconds = seconds
        self._done = done
        self._event_loop = asyncio.get_running_loop()
        self._before: NodeLoop | None = None

    def before(self, loop: NodeLoop) -> NodeLoop:
        """Return the same loop, changed so that its snapshots are recorded. Threads call it."""
        if loop is self._before:
            return loop
        self._before = loop
        cycle = loop.cycle

        def recorded(seen: wire.Snapshot) -> wire.Plan:
            self._record(seen)
            plan = cycle(seen)
            self._hear(seen, loop)
            return plan if self._law is None else self._law(seen, plan)

        loop.cycle = recorded  # type: ignore[method-assign]
        return loop

    def _hear(self, seen: wire.Snapshot, loop: NodeLoop) -> None:
        since_s = seen.time_us / 1e6 - self._run.start_s
        slos = {} if loop.report is None else loop.report.slos
        for cgroup, told in slos.items():
            self._run.slos.setdefault(cgroup, []).extend(
                SloTold(since_s, one.state, one.predicted, one.attainable_ops) for one in told
            )

    def _record(self, seen: wire.Snapshot) -> None:
        now_s = seen.time_us / 1e6
        self._run.start_s = self._run.start_s or now_s
        since_s = now_s - self._run.start_s
        for one in seen.tenants:
            look = Look(
                since_s,
                one.policy,
                one.limit_bytes,
                one.target_limit_bytes,
                one.counters.read_calls_total,
                one.counters.accesses_total,
                one.counters.misses_total,
                one.trusted,
                one.current_bytes,
            )
            self._run.looks.setdefault(one.cgroup, []).append(look)
        if since_s >= self._seconds:
            self._event_loop.call_soon_threadsafe(self._done.set)


async def _play(
    setup: Setup, objectives: Objectives, planner: Config, folder: Path, law: Law | None
) -> Run:
    run, done = Run(), asyncio.Event()
    port = free_port()
    config = ControllerConfig(
        listen=f"127.0.0.1:{port}", store=folder / "controller.db", planner=planner
    )
    controller = Controller(config)
    controller.service.set_objectives(objectives)
    recorder = _Recorder(run, setup.seconds, done, law)
    join = controller.fleet.join
    controller.fleet.join = lambda name: recorder.before(join(name))  # type: ignore[method-assign]
    await controller.start()
    (folder / "agent").mkdir()
    path = folder / "agent.toml"
    path.write_text(agent_config(setup, folder, port), "utf-8")
    program = agent.find(os.environ)
    log = folder / "agent.log"
    with log.open("wb") as out:
        child = await asyncio.create_subprocess_exec(
            program, "run", "--config", path, stdout=out, stderr=out
        )
        try:
            await _finished(run, done, child, log)
            run.decisions = controller.service.history(limit=10_000)[::-1]
            run.tenants = controller.service.tenants()
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()
            await controller.stop()
    return run


async def _finished(
    run: Run, done: asyncio.Event, child: asyncio.subprocess.Process, log: Path
) -> None:
    """Wait until the node's time is over. Raises RigError when the agent ends or stalls."""
    waiting, ended = asyncio.create_task(done.wait()), asyncio.create_task(child.wait())
    seen = -1
    while not waiting.done():
        await asyncio.wait(
            {waiting, ended}, timeout=STALLED_SECONDS, return_when=asyncio.FIRST_COMPLETED
        )
        looks = sum(map(len, run.looks.values()))
        if not waiting.done() and (ended.done() or looks == seen):
            last = log.read_text("utf-8", "replace").strip().splitlines()[-3:]
            raise RigError(f"the agent did not end: {' / '.join(last)}")
        seen = looks
    ended.cancel()


def play(
    setup: Setup, objectives: Objectives, planner: Config | None = None, law: Law | None = None
) -> Run:
    """Run a node to its end. The same arguments give the same workload.

    The plan that `law` makes of each snapshot replaces the controller's. Raises InputError when no
    agent was built, RigError when it did not come to its end.
    """
    # The errors that are logged when an agent is killed in the middle of a call are expected.
    logging.getLogger("grpc._cython.cygrpc").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="cachepilot-rig-") as folder:
        config = planner or Config()
        return asyncio.run(_play(setup, objectives, config, Path(folder), law))
