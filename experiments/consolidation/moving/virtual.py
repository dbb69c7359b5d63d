# SPDX-License-Identifier: Apache-2.0
"""Several simulated nodes in virtual time: all finish the same second before any of them goes on.

The controller runs in this process, the agents are the real program. They speak gRPC over loopback.
"""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from experiments.consolidation.moving.processes import Fleet

from cachepilot import agent
from cachepilot.api.fleet_service import ControlService
from cachepilot.api.main import Controller
from cachepilot.domain.objectives.pins import Pin
from cachepilot.domain.slos import GOAL
from cachepilot.fleet import server
from cachepilot.fleet.config import read_config
from cachepilot.fleet.moving.folder import FolderProvider
from cachepilot.fleet.moving.mover import Mover
from cachepilot.fleet.moving.provider import Provider
from cachepilot.node.loop import NodeLoop
from cachepilot.node.shown.readings import operations
from cachepilot.v1 import session_pb2 as wire

STALLED_S = 300.0
"""Time of this host after which a second that does not end is given up."""


class StalledError(Exception):
    """The nodes did not reach the end of the run. The message is one line."""


@dataclass(frozen=True)
class Look:
    """One tenant in one second: its node, its throughput, and whether its SLO was met."""

    time_s: float
    node: str
    ops: float | None
    met: bool | None
    limit_bytes: int


def judged(looks: Sequence[Look]) -> list[bool]:
    """Return whether the SLO was met, for the seconds in which it was evaluated."""
    return [one.met for one in looks if one.met is not None]


def is_missed(windows: Sequence[bool]) -> bool:
    """Return whether an SLO was met in too few windows.

    A tenant without windows stood still and missed it.
    """
    return not windows or sum(windows) < GOAL * len(windows)


@dataclass
class Clock:
    """The clock of the time of day.

    It starts at `begin_s` and runs `times` as fast as the nodes' clocks.

    The records of past needs are dated by it; `stretched` corrects pins, which would end too early
    by it. Nothing else is timed by it.
    """

    begin_s: float
    times: float
    first_s: float | None = None
    passed_s: float = 0.0

    def __call__(self) -> float:
        """Return seconds since 1970."""
        return self.begin_s + self.times * self.passed_s

    def to(self, nodes_s: float) -> None:
        """Advance to `nodes_s` of the nodes' clocks. The first call sets their origin."""
        self.first_s = nodes_s if self.first_s is None else self.first_s
        self.passed_s = nodes_s - self.first_s

    def stretched(self, pin: Pin) -> Pin:
        """Return a pin that lasts as long by the nodes' clocks as `pin` does by this one."""
        if pin.until_s is None:
            return pin
        now_s = self()
        return replace(pin, until_s=now_s + self.times * (pin.until_s - now_s))


@dataclass
class World:
    """What a script can use between two seconds, and everything measured so far."""

    controller: Controller
    mover: Mover
    service: ControlService
    clock: Clock | None = None
    now_s: float = 0.0
    looks: dict[str, list[Look]] = field(default_factory=dict)

    def take(self) -> None:
        """Record one second of every tenant."""
        for node, loop in self.controller.fleet.loops().items():
            report = loop.report
            if report is None:
                continue
            for cgroup, seen in report.collected.seen.items():
                slos = [one.met for one in report.slos.get(cgroup, ()) if one.met is not None]
                met = all(slos) if slos else None
                look = Look(self.now_s, node, operations(seen), met, seen.limit_bytes)
                self.looks.setdefault(cgroup, []).append(look)

    def between(self, cgroup: str, from_s: float, to_s: float) -> list[Look]:
        """Return the seconds of one tenant in a time range."""
        return [one for one in self.looks.get(cgroup, ()) if from_s < one.time_s <= to_s]

    def mean_ops(self, cgroup: str, from_s: float, to_s: float) -> float:
        """Return the mean operations per second; 0 if nothing was measured."""
        ops = [one.ops for one in self.between(cgroup, from_s, to_s) if one.ops is not None]
        return sum(ops) / len(ops) if ops else 0.0


Script = Callable[[World], Iterator[None]]
"""Generator that continues to its next `yield` after each second. The run ends when it ends."""


class _Seconds:
    """Wraps the loop of every node, so that cycles wait until all nodes have had their second."""

    def __init__(self, world: World, script: Script, count: int, done: asyncio.Event) -> None:
        self._world, self._steps, self._done = world, script(world), done
        self._event_loop = asyncio.get_running_loop()
        self._barrier = threading.Barrier(count, action=self._second)
        self._times: dict[str, float] = {}
        self._known: set[int] = set()
        self.error: BaseException | None = None

    def before(self, loop: NodeLoop) -> NodeLoop:
        """Return the same loop, changed so that its cycles wait for those of the other nodes."""
        if id(loop) in self._known:
            return loop
        self._known.add(id(loop))
        cycle = loop.cycle

        def together(seen: wire.Snapshot) -> wire.Plan:
            plan = cycle(seen)
            self._times[loop.name] = seen.time_us / 1e6
            if self.error is None and not self._done.is_set():
                self._barrier.wait(STALLED_S)
            return plan

        loop.cycle = together  # type: ignore[method-assign]
        return loop

    def _second(self) -> None:
        try:
            self._world.now_s = max(self._times.values())
            if self._world.clock is not None:
                self._world.clock.to(self._world.now_s)
            self._world.take()
            self._world.mover.tick()
            next(self._steps)
        except StopIteration:
            self._event_loop.call_soon_threadsafe(self._done.set)
        except BaseException as error:
            self.error = error
            self._event_loop.call_soon_threadsafe(self._done.set)


def _timed_by(clock: Clock, controller: Controller) -> None:
    """Stretch the pins of rollouts, so that they last as long by the nodes' clocks as usual."""
    hold_pins = controller.fleet.hold_pins

    def stretched(pins: Sequence[Pin], renewed_s: float) -> None:
        hold_pins([clock.stretched(pin) for pin in pins], clock.times * renewed_s)

    controller.fleet.hold_pins = stretched  # type: ignore[method-assign]


async def _play(
    fleet: Fleet, script: Script, provider: Provider | None, clock: Clock | None
) -> World:
    fleet.write()
    # All cycles wait for one another, so each needs a thread.
    server.WORKERS = max(server.WORKERS, len(fleet.nodes) + 1)
    config = read_config(fleet.folder / "controller.toml")
    controller = Controller(config, clock or time.time)
    if clock is not None:
        _timed_by(clock, controller)
    provider = provider or FolderProvider(fleet.workloads)
    mover = Mover(controller.fleet, provider, lambda: world.now_s)
    world = World(controller, mover, ControlService(controller.fleet, mover), clock)
    done = asyncio.Event()
    seconds = _Seconds(world, script, len(fleet.nodes), done)
    join = controller.fleet.join
    controller.fleet.join = lambda name: seconds.before(join(name))  # type: ignore[method-assign]
    # The controller's periodic tasks are not started, because they use the host's clock. The mover
    # takes its steps in `_Seconds`.
    await controller.server.start()
    agents = [await _start(fleet.folder, node.name) for node in fleet.nodes]
    try:
        await _finished(done, agents)
    finally:
        for one in agents:
            if one.returncode is None:
                one.kill()
            await one.wait()
        await controller.server.stop()
        controller.store.close()
    if seconds.error is not None:
        raise seconds.error
    return world


async def _start(folder: Path, name: str) -> asyncio.subprocess.Process:
    with (folder / f"agent-{name}.log").open("wb") as out:
        config = folder / f"{name}.toml"
        return await asyncio.create_subprocess_exec(
            agent.find(os.environ), "run", "--config", config, stdout=out, stderr=out
        )


async def _finished(done: asyncio.Event, agents: Sequence[asyncio.subprocess.Process]) -> None:
    waiting = asyncio.create_task(done.wait())
    ends = [asyncio.create_task(one.wait()) for one in agents]
    await asyncio.wait({waiting, *ends}, return_when=asyncio.FIRST_COMPLETED)
    if not done.is_set():
        waiting.cancel()
        raise StalledError("an agent ended too early: its log says why")
    for one in ends:
        one.cancel()


def play(
    fleet: Fleet, script: Script, provider: Provider | None = None, clock: Clock | None = None
) -> World:
    """Run a script to its end. Raises what it raises, and InputError when no agent was built."""
    # The errors that are logged when an agent is killed in the middle of a call are expected.
    logging.getLogger("grpc._cython.cygrpc").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    return asyncio.run(_play(fleet, script, provider, clock))
