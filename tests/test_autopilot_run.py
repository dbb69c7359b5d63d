# SPDX-License-Identifier: Apache-2.0
"""How `make run` follows a controller and evaluates its answers."""

import json
import os
import tomllib
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from experiments.autopilot import comparison, guest, guest_machine, live, scenario, watching
from experiments.autopilot.children import Children, free_port
from experiments.autopilot.configs import (
    Addresses,
    controller_config,
    kernel_agent_config,
    simulated_agent_config,
)
from experiments.autopilot.controller_client import ControllerClient
from experiments.autopilot.plot import plot, policy_spans
from experiments.autopilot.timeline import AUTOPILOT, DEFAULT, SIDES, Timeline, Window
from rich.console import Console

from cachepilot import _models
from cachepilot.api.shapes.views import NodeView, TenantView
from cachepilot.domain.objectives.file import parse_objectives
from cachepilot.domain.objectives.objective import Mode

MIB = 1 << 20
DEADLINE_SECONDS = 20.0


def node(name: str, time_s: float) -> NodeView:
    return NodeView(
        name=name,
        kind="simulated",
        kernel="simulated",
        agent_version="0",
        capabilities=[],
        policies=["lfu"],
        connected=True,
        last_seen_s=1e9 + time_s,
        epoch=1,
        budget_bytes=64 * MIB,
        limits_bytes=64 * MIB,
        device_capacity_iops=1000.0,
        device_iops=500.0,
        tenants=2,
        dropped_events_total=0,
        problem="",
    )


def tenant(side: str, name: str, ops: float | None, policy: str = "default") -> TenantView:
    return TenantView(
        node=side,
        cgroup=f"/{side}/{name}",
        policy=policy,
        limit_bytes=16 * MIB,
        target_limit_bytes=16 * MIB,
        floor_bytes=MIB,
        current_bytes=16 * MIB,
        hit_ratio=0.5,
        throughput_ops=ops,
        indicator="read_calls",
        latency_p99_us=900.0,
        device_iops=100.0,
        mode=Mode.AUTO,
        priority=0,
        weight=1.0,
        pinned_policy=None,
        pinned_limit_bytes=None,
        trusted=True,
        distrust="",
        interference="",
        slos=[],
        trial=None,
        last_decision="confirmed: lfu: 20% more than predicted of the default",
        last_decision_s=None,
    )


def looks(seconds: int = 40) -> Timeline:
    """Return a timeline: `a` gains by half when its policy changes at 10 s, `b` stays as it is."""
    timeline = Timeline()
    for second in range(seconds):
        after = second >= 10
        timeline.add(
            [node(side, second) for side in SIDES],
            [
                tenant(DEFAULT, "a", 1000.0),
                tenant(DEFAULT, "b", 100.0),
                tenant(AUTOPILOT, "a", 1500.0 if after else 1000.0, "lfu" if after else "default"),
                tenant(AUTOPILOT, "b", 100.0),
            ],
        )
    return timeline


def test_a_sample_that_is_read_repeatedly_counts_once() -> None:
    timeline = Timeline()
    for time_s in (0, 0, 1, 1, 1):
        timeline.add([node(DEFAULT, time_s)], [tenant(DEFAULT, "a", 1.0)])
    assert [point.time_s for point in timeline.points[DEFAULT, "a"]] == [0, 1]
    assert timeline.last_s == 1


def test_times_count_from_when_the_workloads_began() -> None:
    timeline = Timeline(origin_s=1e9)
    timeline.add([node(DEFAULT, 3)], [tenant(DEFAULT, "a", 1.0)])
    assert [point.time_s for point in timeline.points[DEFAULT, "a"]] == [3]


def test_nodes_that_fall_silent_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(watching, "SILENCE_SECONDS", 0.1)
    controller = Controller(moves=False)
    with (
        Children(tmp_path) as children,
        closing(ControllerClient(controller.url)) as client,
        pytest.raises(watching.DemoError, match="default: no snapshot for"),
    ):
        watching.follow(children, client, Timeline(), lambda _s: False, lambda _t, _s: None)
    controller.close()


def test_rows_compare_the_same_window_of_both_sides() -> None:
    windows = [Window("first", 0, 9), Window("second", 20, 39)]
    rows = comparison.rows(looks(), windows, {"a": 1200.0})
    assert [(row.window, row.tenant) for row in rows] == [
        ("first", "a"),
        ("first", "b"),
        ("second", "a"),
        ("second", "b"),
    ]
    first, second = rows[0], rows[2]
    assert first.gain_pct == pytest.approx(0)
    assert second.gain_pct == pytest.approx(50)
    assert (second.default.policy, second.autopilot.policy) == ("default", "lfu")
    assert (second.default.slo_met, second.autopilot.slo_met) == (0.0, 1.0)
    assert rows[3].autopilot.slo_met is None
    assert comparison.total_ops(rows, "second") == (1100, 1600)


def test_a_tenant_without_data_is_shown_as_such() -> None:
    timeline = Timeline()
    timeline.add(
        [node(side, 0) for side in SIDES],
        [tenant(DEFAULT, "a", None), tenant(AUTOPILOT, "a", None)],
    )
    (row,) = comparison.rows(timeline, [Window("all", 0, 1)], {"a": 5.0})
    assert row.gain_pct is None
    assert row.autopilot.slo_met is None
    assert json.loads(json.dumps(comparison.as_json([row])))[0]["gain_pct"] is None
    shown(comparison.table([row]))


def shown(table: object) -> str:
    console = Console(width=200, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(table)
    return console.export_text()


def test_the_table_shows_both_sides_and_the_change() -> None:
    text = shown(comparison.table(comparison.rows(looks(), [Window("w", 20, 39)], {"a": 1200.0})))
    line = next(line for line in text.splitlines() if " a " in line)
    for word in ("1,000", "1,500", "+50%", "lfu", "16 MiB", "0.0% -> 100.0%"):
        assert word in line
    assert "+45%" in next(line for line in text.splitlines() if " all " in line)


def test_the_status_shows_the_autopilot_beside_the_default() -> None:
    tenants = [tenant(DEFAULT, "a", 1000.0), tenant(AUTOPILOT, "a", 1500.0, "lfu")]
    text = shown(live.status_table(tenants, 12, 30))
    assert "1,500 (1,000)" in text
    assert "30 s left" in text
    line = live.status_line(tenants, 12, {"a": 900.0})
    assert "a lfu 16 MiB 1,500/1,000 ops/s (SLO 900)" in line


def test_the_plot_is_drawn_in_both_formats(tmp_path: Path) -> None:
    paths = [tmp_path / "run.svg", tmp_path / "run.png"]
    plot(looks(), {"a": 1200.0}, [20.0], paths)
    assert paths[0].read_text().startswith("<?xml")
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    assert policy_spans(looks().points[AUTOPILOT, "a"]) == [(0, 10, "default"), (10, 39, "lfu")]


def test_the_scenario_is_one_that_a_node_can_have(tmp_path: Path) -> None:
    chosen = scenario.recorded(90.0)
    assert len(chosen.tenants) == 4
    assert len(chosen.slos) == 1
    assert sum(len(tenant.phases) > 1 for tenant in chosen.tenants) == 1
    assert chosen.equal_limit_bytes * len(chosen.tenants) <= chosen.budget_bytes
    pages = chosen.equal_limit_bytes // 4096
    for phase in [phase for tenant in chosen.tenants for phase in tenant.phases]:
        _, footprint = _models.trace_footprint(str(scenario.TRACES / f"{phase.trace}.cptrace.zst"))
        assert footprint > 0
    assert pages > 0
    windows = chosen.windows(90.0)
    assert all(window.from_s < window.to_s for window in windows)
    assert windows[0].to_s <= chosen.change_s < windows[1].from_s
    for side in SIDES:
        document = tomllib.loads(
            simulated_agent_config(tmp_path, side, Addresses(1, 2), chosen).read_text()
        )
        assert document["node"] == side
    assert "memory_min" in chosen.objectives()
    objectives = parse_objectives(chosen.objectives(), "objectives.toml")
    config = controller_config(tmp_path, Addresses(1, 2), tmp_path / "objectives.toml")
    assert tomllib.loads(config.read_text())["http"] == "127.0.0.1:2"
    for name in [tenant.name for tenant in chosen.tenants]:
        assert objectives.of(f"/{AUTOPILOT}/{name}").mode is Mode.AUTO
        assert objectives.of(f"/{DEFAULT}/{name}").mode is Mode.OBSERVE


def test_the_guests_configuration_names_its_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = scenario.real()
    config = kernel_agent_config(tmp_path, guest_machine.HOST_ADDRESS, Addresses(7, 8), chosen)
    document = tomllib.loads(config.read_text())
    assert document["controller"] == "http://10.0.2.2:7"
    assert document["kernel"]["match"] == ["default/*", "autopilot/*"]
    monkeypatch.setenv("CACHEPILOT_AGENT", "/bin/true")
    monkeypatch.setattr("experiments.workloads.ycsb.compiled.program", lambda: Path("/bin/true"))
    told = json.loads(json.dumps(guest.orders(tmp_path, config, chosen)))
    script = guest_machine.SCRIPT.read_text()
    for name in told["environment"]:
        assert f"${name}" in script or name == "CACHEPILOT_BPF_DIR"
    machine = guest_machine.machine([tmp_path], told["iops"], told["timeout_seconds"])
    assert "virtio-net-pci,netdev=net0" in machine.qemu
    assert machine.timeout_seconds > 2 * chosen.seconds


class Controller:
    """A server of nodes and tenants whose time advances with every request."""

    def __init__(self, moves: bool = True) -> None:
        self.asked = 0
        self.moves = moves
        handler = type("Handler", (_Handler,), {"controller": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def answer(self, path: str) -> str:
        self.asked += 1
        if path == "/api/v1/nodes":
            now = self.asked if self.moves else 1
            return "[" + ",".join(node(side, now).model_dump_json() for side in SIDES) + "]"
        known = 500.0 if self.asked > 3 else None
        names = [t.name for t in scenario.recorded().tenants]
        return (
            "["
            + ",".join(tenant(s, n, known).model_dump_json() for s in SIDES for n in names)
            + "]"
        )


class _Handler(BaseHTTPRequestHandler):
    controller: Controller

    def do_GET(self) -> None:
        body = self.controller.answer(self.path).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def test_the_run_begins_once_every_tenant_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.01)
    controller = Controller()
    timeline = Timeline()
    seen: list[float] = []
    with Children(tmp_path) as children, closing(ControllerClient(controller.url)) as client:
        children.start("agent", ["sleep", "600"])
        watching.await_ready(children, client, 8, DEADLINE_SECONDS)
        assert controller.asked > 3
        watching.follow(children, client, timeline, lambda s: s > 0.3, lambda _t, s: seen.append(s))
    controller.close()
    assert len(timeline.points[AUTOPILOT, "lookups"]) == len(seen) > 1
    assert np.isfinite(timeline.last_s)


def test_a_controller_that_never_answers_is_an_error(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with (
        Children(tmp_path) as children,
        closing(ControllerClient(url)) as client,
        pytest.raises(watching.DemoError, match="only 0 of 8 tenants"),
    ):
        watching.await_ready(children, client, 8, 0.1)
