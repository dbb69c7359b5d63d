# SPDX-License-Identifier: Apache-2.0
"""The whole autopilot: a real controller and a real agent, whose node is simulated.

The node's time is virtual, so that minutes of it pass in seconds.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from autopilot_processes import KV, LOOP, Autopilot

MIB = 1 << 20

WIDE = (KV + LOOP).replace("16777216", "67108864").replace("pages = 6000", "pages = 24000")
"""Four times as much memory, so that a sample of the loop distinguishes the policies."""
SAME = '[[tenant]]\ncgroup = "*"\nmemory_min = "16MiB"\nmemory_max = "16MiB"\n'


Begin = Callable[..., Autopilot]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Return a function that starts autopilots, which end with the test."""
    begun: list[Autopilot] = []

    def one(objectives: str, tenants: str = KV + LOOP) -> Autopilot:
        folder = tmp_path / str(len(begun))
        folder.mkdir()
        found = Autopilot(folder, objectives, tenants)
        begun.append(found)
        found.start("controller")
        found.until(lambda: found.get("/nodes") is not None)
        found.start("agent")
        found.until(lambda: found.node()["connected"])
        return found

    yield one
    for found in begun:
        for name in list(found.running):
            found.kill(name)
        found.http.close()


def test_each_tenant_settles_under_a_policy_that_suits_it(begin: Begin) -> None:
    plain = begin('[[tenant]]\ncgroup = "*"\nmode = "observe"\n', WIDE)
    plain.pass_intervals(40)
    default = plain.missed(20)
    for name in list(plain.running):
        plain.kill(name)
    pilot = begin(SAME.replace("16MiB", "64MiB"), WIDE)
    pilot.pass_intervals(150)
    found = pilot.missed(60)
    assert found["/t/loop"] < default["/t/loop"] - 0.2
    assert found["/t/kv"] < default["/t/kv"] + 0.01
    for cgroup, miss in default.items():
        assert found[cgroup] <= 1.02 * miss + 0.005
    memory = [one for one in pilot.history() if one["from_policy"] == one["to_policy"]]
    assert memory == []


def test_settled_memory_stays_where_it_is(begin: Begin) -> None:
    pilot = begin('[[tenant]]\ncgroup = "*"\n')
    pilot.pass_intervals(600)
    then_s = pilot.history()[-1]["time_s"] if pilot.history() else 0.0
    pilot.pass_intervals(240)
    last_s = pilot.node()["last_seen_s"]
    late = [
        one for one in pilot.history()
        if one["time_s"] > max(then_s, last_s - 240) and one["event"] == "trial"
        and one["from_policy"] == one["to_policy"]
    ]  # fmt: skip
    assert len({one["time_s"] for one in late}) <= 2
    assert all(row["limit_bytes"] >= 8 * MIB for row in pilot.tenants().values())


def test_an_slo_that_the_equal_split_misses_is_met(begin: Begin) -> None:
    slo = '[[tenant]]\ncgroup = "/t/kv"\nhit_ratio = 0.77\n[[tenant]]\ncgroup = "*"\n'
    pilot = begin(slo)
    pilot.pass_intervals(8)
    assert pilot.tenants()["/t/kv"]["slos"][0]["met"] is False
    pilot.pass_intervals(200)

    end, met = pilot.node()["epoch"] + 200, []
    while pilot.node()["epoch"] < end:
        met += [one["met"] for one in pilot.tenants()["/t/kv"]["slos"]]
        time.sleep(0.01)
    assert sum(met) >= 0.98 * len(met) > 0


def test_an_slo_that_cannot_be_kept_is_named(begin: Begin) -> None:
    pilot = begin('[[tenant]]\ncgroup = "/t/kv"\nthroughput_ops = 1000000\n')

    def state() -> str:
        slos = pilot.tenants().get("/t/kv", {}).get("slos", [])
        return str(slos[0]["state"]) if slos else ""

    pilot.until(lambda: state() == "unattainable")
    assert "infeasible" in pilot.tenants()["/t/kv"]["slos"][0]["why"]


def _recorded(pilot: Autopilot) -> list[dict[str, Any]]:
    """Return the stored decisions, oldest first, without `in_force`, which changes later."""
    return [{**one, "in_force": None} for one in pilot.history()]


def test_a_controller_that_is_killed_goes_on_where_it_was(begin: Begin) -> None:
    pilot = begin(SAME)
    pilot.until(pilot.history)
    epoch, told = pilot.node()["epoch"], _recorded(pilot)
    asked = pilot.get("/objectives")
    pilot.kill("controller")
    (pilot.folder / "objectives.toml").write_text('[[tenant]]\ncgroup = "/other"\n')
    pilot.start("controller")
    pilot.until(lambda: pilot.node()["connected"] and pilot.node()["epoch"] > epoch)
    assert pilot.get("/objectives") == asked
    assert _recorded(pilot)[: len(told)] == told
    pilot.pass_intervals(10)


def test_an_agent_that_is_killed_comes_back(begin: Begin) -> None:
    pilot = begin(SAME)
    pilot.pass_intervals(30)
    epoch = pilot.node()["epoch"]
    pilot.kill("agent")
    pilot.until(lambda: not pilot.node()["connected"])
    pilot.start("agent")
    pilot.until(lambda: pilot.node()["connected"] and pilot.node()["epoch"] > epoch)
    pilot.pass_intervals(20)
    assert set(pilot.tenants()) == {"/t/kv", "/t/loop"}


def test_recommend_changes_nothing_on_the_node(begin: Begin) -> None:
    pilot = begin('[[tenant]]\ncgroup = "*"\nmode = "recommend"\n')
    pilot.until(pilot.history)
    pilot.pass_intervals(60)
    for row in pilot.tenants().values():
        assert (row["policy"], row["limit_bytes"]) == ("default", 16 * MIB)
    assert {one["event"] for one in pilot.history()} == {"recommended"}
