# SPDX-License-Identifier: Apache-2.0
"""A second agent with the name of a node is refused and shown while the first is alive."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from autopilot_processes import KV, Autopilot
from test_fleet_server import _until, agent, begin, controller, exchange, plant

from cachepilot.fleet import rivals as rivals_module
from cachepilot.fleet.sessions import NameTakenError, Session, Sessions
from cachepilot.v1 import session_pb2 as wire

SILENCE_S = 5.0


@pytest.fixture
def pilot(tmp_path: Path) -> Iterator[Autopilot]:
    found = Autopilot(tmp_path, '[[tenant]]\ncgroup = "*"\n', KV)
    found.start("controller")
    found.until(lambda: found.get("/nodes") is not None)
    found.start("agent")
    found.until(found.tenants)
    yield found
    for name in list(found.running):
        found.kill(name)
    found.http.close()


def _start_second(pilot: Autopilot) -> None:
    """Start another agent of the same name, with its own state folder, as on another host."""
    text = (pilot.folder / "agent.toml").read_text()
    other = text.replace(f'"{pilot.folder / "agent"}"', f'"{pilot.folder / "other"}"')
    (pilot.folder / "second.toml").write_text(other)
    with (pilot.folder / "second.log").open("ab") as log:
        pilot.running["second"] = subprocess.Popen(
            [str(pilot.binary), "run", "--config", "second.toml"],
            cwd=pilot.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
        )  # fmt: skip


def _taken(pilot: Autopilot) -> list[dict[str, str]]:
    return [one for one in pilot.node().get("conditions", ()) if one["kind"] == "name_taken"]


def test_a_second_agent_is_refused_shown_and_takes_over_at_the_end(
    pilot: Autopilot,
) -> None:
    _start_second(pilot)
    pilot.until(lambda: _taken(pilot))
    assert "second agent" in _taken(pilot)[0]["message"]
    began = (pilot.folder / "controller.log").read_text().count("a session began")
    pilot.pass_intervals(300)
    time.sleep(1.0)
    log = (pilot.folder / "controller.log").read_text()
    assert log.count("a session began") == began == 1, "they displace each other"
    assert log.count("second agent") == 1 and pilot.node()["connected"]
    refused = (pilot.folder / "second.log").read_text()
    assert "another agent has a session in this name" in refused

    pilot.kill("agent")
    pilot.until(lambda: "session with the controller" in (pilot.folder / "second.log").read_text())


def _goes_on(pilot: Autopilot, epoch: int) -> None:
    pilot.until(lambda: pilot.node()["connected"] and pilot.node()["epoch"] > epoch)


def test_an_agent_that_was_killed_takes_its_name_again_at_once(pilot: Autopilot) -> None:
    for _ in range(3):
        epoch = pilot.node()["epoch"]
        pilot.pass_intervals(3)
        pilot.kill("agent")
        pilot.start("agent")
        _goes_on(pilot, epoch + 3)
    assert not _taken(pilot)
    assert "another agent" not in (pilot.folder / "agent.log").read_text()


async def test_the_second_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    node, other = plant(), plant()
    async with controller(tmp_path) as running, agent(running) as first:
        await begin(first, node)
        await exchange(first, node)
        hello = other.hello()
        hello.incarnation = 77
        for _ in range(3):
            async with agent(running) as second:
                await second.say(hello=hello)
                code, details = await second.status()
                assert code is grpc.StatusCode.ALREADY_EXISTS
                assert "another agent has a session" in details and "`node`" in details
        await exchange(first, node)
        view = running.service.nodes()[0]
        assert view.connected and [one.kind for one in view.conditions] == ["name_taken"]
        await first.call.done_writing()
        await _until(lambda: not running.service.nodes()[0].connected)
        async with agent(running) as second:
            await second.say(hello=hello)
            assert (await second.hear()).welcome.interval_ms == 1000


async def test_a_restarted_agent_with_the_last_epoch_takes_over_at_once(
    tmp_path: Path,
) -> None:
    node = plant()
    async with controller(tmp_path) as running, agent(running) as first:
        await begin(first, node)
        plan = await exchange(first, node)
        await _until(lambda: running.server._sessions["plant"].acked_epoch == plan.epoch)
        hello = node.hello()
        hello.incarnation, hello.last_epoch = 77, plan.epoch
        async with agent(running) as again:
            await again.say(hello=hello)
            assert (await again.hear()).welcome.interval_ms == 1000
            assert (await first.status())[0] is grpc.StatusCode.ABORTED
        assert not running.service.nodes()[0].conditions


class _Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def _hello(incarnation: int, last_epoch: int = 0) -> wire.Hello:
    return wire.Hello(node="n", incarnation=incarnation, last_epoch=last_epoch)


def _entered() -> tuple[Sessions, _Clock, Session]:
    clock = _Clock()
    sessions = Sessions(SILENCE_S, clock)
    first = sessions.enter(_hello(1), "a")
    first.acked_epoch = 50
    return sessions, clock, first


async def test_a_silent_agent_holds_its_name_no_longer_than_it_counts_as_alive() -> None:
    sessions, clock, first = _entered()
    first.waits_since = clock.now_s
    clock.now_s += SILENCE_S - 0.1
    with pytest.raises(NameTakenError):
        sessions.enter(_hello(2, 49), "b")
    clock.now_s += 0.2
    second = sessions.enter(_hello(2, 49), "b")
    assert second.older is first and sessions["n"] is second


async def test_a_connection_that_was_cut_keeps_the_name_for_a_moment() -> None:
    sessions, clock, first = _entered()
    sessions.cut(first)
    sessions.leave(first)
    with pytest.raises(NameTakenError):
        sessions.enter(_hello(2), "b")
    again = sessions.enter(_hello(1), "a")
    assert again.acked_epoch == 50
    sessions.leave(again)
    clock.now_s += SILENCE_S + 0.1
    assert sessions.enter(_hello(2), "b").address == "b"


async def test_an_agent_that_left_leaves_its_name() -> None:
    sessions, _, first = _entered()
    first.has_left = True
    sessions.leave(first)
    assert sessions.enter(_hello(2), "b").acked_epoch == 0


async def test_a_second_agent_is_shown_until_it_stops_trying(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clock = _Clock()
    async with controller(tmp_path) as running:
        fleet = running.fleet
        fleet.join("n")
        fleet.rivals._clock = clock
        for _ in range(5):
            fleet.rivals.refused("n", "10.0.0.3", 1000.0)
            clock.now_s += 0.9 * rivals_module.FORGOTTEN_S
            fleet.rivals.end_old()
        [told] = running.service.nodes()[0].conditions
        assert (told.kind, told.since_s) == ("name_taken", 1000.0) and "10.0.0.3" in told.message
        clock.now_s += rivals_module.FORGOTTEN_S
        fleet.rivals.end_old()
        assert not running.service.nodes()[0].conditions
        assert len([one for one in caplog.records if "second agent" in one.message]) == 2
