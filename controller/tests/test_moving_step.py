# SPDX-License-Identifier: Apache-2.0
"""One step of a rollout: what is kept, what is undone, and why every rollout ends."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from moved_fleet import COLD_S, LIMIT_BYTES, MovedFleet, fleet, move, tenant

from cachepilot.domain.moving import Check, Moved, MoveState, RolloutState, Verdict
from cachepilot.fleet.moving.judging import WINDOWS, WINDOWS_MAX, take
from cachepilot.fleet.moving.seen.observation import Order
from cachepilot.fleet.moving.seen.patience import BEFORE_WINDOWS, LOST_S, RETURN_S
from cachepilot.fleet.moving.warming import COLD_MORE_S, COLD_TIMES, QUIET_S


def test_every_move_is_measured_before_and_after_and_all_are_kept() -> None:
    here = fleet("/kv", "/web", b={"/kv": tenant(98.0)})
    over = here.play()
    assert (over.state, over.emptied) == (RolloutState.DONE, ["a"])
    assert here.where == {"/kv": "b", "/web": "b", "/own": "b"}
    assert here.orders == [Order("/kv", "a", "b"), Order("/web", "a", "b")]
    own, moved = over.moves[0].checks[1], over.moves[0].checks[0]
    assert (moved.cgroup, moved.before_ops, moved.after_ops) == ("/kv", 100.0, 98.0)
    assert (own.cgroup, own.windows, own.met, own.verdict) == ("/own", WINDOWS, WINDOWS, "met")
    assert [one.cgroup for one in over.moves[1].checks] == ["/kv", "/own", "/web"]
    assert here.events[-2:] == ["node a is empty", "done: all moves were confirmed"]
    first = over.moves[0]
    assert None not in (first.begun_s, first.arrived_s, first.warm_s, first.ended_s)
    assert first.begun_s == 1000.0 + BEFORE_WINDOWS


@pytest.mark.parametrize("who", ["/kv", "/own"])
def test_the_first_slo_that_is_missed_undoes_the_last_move_alone(who: str) -> None:
    here = fleet("/web", "/kv")
    before = here.there["b"]["/own"]
    while here.where["/kv"] == "a":
        here.tick()
    here.there["b"][who] = replace(before, slos=tenant(met=False).slos)
    over = here.play()
    assert over.state is RolloutState.TURNED_BACK
    assert [one.state for one in over.moves] == [MoveState.KEPT, MoveState.RETURNED]
    assert here.where == {"/web": "b", "/kv": "a", "/own": "b"}
    assert f"{who} meets throughput_ops 90 in 0 of 2 windows" in over.why


def test_misses_of_an_slo_with_a_cold_page_cache_do_not_count() -> None:
    here = fleet("/kv")
    cold, warm = tenant(10.0, met=False), tenant()
    here.there["b"]["/kv"] = cold
    while not here.rollout.is_over:
        here.tick()
        present = here.rollout.present
        if present and present.warm_s is None and here.arrived_s:
            here.there["b"]["/kv"] = warm if here.now_s - here.arrived_s["/kv"] >= 2 else cold
    assert here.rollout.state is RolloutState.DONE


def test_a_page_cache_counts_as_warm_at_the_latest_by_what_was_predicted() -> None:
    here = fleet("/kv", b={"/kv": tenant(met=False)})
    here.fills_up_to = 1 << 40
    over = here.play()
    moved = over.moves[0]
    assert over.state is RolloutState.TURNED_BACK
    assert moved.warm_s is not None and moved.arrived_s is not None
    assert moved.warm_s - moved.arrived_s == COLD_TIMES * COLD_S + COLD_MORE_S + 1


def test_a_page_cache_that_still_misses_is_cold_though_no_growth_is_counted() -> None:
    reads = replace(tenant(10.0, met=False), missed_pages=500)
    here = fleet("/kv", b={"/kv": reads})
    here.fills_up_to = LIMIT_BYTES // 4
    _until(here, MoveState.WARMING)
    while here.now_s - here.arrived_s["/kv"] < 5 * QUIET_S:
        assert here.rollout.moves[0].warm_s is None
        here.tick()
    here.there["b"]["/kv"] = replace(tenant(), missed_pages=5)
    over = here.play()
    assert over.state is RolloutState.DONE
    warm_s, arrived_s = over.moves[0].warm_s, over.moves[0].arrived_s
    assert warm_s is not None and arrived_s is not None
    assert 5 * QUIET_S < warm_s - arrived_s < 7 * QUIET_S + 1


@pytest.mark.parametrize(("after", "state"), [(91.0, "done"), (89.0, "turned back")])
def test_without_an_slo_a_share_of_what_was_is_kept(after: float, state: str) -> None:
    here = fleet("/kv", a={"/kv": tenant(slo=False)}, b={"/kv": tenant(after, slo=False)})
    assert here.play().state == state


def test_an_slo_that_is_missed_as_it_is_begins_no_move() -> None:
    here = fleet("/kv", b={"/own": tenant(met=False)})
    over = here.play()
    assert (over.state, here.orders) == (RolloutState.STOPPED, [])
    assert over.why == "an SLO of /own on b is missed already"


def test_a_tenant_that_misses_its_slo_at_home_may_go() -> None:
    assert fleet("/kv", a={"/kv": tenant(met=False)}).play().state is RolloutState.DONE


def test_a_tenant_that_becomes_idle_on_the_target_goes_back() -> None:
    idle = replace(tenant(), ops=None, slos=tenant(met=None).slos)
    here = fleet("/kv", b={"/kv": idle})
    over = here.play()
    assert (over.state, here.where["/kv"]) == (RolloutState.TURNED_BACK, "a")


def test_a_tenant_that_was_idle_before_is_not_judged() -> None:
    idle = replace(tenant(), ops=None, slos=tenant(met=None).slos)
    assert fleet("/kv", b={"/own": idle}).play().state is RolloutState.DONE


def _until(here: MovedFleet, state: MoveState) -> None:
    while here.rollout.present is None or here.rollout.present.state is not state:
        assert not here.rollout.is_over, here.rollout.why
        here.tick()


def test_a_move_that_is_refused_ends_the_rollout_where_all_was() -> None:
    here = fleet("/kv")
    here.refusal = "no space left on device"
    over = here.play()
    assert (over.state, over.why) == (RolloutState.FAILED, "no space left on device")
    assert (here.where["/kv"], len(here.orders)) == ("a", 1)


def test_a_target_that_is_lost_sends_the_tenant_home() -> None:
    here = fleet("/kv")
    _until(here, MoveState.WARMING)
    here.lost.add("b")
    begun_s = here.now_s
    over = here.play()
    assert (over.state, here.where["/kv"]) == (RolloutState.TURNED_BACK, "a")
    assert LOST_S < here.now_s - begun_s < 2 * LOST_S
    assert over.why == "node b: stale"


def test_a_node_that_is_lost_before_a_move_stops_it_and_a_gap_does_not() -> None:
    here = fleet("/kv")
    here.lost.add("b")
    for _ in range(5):
        here.tick()
    assert (here.rollout.state, here.rollout.why) == (RolloutState.RUNNING, "node b: stale")
    here.lost.clear()
    assert here.play().state is RolloutState.DONE
    here = fleet("/kv")
    here.lost.add("a")
    assert here.play().state is RolloutState.STOPPED
    assert here.orders == []


def test_a_tenant_does_not_go_back_to_a_node_that_is_lost() -> None:
    here = fleet("/kv", b={"/kv": tenant(met=False)})
    _until(here, MoveState.WARMING)
    here.lost.add("a")
    _until(here, MoveState.RETURNING)
    for _ in range(20):
        here.tick()
    assert (here.where["/kv"], here.rollout.why) == ("b", "node a: stale")
    here.lost.clear()
    assert here.play().state is RolloutState.TURNED_BACK
    assert here.where["/kv"] == "a"


def test_a_look_that_finds_a_tenant_nowhere_once_ends_nothing() -> None:
    here = fleet("/kv")
    _until(here, MoveState.WARMING)
    here.where["/kv"] = None
    here.tick()
    assert here.rollout.why == "/kv is on no node"
    here.where["/kv"] = "b"
    assert here.play().state is RolloutState.DONE


@pytest.mark.parametrize("state", [MoveState.WAITING, MoveState.MOVING, MoveState.WARMING])
@pytest.mark.parametrize("where", [None, "c"])
def test_a_tenant_that_vanishes_or_strays_ends_the_rollout(
    state: MoveState, where: str | None
) -> None:
    here = fleet("/kv")
    _until(here, state)
    here.where["/kv"] = where
    over = here.play()
    assert over.state is RolloutState.FAILED
    assert over.moves[0].state is MoveState.FAILED
    assert ("vanished" if where is None else "is on c: another program moved it") in over.why


def test_a_tenant_that_cannot_be_moved_back_is_reported_with_its_node() -> None:
    here = fleet("/kv", b={"/kv": tenant(met=False)})
    _until(here, MoveState.RETURNING)
    here.where["/kv"], here.refusal = "b", "read-only file system"
    begun_s = here.now_s
    over = here.play()
    assert over.state is RolloutState.FAILED
    assert here.now_s - begun_s >= RETURN_S
    assert "could not be moved back from b: read-only file system" in over.why


@pytest.mark.parametrize("state", [MoveState.WAITING, MoveState.MOVING, MoveState.WARMING])
def test_stopping_undoes_what_is_not_kept(state: MoveState) -> None:
    here = fleet("/web", "/kv")
    while here.rollout.at == 0:
        here.tick()
    _until(here, state)
    here.rollout = replace(here.rollout, is_stopping=True)
    over = here.play()
    assert (over.state, over.why) == (RolloutState.STOPPED, "stopped by an operator")
    assert here.where == {"/web": "b", "/kv": "a", "/own": "b"}


@given(
    crashes=st.sets(st.integers(1, 120)),
    bad=st.sampled_from(["", "/kv", "/web", "/own"]),
    lost=st.sampled_from(["", "a", "b"]),
    lost_at=st.integers(1, 100),
    lost_for=st.integers(1, 80),
    stop_at=st.none() | st.integers(1, 120),
)
@settings(max_examples=150, deadline=None)
def test_every_rollout_ends_with_each_tenant_on_one_of_its_nodes(
    crashes: set[int], bad: str, lost: str, lost_at: int, lost_for: int, stop_at: int | None
) -> None:
    here = fleet("/kv", "/web")
    here.crashes = crashes
    if bad:
        here.there["b"][bad] = tenant(met=False)
    for tick in range(3000):
        if here.rollout.is_over:
            break
        here.lost = {lost} - {""} if lost_at <= tick < lost_at + lost_for else set()
        if tick == stop_at:
            here.rollout = replace(here.rollout, is_stopping=True)
        here.tick()
        unkept = [m for m in here.rollout.moves if m.state not in (MoveState.KEPT, "waiting")]
        assert len(unkept) <= 1
    over = here.rollout
    assert over.is_over and over.state is not RolloutState.FAILED
    for one in over.moves:
        assert here.where[one.move.cgroup] == ("b" if one.state is MoveState.KEPT else "a")
    is_kept = all(one.state is MoveState.KEPT for one in over.moves)
    assert (over.state is RolloutState.DONE) == (is_kept and not over.unseen)
    if over.state is RolloutState.DONE:
        assert (not bad and stop_at is None) or stop_at is not None
    kept = [check for one in over.moves if one.state == "kept" for check in one.checks]
    assert all(check.verdict is Verdict.MET and check.met >= 0.8 * check.windows for check in kept)


@given(st.lists(st.booleans(), max_size=WINDOWS_MAX + 10))
def test_an_slo_is_judged_in_bounded_time_and_stays_judged(windows: list[bool]) -> None:
    check = Check("/kv", "throughput_ops", 90.0)
    for met in windows:
        before = check
        check = take(check, met, 100.0)
        assert before.verdict is Verdict.OPEN or check == before
    if len(windows) >= WINDOWS_MAX:
        assert check.verdict is not Verdict.OPEN


def test_the_test_of_an_slo_keeps_its_errors() -> None:
    random = np.random.default_rng(1)

    def missed(share: float) -> float:
        verdicts = []
        for _ in range(2000):
            check = Check("/kv", "hit_ratio", 0.5)
            while check.verdict is Verdict.OPEN:
                check = take(check, bool(random.random() < share), None)
            verdicts.append(check.verdict is Verdict.MISSED)
        return sum(verdicts) / len(verdicts)

    assert missed(0.995) < 0.05
    assert missed(0.8) > 0.9


def test_long_intervals_leave_time_for_all_that_is_to_be_measured() -> None:
    """A node with one snapshot per minute is not late after half a minute."""
    here = fleet("/kv")
    here.rollout, here.interval_s = replace(here.rollout, rehearses=True), 60.0
    over = here.play()
    assert over.state is RolloutState.DONE
    rehearsal = over.moves[0].rehearsal
    assert rehearsal is not None
    told = [one.windows for node in rehearsal.nodes for one in node.before]
    assert told == [BEFORE_WINDOWS, BEFORE_WINDOWS]


@pytest.mark.parametrize("has_more", [False, True])
def test_a_node_to_which_a_tenant_came_during_its_last_move_is_not_empty(has_more: bool) -> None:
    here = fleet("/kv", "/new")
    moves = here.rollout.moves[:1]
    other = (Moved(replace(move("/db"), from_node="c"), "c"),) if has_more else ()
    here.rollout = replace(here.rollout, moves=(*moves, *other))
    here.where["/new"] = None
    if has_more:
        here.there["c"] = {"/db": tenant()}
        here.there["b"]["/db"], here.where["/db"] = tenant(), "c"
    while not here.orders:
        here.tick()
    here.where["/new"] = "a"
    over = here.play()
    told = "a is not empty: /new is on it"
    assert over.emptied == ["c"] * has_more and over.changes == (told,)
    assert over.state is (RolloutState.DONE if has_more else RolloutState.STOPPED)
    assert over.why == told and over.kept == list(over.moves)
    assert "/new is on node a" in here.events and "node a is empty" not in here.events
