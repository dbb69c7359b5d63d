# SPDX-License-Identifier: Apache-2.0
"""Error budgets: counted by the present target, over windows, across restarts."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant
from experiments.control_loop.world import World
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient
from worlds import SIZES, sated

from cachepilot.api.app import create_app
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.past.budget import Budget, BudgetState, Counted, span_budget
from cachepilot.domain.slos import HOURS
from cachepilot.node.shown.slo_hours import HOUR_S, SloHours

EASY, HARD = 1000.0, 10_000_000.0


def here_with(path: Path, target: float) -> World:
    plant = Plant([sated()], 128 * MIB, SIZES)
    return World(path, plant, [Objective("/sated", throughput_ops=target)])


def budget(here: World) -> Budget:
    (found,) = here.service.past.budgets()
    return found


def restate(here: World, target: float) -> None:
    here.service.set_objectives(Objectives((Objective("/sated", throughput_ops=target),)))


def test_an_slo_that_is_met_leaves_its_budget_untouched(tmp_path: Path) -> None:
    here = here_with(tmp_path, EASY)
    here.run(30)
    found = budget(here)
    assert (found.state, found.met, found.target) == (BudgetState.SAFE, True, EASY)
    assert {one.budget_left for one in found.spans} == {1.0}
    assert found.burn_short == found.burn_long == 0
    windows = {one.windows for one in found.spans}
    assert len(windows) == 1 and 25 <= windows.pop() <= 30
    assert found.measured == here.service.tenants()[0].slos[0].measured


def test_an_slo_that_is_missed_exhausts_it_and_says_so(tmp_path: Path) -> None:
    here = here_with(tmp_path, HARD)
    here.run(30)
    found = budget(here)
    assert (found.state, found.met) == (BudgetState.EXHAUSTED, False)
    assert found.burn_short == pytest.approx(50) and "where 2% may miss it" in found.why


def test_counts_start_again_when_the_target_changes_but_totals_do_not(tmp_path: Path) -> None:
    here = here_with(tmp_path, HARD)
    here.run(30)
    restate(here, EASY)
    here.run(10)
    found = budget(here)
    assert found.state is BudgetState.SAFE and found.spans[-1].windows <= 10
    assert found.since_s == pytest.approx(here.plant.time_s - 9, abs=1)
    assert found.spans[0].seconds <= 10
    (slo,) = here.service.tenants()[0].slos
    assert slo.attainment == 1.0
    assert slo.windows_total is not None and slo.windows_total >= 25
    assert slo.windows_met_total is not None and slo.windows_met_total <= 10


def test_counts_survive_a_restart_with_their_target(tmp_path: Path) -> None:
    here = here_with(tmp_path, HARD)
    here.run(25)
    restate(here, EASY)
    here.run(25)
    here.loop.end()
    before = budget(here)
    here.restart()
    here.run(5)
    after = budget(here)
    assert after.since_s == before.since_s
    assert after.spans[-1].windows >= before.spans[-1].windows + 3
    assert {one.attainment for one in after.spans} == {1.0}
    restate(here, HARD)
    here.run(12)
    here.restart()
    here.run(3)
    assert budget(here).spans[-1].met == 0


def test_windows_that_cannot_be_stored_are_stored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = here_with(tmp_path, EASY)

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(here.store, "save", full)
    here.run(25)
    monkeypatch.undo()
    here.run(12)
    here.loop.end()
    counted = budget(here).spans[-1].windows
    here.restart()
    here.run(3)
    assert all(one.windows >= counted + 1 for one in budget(here).spans)


def test_a_stale_node_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = here_with(tmp_path, EASY)
    here.run(10)
    heard_at = here.loop.freshness._clock()
    monkeypatch.setattr(here.loop.freshness, "_clock", lambda: heard_at + 100)
    found = budget(here)
    assert found.measured is None and found.met is None and found.spans[-1].windows > 0


def test_the_route_answers(tmp_path: Path) -> None:
    here = here_with(tmp_path, EASY)
    here.run(10)
    http = TestClient(create_app(here.service), base_url="http://localhost")
    (one,) = http.get("/api/v1/budgets?cgroup=/sated").json()
    assert [span["span"] for span in one["spans"]] == ["1h", "24h", "7d"]
    assert one["state"] == "safe" and one["source"] == "measured" and one["goal"] == 0.98
    assert http.get("/api/v1/budgets?cgroup=/nobody").json() == []
    assert http.get("/api/v1/budgets?node=nowhere").status_code == 404


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 3600), st.integers(0, 9)), max_size=30),
    st.integers(1, HOURS), st.integers(0, 300),
)  # fmt: skip
def test_hours_are_those_of_the_last_week(
    told: list[tuple[int, int, int]], hours: int, later: int
) -> None:
    found, now, counted = SloHours(1.0, 0.0), 0, dict[int, int]()
    for step, windows, missed in told:
        now += step
        found.add(now, windows, max(0, windows - missed))
        counted[now] = counted.get(now, 0) + windows
    now += later
    newest = max(counted, default=0)
    wanted = [n for hour, n in counted.items() if now - hours < hour and newest - HOURS < hour]
    assert found.last(hours, now * HOUR_S + 5.0).windows == sum(wanted)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_a_budget_is_used_up_at_the_share_that_may_miss(windows: int, missed: int) -> None:
    missed = min(missed, windows)
    found = span_budget("1h", 3600.0, Counted(windows, windows - missed))
    if windows == 0:
        assert found.budget_left is None
        return
    assert found.budget_left is not None and found.budget_left <= 1
    assert (found.budget_left < -1e-6) == (missed > 0.02 * windows * (1 + 1e-9))
