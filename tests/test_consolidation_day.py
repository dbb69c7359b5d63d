# SPDX-License-Identifier: Apache-2.0
"""The experiment of a day runs through, and what it is made of keeps the time of day."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from experiments.consolidation.moving.day import Clockwork, DayTenant, Scale
from experiments.consolidation.moving.virtual import Clock
from experiments.shared.rows import ROOT

from cachepilot import agent
from cachepilot.domain.objectives.pins import Pin
from cachepilot.errors import InputError

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


def test_a_tenant_that_moves_does_so_too(tmp_path: Path) -> None:
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
