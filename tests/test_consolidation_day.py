# SPDX-License-Identifier: Apache-2.0
"""The experiment of a day runs to its end, and its parts preserve the time of day."""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from experiments.consolidation.moving.day import Clockwork, DayTenant, Scale, _Day
from experiments.consolidation.moving.virtual import Clock
from experiments.shared.rows import ROOT

from cachepilot import agent
from cachepilot.domain.consolidation import Move
from cachepilot.domain.moving import Moved, MoveState, Rollout, RolloutState
from cachepilot.domain.objectives.pins import Pin
from cachepilot.errors import ConflictError, InputError

BUSY, NIGHT = {"kind": "loop", "pages": 200}, {"kind": "loop", "pages": 20}
TENANT = DayTenant("/t/kv", BUSY, 1 << 20, night=NIGHT, times=360.0)


@pytest.mark.parametrize(
    ("hours", "lengths", "first"),
    [
        (0, [120, 120, 120, 120, 120, None], BUSY),
        (3, [90, 120, 120, 120, 120, None], BUSY),
        (12, [120, 120, 120, 120, None], NIGHT),
        (21, [30, 120, 120, 120, None], NIGHT),
    ],
)
def test_a_tenant_that_starts_later_goes_on_with_the_phase_of_then(
    hours: float, lengths: list[float | None], first: dict[str, object]
) -> None:
    phases = tomllib.loads(TENANT.at(hours))["phase"]
    assert [one.get("seconds") for one in phases] == lengths
    assert phases[0]["source"] == first
    assert phases[-1]["source"] == NIGHT


def test_a_moved_tenant_preserves_the_time_of_day(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    (tmp_path / "a" / "t-kv.toml").write_text(TENANT.definition(), "utf-8")
    clock = Clock(6 * 3600.0, 360.0)
    clock.to(1000.0)
    clock.to(1130.0)
    assert clock() == (6 + 13) * 3600
    Clockwork(tmp_path, {"/t/kv": TENANT}, clock).move("/t/kv", "a", "b")
    assert (tmp_path / "b" / "t-kv.toml").read_text("utf-8") == TENANT.at(13)
    pin = Pin("/t/kv", "b", None, 4096, clock() + 20)
    assert clock.stretched(pin).until_s == clock() + 20 * 360


def test_hours_are_compressed() -> None:
    assert Scale(2, 60.0).seconds(24) == 1440


def _mover(begun: Callable[[], Rollout]) -> SimpleNamespace:
    """Return a mover: the last move of its rollout was kept in this second."""
    gone = Move("/t/kv", "a", "b", 4096, "default", 1.0, 1, 1.0)
    ended = Rollout(1, 0.0, "", (Moved(gone, "a", MoveState.KEPT),), RolloutState.DONE)
    mover = SimpleNamespace(rollout=ended)

    def begin(*_: object) -> None:
        mover.rollout = begun()

    mover.begin = begin
    return mover


def _refused() -> Rollout:
    raise ConflictError("consolidation: /t/kv is on no node, not on a")


@pytest.mark.parametrize("begun", [lambda: Rollout(2, 1.0, "", ()), _refused])
def test_the_last_move_of_a_rollout_counts_and_one_that_is_refused_ends_nothing(
    begun: Callable[[], Rollout],
) -> None:
    mover = _mover(begun)
    service = SimpleNamespace(moving=mover)
    world: Any = SimpleNamespace(mover=mover, service=service, looks={})
    day = _Day(Scale(2, 900.0), [])
    next(day._hours(world, 1, "spread"))
    assert day._ids[1] == (1, 0)


def test_a_quick_run_leaves_all_rows() -> None:
    try:
        agent.find({})
    except InputError as error:
        pytest.skip(f"there is no agent: {error}")
    command = [sys.executable, "-m", "experiments.consolidation", "day", "--quick", "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = {row["metric"]: row["value"] for row in json.loads(done.stdout.splitlines()[-1])}
    parts = {name.removeprefix("consolidation.day.") for name in rows}
    assert parts == {
        "node_hours_saved_pct", "windows_met_pct", "windows_met_pct.worst",
        "morning.windows_met_pct", "morning.windows_met_pct.worst", "tenants_missed",
        "moves_made", "moves_undone", "met_again_s",
    }  # fmt: skip
    assert 0 < rows["consolidation.day.windows_met_pct"] <= 100
    assert 0 <= rows["consolidation.day.node_hours_saved_pct"] < 50
