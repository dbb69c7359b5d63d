# SPDX-License-Identifier: Apache-2.0
"""A node whose agent is gone is stale everywhere, and none of its values count as measured."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from autopilot_processes import KV, LOOP, Autopilot
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World

from cachepilot.fleet.silence import SilenceWatch
from cachepilot.node.freshness import Freshness
from cachepilot.sense.counters import WINDOW

SLO = '[[tenant]]\ncgroup = "/t/kv"\nhit_ratio = 0.01\n[[tenant]]\ncgroup = "*"\n'
READINGS = ("hit_ratio", "throughput_ops", "latency_p99_us", "device_iops")


@pytest.fixture
def pilot(tmp_path: Path) -> Iterator[Autopilot]:
    found = Autopilot(tmp_path, SLO, KV + LOOP, controller="interval_ms = 200\n")
    found.start("controller")
    found.until(lambda: found.get("/nodes") is not None)
    found.start("agent")
    found.until(lambda: found.tenants().get("/t/kv", {}).get("throughput_ops"))
    yield found
    for name in list(found.running):
        found.kill(name)
    found.http.close()


def _cli(pilot: Autopilot, *words: str) -> str:
    command = [sys.executable, "-m", "cachepilot.cli", *words, "--controller"]
    done = subprocess.run(
        [*command, f"http://{pilot.address}"],
        check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    return done.stdout


def _metrics(pilot: Autopilot) -> str:
    return httpx.get(f"http://{pilot.address}/metrics", timeout=10).text


def test_a_killed_agent_is_stale_everywhere_and_leaves_the_metrics(pilot: Autopilot) -> None:
    pilot.until(lambda: 'cachepilot_slo_met{cgroup="/t/kv"' in _metrics(pilot))
    assert pilot.get("/fleet")["stale"] == 0 and not pilot.node()["stale"]
    pilot.kill("agent")
    pilot.until(lambda: pilot.node()["stale"])

    node, tenant = pilot.node(), pilot.tenants()["/t/kv"]
    assert node["problem"].startswith("stale: no snapshot since") and node["device_iops"] is None
    assert tenant["stale"] and [tenant[key] for key in READINGS] == [None] * 4
    slo = tenant["slos"][0]
    assert (slo["state"], slo["measured"], slo["met"], slo["attainment"]) == (
        "stale", None, None, None,
    )  # fmt: skip
    fleet = pilot.get("/fleet")
    assert (fleet["stale"], fleet["slos_met"], fleet["throughput_ops"]) == (1, 0, 0)
    assert fleet["slos_unmeasured"] == fleet["slos"] == 1 and fleet["attainment"] is None
    assert len(pilot.get("/tenants", only="stale")) == 2
    assert pilot.get("/tenants/detail", cgroup="/t/kv")["why"].startswith("stale: ")
    assert any("left out, stale" in note for note in pilot.get("/consolidation")["notes"])

    shown = _metrics(pilot)
    assert 'cachepilot_node_stale{node="n"} 1.0' in shown
    assert 'cgroup="/t/kv"' not in shown and "cachepilot_node_device_reads_per_second{" not in shown

    status, explained = _cli(pilot, "status"), _cli(pilot, "explain", "/t/kv")
    assert "stale: no snapshot since" in status and "device" not in status
    assert "why: stale: no snapshot since" in explained and "SLO hit_ratio" in explained
    assert "stale" in _cli(pilot, "plan", "--what-if")

    pilot.start("agent")
    pilot.until(lambda: pilot.tenants()["/t/kv"]["throughput_ops"])
    assert not pilot.node()["stale"] and pilot.get("/fleet")["stale"] == 0
    pilot.until(lambda: "heard again" in (pilot.folder / "controller.log").read_text())
    log = (pilot.folder / "controller.log").read_text()
    assert log.count("stale: no snapshot") == 1 and log.count("heard again") == 1


class _Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_node_is_stale_after_so_many_of_its_own_intervals() -> None:
    for interval_s in (0.01, 1.0, 60.0):
        clock = _Clock()
        fresh = Freshness(interval_s, clock)
        assert fresh.is_stale and not fresh.was_heard
        fresh.hear(0.0)
        clock.now_s += WINDOW * interval_s * 0.99
        assert not fresh.is_stale
        clock.now_s += interval_s
        assert fresh.is_stale


def test_each_change_of_freshness_is_notified_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tenant = PlantTenant("/a", {"default": linear(512 * MIB)}, 128 * MIB)
    here, clock = World(tmp_path, Plant([tenant], 128 * MIB, (64 * MIB, 128 * MIB))), _Clock()
    here.loop.freshness = Freshness(1.0, clock)
    watch, told = SilenceWatch(here.fleet, 1.0), []
    watch.look()
    here.run(2)
    here.fleet.changes.listen(lambda _, node: told.append(node))
    for passed_s, count in ((1.0, 0), (10.0, 1), (10.0, 1)):
        clock.now_s += passed_s
        watch.look()
        assert len(told) == count
    assert here.service.tenants()[0].stale
    here.run(1)
    told.clear()
    watch.look()
    watch.look()
    assert told == ["plant"] and not here.service.tenants()[0].stale
    assert len([one for one in caplog.records if "stale" in one.message]) == 1
