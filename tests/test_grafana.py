# SPDX-License-Identifier: Apache-2.0
"""The Grafana dashboards: Prometheus scrapes a running set-up, and every panel shows data."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from autopilot_processes import KV, LOOP, Autopilot
from experiments.autopilot.children import free_port
from prometheus_server import prometheus, until

ROOT = Path(__file__).resolve().parent.parent
GRAFANA = ROOT / "configs" / "grafana"
DASHBOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))
OBJECTIVES = """
[[tenant]]
cgroup = "/t/kv"
throughput_ops = 100
latency_p99_us = 100000
hit_ratio = 0.1
"""
VALUES = {
    "$__rate_interval": "10s",
    "$__range": "30s",
    "$node": "n",
    "$cgroup": "/t/kv",
    "$instance": ".*",
}


def _panels(path: Path) -> list[dict[str, Any]]:
    return [one for one in json.loads(path.read_text("utf-8"))["panels"] if one["type"] != "row"]


def _query(expression: str) -> str:
    """Return the expression as Grafana would send it."""
    for name, value in VALUES.items():
        expression = expression.replace(name, value)
    assert "$" not in expression, expression
    return expression


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a Prometheus that scrapes a working controller and agent. Yield its API."""
    folder = tmp_path_factory.mktemp("grafana")
    metrics = f"127.0.0.1:{free_port()}"
    pilot = Autopilot(folder, OBJECTIVES, KV + LOOP, metrics)
    try:
        pilot.start("controller")
        pilot.until(lambda: pilot.get("/nodes") is not None)
        pilot.start("agent")
        pilot.pass_intervals(5)
        data = tmp_path_factory.mktemp("prometheus")
        with prometheus(data, pilot.address, metrics) as api:
            yield api
    finally:
        for name in list(pilot.running):
            pilot.kill(name)
        pilot.http.close()


def test_there_are_dashboards_with_names_of_their_own() -> None:
    boards = [json.loads(path.read_text("utf-8")) for path in DASHBOARDS]
    assert len({board["uid"] for board in boards}) == len(boards) >= 3
    for board in boards:
        ids = [panel["id"] for panel in board["panels"]]
        assert len(set(ids)) == len(ids)
        assert all("id" not in board or board["id"] is None for board in boards)


def test_provisioning_files_are_well_formed() -> None:
    for path in (GRAFANA / "provisioning").rglob("*.yml"):
        found = yaml.safe_load(path.read_text("utf-8"))
        assert found["apiVersion"] == 1
        assert found.get("providers") or found.get("datasources")


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_panel_shows_data(scraped: str, path: Path) -> None:
    def empty() -> list[str]:
        found = []
        for panel in _panels(path):
            for target in panel["targets"]:
                query = {"query": _query(target["expr"])}
                answer = httpx.get(f"{scraped}/query", params=query, timeout=10).json()
                assert answer["status"] == "success", (panel["title"], answer)
                rows = answer["data"]["result"]
                if not any(row["value"][1] != "NaN" for row in rows):
                    found.append(f"{panel['title']}: {query['query']}")
        return found

    last: list[str] = ["not asked"]

    def filled() -> bool:
        last[:] = empty()
        return not last

    try:
        until(filled)
    except AssertionError:
        raise AssertionError("no data:\n" + "\n".join(last)) from None


def test_legends_name_labels_that_exist(scraped: str) -> None:
    for path in DASHBOARDS:
        for panel in _panels(path):
            for target in panel["targets"]:
                wanted = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
                query = {"query": _query(target["expr"])}
                rows = httpx.get(f"{scraped}/query", params=query, timeout=10).json()["data"]
                for row in rows["result"]:
                    assert wanted <= row["metric"].keys(), panel["title"]
