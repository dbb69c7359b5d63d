# SPDX-License-Identifier: Apache-2.0
"""Sessions over loopback: a real server, with agents that behave well or badly."""

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear

from cachepilot.api.main import Controller
from cachepilot.fleet import server as server_module
from cachepilot.fleet.config import ControllerConfig
from cachepilot.v1 import session_pb2 as wire

SIZES = tuple(MIB * size for size in (16, 64, 128, 256))
DEADLINE_S = 20.0


def plant() -> Plant:
    curves = {"default": linear(512 * MIB), "lfu": linear(200 * MIB)}
    return Plant([PlantTenant("/a", curves, 128 * MIB)], 128 * MIB, SIZES)


class Agent:
    """One scripted stream to the controller."""

    def __init__(self, port: int) -> None:
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
        method: Any = self.channel.stream_stream("/cachepilot.v1.Fleet/Session")
        self.call = method()

    async def say(self, raw: bytes | None = None, **message: Any) -> None:
        await self.call.write(raw or wire.AgentMessage(**message).SerializeToString())

    async def hear(self) -> wire.ControllerMessage:
        raw = await asyncio.wait_for(self.call.read(), DEADLINE_S)
        if raw is grpc.aio.EOF:
            raise EOFError(await self.call.details())
        return wire.ControllerMessage.FromString(raw)

    async def status(self) -> tuple[grpc.StatusCode, str]:
        """Return the status with which the controller ended the session."""
        code = await asyncio.wait_for(self.call.code(), DEADLINE_S)
        return code, await self.call.details()

    async def close(self) -> None:
        self.call.cancel()
        await self.channel.close()


@contextlib.asynccontextmanager
async def controller(path: Path) -> AsyncIterator[Controller]:
    config = ControllerConfig(listen="127.0.0.1:0", store=path / "c.db", lease_ms=7000)
    found = Controller(config)
    await found.start()
    try:
        yield found
    finally:
        await found.stop()


@contextlib.asynccontextmanager
async def agent(running: Controller) -> AsyncIterator[Agent]:
    found = Agent(running.server.port)
    try:
        yield found
    finally:
        await found.close()


async def begin(one: Agent, node: Plant) -> None:
    node.forget_session()
    await one.say(hello=node.hello())
    assert (await one.hear()).welcome.interval_ms == 1000


async def exchange(one: Agent, node: Plant) -> wire.Plan:
    node.pass_time()
    snapshot = node.snapshot()
    await one.say(snapshot=snapshot)
    plan = (await one.hear()).plan
    assert plan.snapshot == snapshot.sequence
    ack = node.apply(plan)
    assert not ack.refused
    await one.say(ack=ack)
    return plan


async def test_every_snapshot_is_answered_and_epochs_rise_over_restarts(tmp_path: Path) -> None:
    node = plant()
    node.epoch = 5000
    epochs = []
    for _ in range(2):
        async with controller(tmp_path) as running, agent(running) as one:
            await begin(one, node)
            for _ in range(5):
                plan = await exchange(one, node)
                assert plan.lease_ms == 7000
                epochs.append(plan.epoch)
            views = running.service.nodes()
            assert [(view.name, view.connected) for view in views] == [("plant", True)]
    assert epochs == sorted(set(epochs)) and epochs[0] > 5000


async def test_a_newer_session_of_a_node_takes_the_place_of_the_older(tmp_path: Path) -> None:
    node = plant()
    async with controller(tmp_path) as running, agent(running) as old, agent(running) as new:
        await begin(old, node)
        await exchange(old, node)
        await begin(new, node)
        code, details = await old.status()
        assert code is grpc.StatusCode.ABORTED and "newer session" in details
        await exchange(new, node)
        assert running.service.nodes()[0].connected


async def _until(reached: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + DEADLINE_S
    while not reached():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.01)


async def test_a_session_cut_off_while_it_displaces_another_locks_no_node_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, may_end, in_cycle = plant(), threading.Event(), threading.Event()
    async with controller(tmp_path) as running, agent(running) as old:
        await begin(old, node)
        loop, server = running.fleet.join("plant"), running.server
        planned = loop.cycle

        def slow(seen: wire.Snapshot) -> wire.Plan:
            in_cycle.set()
            may_end.wait(DEADLINE_S)
            return planned(seen)

        monkeypatch.setattr(loop, "cycle", slow)
        await old.say(snapshot=node.snapshot())
        await _until(in_cycle.is_set)
        first = server._sessions["plant"]
        async with agent(running) as displacing:
            await displacing.say(hello=node.hello())
            await _until(lambda: server._sessions["plant"] is not first)
        await _until(lambda: len(server._tasks) == 1)
        async with agent(running) as new:
            node.forget_session()
            await new.say(hello=node.hello())
            hearing = asyncio.ensure_future(new.hear())
            assert not (await asyncio.wait((hearing,), timeout=0.2))[0], "two sessions at once"
            may_end.set()
            assert (await hearing).welcome.interval_ms == 1000
            monkeypatch.undo()
            await exchange(new, node)


async def test_a_session_cut_off_while_it_ends_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, may_end, in_end = plant(), threading.Event(), threading.Event()
    async with controller(tmp_path) as running, agent(running) as new:
        async with agent(running) as old:
            await begin(old, node)
            loop = running.fleet.join("plant")
            end = loop.end

            def slow() -> None:
                in_end.set()
                may_end.wait(DEADLINE_S)
                end()

            monkeypatch.setattr(loop, "end", slow)
            node.forget_session()
            await new.say(hello=node.hello())
            await _until(in_end.is_set)
        hearing = asyncio.ensure_future(new.hear())
        assert not (await asyncio.wait((hearing,), timeout=0.2))[0], "two sessions at once"
        monkeypatch.undo()
        may_end.set()
        assert (await hearing).welcome.interval_ms == 1000
        await exchange(new, node)
        assert loop.connected


def _nan_device(snapshot: wire.Snapshot) -> None:
    snapshot.device.capacity_iops = float("nan")


def _twice(snapshot: wire.Snapshot) -> None:
    snapshot.tenants.append(snapshot.tenants[0])


def _torn_curves(snapshot: wire.Snapshot) -> None:
    del snapshot.tenants[0].curves.miss_ratio[3:]


def _relative(snapshot: wire.Snapshot) -> None:
    snapshot.tenants[0].cgroup = "a"


def _old(snapshot: wire.Snapshot) -> None:
    snapshot.sequence = 0


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (_nan_device, "capacity_iops"),
        (_twice, "twice"),
        (_torn_curves, "miss_ratio"),
        (_relative, "slash"),
        (_old, "sequence"),
    ],
)
async def test_a_bad_snapshot_ends_the_session_and_says_why(
    tmp_path: Path, spoil: Callable[[wire.Snapshot], None], named: str
) -> None:
    node = plant()
    async with controller(tmp_path) as running, agent(running) as one:
        await begin(one, node)
        snapshot = node.snapshot()
        spoil(snapshot)
        await one.say(snapshot=snapshot)
        code, details = await one.status()
        assert code is grpc.StatusCode.INVALID_ARGUMENT and named in details


async def test_invalid_sessions_are_refused(tmp_path: Path) -> None:
    async with controller(tmp_path) as running:
        for message in (
            {"raw": b"\xff\xff"},
            {"ack": wire.Ack(epoch=1)},
            {"hello": wire.Hello(node="")},
            {"hello": wire.Hello(node="n")},
        ):
            async with agent(running) as one:
                await one.say(**message)
                code, _ = await one.status()
                assert code is grpc.StatusCode.INVALID_ARGUMENT
        async with agent(running) as one:
            await one.say(raw=bytes(server_module.MESSAGE_MAX + 1))
            assert (await one.status())[0] is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_an_agent_that_says_nothing_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "HELLO_S", 0.05)
    async with controller(tmp_path) as running, agent(running) as one:
        code, _ = await one.status()
        assert code is grpc.StatusCode.DEADLINE_EXCEEDED
        monkeypatch.setattr(running.server, "_silence_s", 0.05)
        async with agent(running) as other:
            await begin(other, plant())
            assert (await other.status())[0] is grpc.StatusCode.DEADLINE_EXCEEDED


async def test_a_node_stays_known_after_its_agent_disconnects(tmp_path: Path) -> None:
    async with controller(tmp_path) as running:
        async with agent(running) as one:
            node = plant()
            await begin(one, node)
            await exchange(one, node)
        await _until(lambda: not running.service.nodes()[0].connected)
        assert running.service.tenants()[0].cgroup == "/a"


def test_a_controller_that_stops_waits_for_sessions_that_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The agent is killed in the middle of a cycle, and the controller is stopped at once."""
    node, may_end, in_cycle, ended = plant(), threading.Event(), threading.Event(), list[str]()

    async def killed() -> None:
        async with controller(tmp_path) as running:
            async with agent(running) as one:
                await begin(one, node)
                loop = running.fleet.join("plant")
                planned, end = loop.cycle, loop.end

                def slow(seen: wire.Snapshot) -> wire.Plan:
                    in_cycle.set()
                    assert may_end.wait(DEADLINE_S), "the event loop waits for a thread"
                    return planned(seen)

                def noted() -> None:
                    end()
                    ended.append(loop.name)

                monkeypatch.setattr(loop, "cycle", slow)
                monkeypatch.setattr(loop, "end", noted)
                await one.say(snapshot=node.snapshot())
                await _until(in_cycle.is_set)
            asyncio.get_running_loop().call_later(0.2, may_end.set)

    begun_s = time.monotonic()
    asyncio.run(killed())
    assert ended == ["plant"] and time.monotonic() - begun_s < DEADLINE_S
    assert "Traceback" not in capfd.readouterr().err
