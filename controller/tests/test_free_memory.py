# SPDX-License-Identifier: Apache-2.0
"""The free memory of a node, for how long and how sure, by the API, a file and kubectl."""

import json
import shlex
from pathlib import Path

import pytest
from experiments.control_loop.plant import Plant, PlantTenant, scan
from experiments.control_loop.world import World
from fake_service import FakeService
from hypothesis import given
from hypothesis import strategies as st

from cachepilot.api.serving.free_files import FreeFiles
from cachepilot.api.shapes.views import NodeView
from cachepilot.api.stale import stale_node
from cachepilot.cli.fleet.free import kubectl
from cachepilot.domain.objectives.objective import Goal, Objective, Objectives
from cachepilot.fleet.config import parse_config
from cachepilot.node.needs.free_memory import FreeMemory

MIB = 1 << 20


def after(minutes: int, free_bytes: int = 100) -> FreeMemory:
    known = FreeMemory()
    for second in range(minutes * 60 + 1):
        known.take(float(second), free_bytes)
    return known


def test_nothing_is_sure_before_a_minute_was_seen_and_19_make_95_percent() -> None:
    assert (after(0).told.free_bytes, after(0).told.sure_bytes, after(0).told.confidence) == (
        100,
        0,
        0.0,
    )
    assert after(1).told.confidence == pytest.approx(0.5)
    told = after(19).told
    assert (told.sure_bytes, told.for_s) == (100, 19 * 60)
    assert told.confidence == pytest.approx(0.95)


def test_memory_used_for_a_moment_is_not_surely_free_for_19_minutes() -> None:
    known = after(20)
    known.take(1201.0, 40)
    known.take(1202.0, 100)
    assert (known.told.free_bytes, known.told.sure_bytes) == (100, 40)
    for second in range(1203, 1203 + 21 * 60):
        known.take(float(second), 100)
    assert known.told.sure_bytes == 100 and known.told.for_s < 22 * 60


def test_after_a_gap_nothing_is_sure() -> None:
    known = after(20)
    known.take(5000.0, 100, is_gap=True)
    assert known.told.sure_bytes == 0 and known.told.for_s == 0


@given(st.lists(st.integers(0, 1000), min_size=20, max_size=60))
def test_surely_free_memory_was_free_for_all_of_the_reported_time(least: list[int]) -> None:
    known = FreeMemory()
    seen = []
    for minute, free in enumerate(least):
        for second in range(0, 60, 20):
            seen.append((minute * 60.0 + second, free))
            known.take(*seen[-1])
    told = known.told
    assert all(free >= told.sure_bytes for time, free in seen if time > known.now_s - told.for_s)


@pytest.fixture
def freed(tmp_path: Path) -> World:
    tenant = PlantTenant("/web", {"default": scan(32 * MIB)}, 128 * MIB)
    sizes = tuple(MIB * size for size in (16, 32, 64, 128))
    here = World(tmp_path, Plant([tenant], 128 * MIB, sizes), (Objective("*"),))
    here.service.set_objectives(Objectives((Objective("*"),), Goal.LEAST_MEMORY))
    here.run(150)
    return here


def test_free_memory_is_reported_by_the_api_and_a_file(freed: World, tmp_path: Path) -> None:
    [node] = freed.service.nodes()
    assert node.free_bytes == node.budget_bytes - node.limits_bytes >= 64 * MIB
    assert 0 < node.free_confidence < 1 and node.free_for_s >= 60
    FreeFiles(tmp_path / "free").write([node])
    [path] = (tmp_path / "free").iterdir()
    told = json.loads(path.read_text("utf-8"))
    assert path.name == f"{node.name}.json" and told["free_bytes"] == node.free_bytes
    assert told["sure_free_bytes"] == node.sure_free_bytes and not told["stale"]


def test_a_folder_that_cannot_be_written_is_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    files = FreeFiles(tmp_path / "file")
    files.write(FakeService().nodes())
    files.write(FakeService().nodes())
    assert caplog.text.count("free memory cannot be written") == 1


def test_a_stale_node_has_nothing_free() -> None:
    free = {"free_bytes": 9, "sure_free_bytes": 8, "free_confidence": 0.5}
    node = FakeService().nodes()[0].model_copy(update=free)
    found = stale_node(node, "no snapshot")
    assert (found.free_bytes, found.sure_free_bytes, found.free_confidence) == (0, 0, 0.0)


def test_kubectl_annotates_and_patches_the_capacity() -> None:
    node = FakeService().nodes()[0]
    annotate, patch = (shlex.split(line) for line in kubectl(_sure(node)))
    assert annotate[-2:] == [
        "cachepilot.dev/free-memory=4096",
        "cachepilot.dev/free-memory-confidence=0.9500",
    ]
    assert "--subresource=status" in patch
    assert json.loads(patch[-1]) == [
        {
            "op": "add",
            "path": "/status/capacity/cachepilot.dev~1free-memory",
            "value": "4096",
        }
    ]


def test_the_folder_of_the_files_is_relative_to_the_configuration() -> None:
    assert parse_config('free_dir = "free"', "controller.toml", Path("/etc")).free_dir == Path(
        "/etc/free"
    )


def _sure(node: NodeView) -> NodeView:
    return node.model_copy(update={"sure_free_bytes": 4096, "free_confidence": 0.95})
