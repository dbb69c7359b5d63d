# SPDX-License-Identifier: Apache-2.0
"""Real agents in virtual time read a tenant's page cache on the new node before it moves."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from experiments.consolidation.moving.prepared import WAYS, Arrivals, rows_of
from experiments.consolidation.moving.processes import Fleet, Node, Tenant
from experiments.consolidation.moving.virtual import World, play
from experiments.shared.rows import ROOT

from cachepilot import agent
from cachepilot.domain.consolidation import Drain, Move
from cachepilot.domain.moving import Rollout
from cachepilot.errors import InputError

MIB = 1 << 20
LOOP = {"kind": "loop", "pages": 16_000}
READ_S = 16_000 * 400e-6
"""Seconds to read the page cache, one read after the other."""


@pytest.fixture(autouse=True)
def _agent() -> None:
    try:
        agent.find({})
    except InputError as error:
        pytest.skip(f"there is no agent: {error}")


def moved(folder: Path, preparing_s: float) -> tuple[World, Fleet, Rollout]:
    """Move a tenant whose loop fits from node a, where it is alone, to node b."""
    there = {name: [Tenant(f"/{name}", LOOP, 64 * MIB)] for name in "ab"}
    nodes = [Node(name, found, 192 * MIB) for name, found in there.items()]
    made = Fleet(folder, nodes, 1000, "virtual", {"preparing_seconds": preparing_s})

    def script(world: World) -> Iterator[None]:
        for _second in range(30):
            yield
        move = Move("/a", "a", "b", 64 * MIB, "default", 1000.0, 16_000, READ_S)
        world.mover.begin([Drain("a", (move,), 64 * MIB)])
        while (rollout := world.mover.rollout) is None or not rollout.is_over:
            yield

    world = play(made, script)
    assert world.mover.rollout is not None
    return world, made, world.mover.rollout


@pytest.mark.parametrize("preparing_s", [0.0, 60.0])
def test_a_tenant_is_as_fast_at_once_if_its_page_cache_was_read(
    tmp_path: Path, preparing_s: float
) -> None:
    world, made, rollout = moved(tmp_path, preparing_s)
    assert rollout.state == "done", rollout.why
    one = rollout.moves[0]
    assert one.begun_s is not None and one.arrived_s is not None
    before = world.mean_ops("/a", one.begun_s - 10, one.begun_s)
    first = world.mean_ops("/a", one.arrived_s, one.arrived_s + 3)
    if not preparing_s:
        assert first < 0.75 * before
        return
    assert first > 0.97 * before
    assert one.prepared_s is not None and one.read_s is not None
    # Nodes look at their folders, and the controller at its folders, once a second.
    assert READ_S <= one.read_s - one.prepared_s < READ_S + 6
    # A tenant that is there already waits for at most one more read.
    own = world.mean_ops("/b", one.prepared_s, one.read_s)
    assert own > 0.97 * world.mean_ops("/b", one.prepared_s - 5, one.prepared_s)
    left = {one.name for node in "ab" for one in (made.workloads / node).iterdir()}
    assert left == {"a.toml", "b.toml"}


def test_the_rows_are_of_all_runs() -> None:
    cold = [Arrivals([0.5, 0.7], 20, 10), Arrivals([0.6], 10, 8)]
    prepared = [Arrivals([1.0, 0.9], 20, 20, [4.0, 6.0]), Arrivals([], 0, 0)]
    rows = {row.metric: row.value for row in rows_of({"cold": cold, "prepared": prepared})}
    prefix = "consolidation.arrival."
    assert rows[f"{prefix}throughput.median.cold"] == 0.6
    assert rows[f"{prefix}throughput.worst.prepared"] == 0.9
    assert rows[f"{prefix}windows_met_pct.cold"] == 60.0
    assert (rows[f"{prefix}windows_met_pct.prepared"], rows[f"{prefix}read_s"]) == (100.0, 5.0)


def test_the_experiment_runs_through() -> None:
    command = [sys.executable, "-m", "experiments.consolidation", "arrival", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = {row["metric"]: row["value"] for row in json.loads(done.stdout)}
    # With three tenants on each of two nodes, none may fit on the other node.
    assert rows.keys() >= {f"consolidation.arrival.windows_met_pct.{way}" for way in WAYS}
