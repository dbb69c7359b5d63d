# SPDX-License-Identifier: Apache-2.0
"""Rehearsals in the API: the tenants, their targets, the time left, the end of a cool-down."""

from dataclasses import replace

import pytest
from moved_fleet import COLD_S, LIMIT_BYTES, MovedFleet, fleet, move, tenant

from cachepilot.api.moving.rehearsals import rollout_view
from cachepilot.api.shapes.rollout import RehearsalView, RolloutView
from cachepilot.cli.fleet.rehearsals import lines
from cachepilot.domain.moving import Moved, RehearsalState, Verdict
from cachepilot.domain.units import DAY_S
from cachepilot.fleet.moving.judging import WINDOWS
from cachepilot.fleet.moving.rehearsing import SETTLED_S
from cachepilot.fleet.moving.seen.patience import BEFORE_WINDOWS


def rehearsed(*cgroups: str) -> MovedFleet:
    here = fleet(*cgroups)
    here.rollout = replace(here.rollout, rehearses=True)
    return here


def _shown(here: MovedFleet) -> RolloutView:
    return rollout_view(here.rollout, here.now_s, 1.0)


def _until(here: MovedFleet, state: RehearsalState) -> RehearsalView:
    while True:
        assert not here.rollout.is_over
        here.tick()
        (found,) = _shown(here).rehearsals
        if found.state is state:
            return found


def test_each_part_of_a_rehearsal_is_shown_with_its_measurements() -> None:
    here = rehearsed("/kv", "/web")
    (found,) = _shown(here).rehearsals
    assert (found.node, found.state, found.left_s, found.tenants) == ("a", "not begun", None, [])
    found = _until(here, RehearsalState.MEASURING)
    assert [(one.cgroup, one.to_node, one.before_ops) for one in found.tenants] == [
        ("/kv", "b", None), ("/web", "b", None),
    ]  # fmt: skip
    all_s = COLD_S + SETTLED_S + WINDOWS
    assert (found.since_s, found.left_s) == (here.now_s, BEFORE_WINDOWS + all_s)
    here.tick()
    assert lines_of(here)[1] == "  /kv, to b with 4 KiB: before 100 op/s"
    found = _until(here, RehearsalState.SETTLING)
    assert (found.begun_s, found.left_s) == (here.now_s, all_s)
    here.tick()
    assert _shown(here).rehearsals[0].left_s == all_s - 1
    found = _until(here, RehearsalState.JUDGED)
    here.tick()
    found = _shown(here).rehearsals[0]
    assert found.left_s == WINDOWS - 1
    told = [(one.cgroup, one.node, one.to_node, one.limit_bytes) for one in found.tenants]
    assert told == [("/kv", "a", "b", 4096), ("/web", "a", "b", 4096), ("/own", "b", None, None)]
    kv, own = found.tenants[0], found.tenants[2]
    assert (kv.predicted_ops, own.predicted_ops) == (100.0, None)
    assert (kv.before_ops, kv.after_ops, kv.kind, kv.target) == (100.0, 100.0, "throughput_ops", 90)
    assert (kv.windows, kv.met, kv.verdict) == (1, 1, Verdict.OPEN)
    assert lines_of(here)[1].endswith("throughput_ops 90 op/s met in 1 of 1 windows: open")


def lines_of(here: MovedFleet) -> list[str]:
    return [line for one in _shown(here).rehearsals for line in lines(one)]


def test_a_rehearsal_that_was_passed_stays_so() -> None:
    here = rehearsed("/kv")
    found = _until(here, RehearsalState.PASSED)
    assert (found.over_s, found.left_s) == (here.now_s, None)
    here.play()
    assert _shown(here).rehearsals == [found]
    assert lines_of(here)[0].endswith(f"{2 * WINDOWS} of {2 * WINDOWS} windows met")


@pytest.mark.parametrize("has_slo", [True, False])
def test_a_missed_rehearsal_names_the_tenant_the_shortfall_and_the_time(has_slo: bool) -> None:
    here = rehearsed("/kv", "/web")
    here.there["a"]["/web"] = tenant(slo=has_slo)
    here.squeezed["/web"] = replace(tenant(81.0, met=False, slo=has_slo), limit_bytes=4096)
    over = here.play()
    (found,) = _shown(here).rehearsals
    assert (found.state, found.over_s, found.why) == ("missed", here.now_s, over.moves[0].why)
    (web,) = [one for one in found.tenants if one.verdict is Verdict.MISSED]
    assert (web.cgroup, web.after_ops, web.target) == ("/web", 81.0, 90.0)
    assert web.short == pytest.approx(0.1)
    assert web.least_bytes == (4096 + LIMIT_BYTES) // 2 and web.until_s == here.now_s + DAY_S
    told = lines_of(here)
    assert len(told) == 2 and "/web, to b with 4 KiB: before 100 op/s, now 81 op/s" in told[1]
    assert "10.0% less than that; not tried with less than 2.0 MiB until " in told[1]


def test_a_stopped_rehearsal_is_no_verdict() -> None:
    here = rehearsed("/kv")
    _until(here, RehearsalState.SETTLING)
    here.rollout = replace(here.rollout, is_stopping=True)
    here.play()
    assert lines_of(here) == ["a: the rehearsal was given up"]


def test_a_node_that_waits_for_its_rehearsal_is_shown() -> None:
    here = rehearsed("/kv")
    here.rollout = replace(
        here.rollout, moves=(*here.rollout.moves, Moved(replace(move("/z"), from_node="c"), "c"))
    )
    assert lines_of(here) == ["a: not rehearsed yet", "c: not rehearsed yet"]
    assert rollout_view(fleet("/kv").rollout, 0.0, 1.0).rehearsals == []


@pytest.mark.parametrize("limit_bytes", [LIMIT_BYTES, 0])
def test_a_tenant_with_more_memory_than_planned_is_not_proven(limit_bytes: int) -> None:
    here = rehearsed("/kv", "/web")
    here.kept_limits = {"/kv"}
    here.there["a"]["/kv"] = replace(tenant(), limit_bytes=limit_bytes)
    found = _until(here, RehearsalState.PASSED)
    told = {one.cgroup: (one.most_bytes, one.unproven) for one in found.tenants}
    assert told == {"/kv": (limit_bytes, True), "/web": (4096, False), "/own": (None, False)}
    had = "up to 4 MiB" if limit_bytes else "no limit"
    assert lines_of(here)[1:] == [f"  /kv, to b with 4 KiB: not proven, it had {had}"]
