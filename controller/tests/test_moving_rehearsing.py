# SPDX-License-Identifier: Apache-2.0
"""A drain is rehearsed before any tenant moves."""

from dataclasses import replace

import pytest
from moved_fleet import COLD_S, LIMIT_BYTES, MovedFleet, fleet, move, tenant

from cachepilot.domain.moving import (
    Before,
    Check,
    Moved,
    MoveState,
    Refuted,
    Rehearsal,
    Rehearsed,
    Rollout,
    RolloutState,
    Verdict,
)
from cachepilot.fleet.moving.holding import pins, reserves
from cachepilot.fleet.moving.judging import WINDOWS
from cachepilot.fleet.moving.rehearsing import begun, untried
from cachepilot.fleet.moving.replan import rest_of
from cachepilot.fleet.moving.seen.observation import NodeSeen, Observation
from cachepilot.fleet.moving.seen.patience import BEFORE_WINDOWS, LOST_S

MISSES = replace(tenant(met=False), limit_bytes=LIMIT_BYTES // 2)


def rehearsed(*cgroups: str) -> MovedFleet:
    here = fleet(*cgroups)
    here.rollout = replace(here.rollout, rehearses=True)
    return here


def test_no_tenant_moves_before_all_were_measured_with_their_new_memory() -> None:
    here = rehearsed("/kv", "/web")
    held: set[tuple[str, str]] = set()
    while not here.orders:
        here.tick()
        held.update(pins(here.rollout))
    first = here.rollout.moves[0]
    assert held == {("/kv", "a"), ("/web", "a"), ("/kv", "b")}
    assert first.rehearsal is not None and first.rehearsal.met_s == here.now_s
    told = [(one.node, c.cgroup, c.windows) for one in first.rehearsal.nodes for c in one.checks]
    assert told == [("a", "/kv", WINDOWS), ("a", "/web", WINDOWS), ("b", "/own", WINDOWS)]
    assert here.now_s - 1000.0 >= BEFORE_WINDOWS + COLD_S + WINDOWS
    assert reserves(here.rollout) == {"b": {"/kv": 4096, "/web": 4096}}
    over = here.play()
    assert (over.state, over.why) == (RolloutState.DONE, "all moves were confirmed")
    assert not pins(over) and not reserves(over)


@pytest.mark.parametrize("who", ["/web", "/own"])
def test_a_missed_slo_in_the_rehearsal_prevents_all_moves(who: str) -> None:
    here = rehearsed("/kv", "/web")
    here.squeezed[who] = MISSES
    over = here.play()
    assert (over.state, over.emptied, here.orders) == (RolloutState.STOPPED, [], [])
    assert [one.state for one in over.moves] == [MoveState.SKIPPED, MoveState.SKIPPED]
    node = "b" if who == "/own" else "a"
    assert f"in the rehearsal on {node} {who} meets throughput_ops 90 in 0 of 2" in over.why
    assert over.changes == (f"a is not drained: {over.moves[0].why}",)
    (found,) = over.refuted
    had = 4096 if who == "/web" else LIMIT_BYTES // 2
    told = (found.node, found.cgroup, found.limit_bytes, found.had_bytes)
    assert told == (node, who, had, LIMIT_BYTES)
    assert found.least_bytes == (had + LIMIT_BYTES) // 2
    assert not pins(over) and not reserves(over)


def test_the_throughput_before_the_rehearsal_is_kept_after_the_move() -> None:
    """A tenant without an SLO is compared with its throughput with all of its memory."""
    here = rehearsed("/kv")
    here.there["a"]["/kv"] = here.there["b"]["/kv"] = tenant(100.0, slo=False)
    here.squeezed["/kv"] = tenant(92.0, slo=False)
    here.there["b"]["/kv"] = tenant(85.0, slo=False)
    over = here.play()
    assert over.state is RolloutState.TURNED_BACK
    assert "/kv does 85 op/s, has to keep 90" in over.why


def test_a_tenant_that_misses_its_slo_before_the_rehearsal_may_move() -> None:
    here = rehearsed("/kv")
    here.there["a"]["/kv"] = tenant(met=False)
    assert here.play().state is RolloutState.DONE


def test_an_slo_that_is_missed_on_the_target_as_it_is_takes_no_memory() -> None:
    here = rehearsed("/kv")
    here.there["b"]["/own"] = tenant(met=False)
    held = []
    while not here.rollout.is_over:
        here.tick()
        held.append(pins(here.rollout))
    assert here.rollout.state is RolloutState.STOPPED and not any(held)
    assert "an SLO of /own on b is missed already" in here.rollout.why


@pytest.mark.parametrize("after_s", [3, BEFORE_WINDOWS + 2, BEFORE_WINDOWS + COLD_S + 8])
@pytest.mark.parametrize("how", ["stop", "lost"])
def test_a_rehearsal_that_ends_early_moves_no_tenant(after_s: float, how: str) -> None:
    here = rehearsed("/kv")
    while here.now_s < 1000.0 + after_s:
        here.tick()
    assert here.rollout.moves[0].state is MoveState.REHEARSING
    if how == "stop":
        here.rollout = replace(here.rollout, is_stopping=True)
    else:
        here.lost = {"b"}
    begun_s = here.now_s
    over = here.play()
    assert over.state is RolloutState.STOPPED and here.where["/kv"] == "a"
    assert (here.now_s - begun_s <= 1) == (how == "stop")
    assert here.now_s - begun_s <= LOST_S + 2 and not pins(over)


@pytest.mark.parametrize("node", ["a", "b"])
def test_a_rehearsal_of_which_a_node_measures_nothing_ends(node: str) -> None:
    """The control cycles of the node fail. It is not lost, and keeps its last report."""
    here = rehearsed("/kv")
    while (rehearsal := here.rollout.moves[0].rehearsal) is None or rehearsal.ready_s is None:
        here.tick()
    here.tick()
    here.stuck = {node: here.now_s}
    begun_s = here.now_s
    over = here.play()
    assert (over.state, over.why) == (RolloutState.STOPPED, f"node {node}: nothing is measured")
    assert here.orders == [] and not pins(over)
    assert LOST_S < here.now_s - begun_s < LOST_S + 2


def test_nodes_that_report_in_turns_do_not_end_a_rehearsal() -> None:
    here = rehearsed("/kv")
    while not here.orders:
        assert not here.rollout.is_over, here.rollout.why
        turn = here.ticks % 2
        here.stuck = {"ab"[turn]: here.now_s - turn}
        here.tick()
    here.stuck = {}
    assert here.play().state is RolloutState.DONE


def test_a_rehearsal_proves_only_judged_tenants_with_their_planned_memory() -> None:
    here = rehearsed("/kv", "/poor", "/pinned")
    here.there["a"]["/poor"] = tenant(met=False)
    here.kept_limits = {"/pinned"}
    while not here.orders:
        here.tick()
    assert rest_of(here.rollout).proven == {("a", "/kv"): 4096}


def _until_judged(here: MovedFleet) -> None:
    while (rehearsal := here.rollout.moves[0].rehearsal) is None or rehearsal.ready_s is None:
        assert not here.rollout.is_over
        here.tick()


def _refused(here: MovedFleet) -> str:
    """Play a rehearsal that everybody meets and that is not passed; return why."""
    over = here.play()
    assert (over.state, here.orders) == (RolloutState.STOPPED, [])
    assert [one.state for one in over.moves] == [MoveState.SKIPPED, MoveState.SKIPPED]
    rehearsal = over.moves[0].rehearsal
    assert rehearsal is not None and rehearsal.missed_s == here.now_s and rehearsal.met_s is None
    assert not pins(over) and not reserves(over)
    return over.why


def test_a_rehearsal_is_not_passed_with_the_memory_of_before() -> None:
    here = rehearsed("/kv", "/web")
    here.unset_limits = {"/kv"}
    told = "/kv had up to 4 MiB, will have 4 KiB"
    assert _refused(here) == f"a is not drained: in the rehearsal on a {told}"


def test_a_limit_that_is_lost_while_the_rehearsal_is_judged_does_not_pass_it() -> None:
    here = rehearsed("/kv", "/web")
    _until_judged(here)
    here.tick()
    here.unset_limits = {"/web"}
    here.tick()
    here.unset_limits = set()
    assert "/web had up to 4 MiB" in _refused(here)


@pytest.mark.parametrize(("pages", "is_tried"), [(256, True), (257, True), (258, False)])
def test_a_limit_that_a_floor_raises_by_a_page_counts_as_the_planned_one(
    pages: int, is_tried: bool
) -> None:
    moves = (replace(move("/kv"), limit_bytes=256 * 4096),)
    checks = (Check("/kv", "keep", 900.0, verdict=Verdict.MET),)
    home = Rehearsed("a", checks=checks, most_bytes=(("/kv", pages * 4096),))
    assert (untried(Rehearsal((home,), moves=moves), ()) == "") is is_tried


def test_a_snapshot_without_the_tenant_does_not_stand_for_its_limit() -> None:
    here = rehearsed("/kv", "/web")
    here.unset_limits = {"/kv"}
    while (rehearsal := here.rollout.moves[0].rehearsal) is None or rehearsal.begun_s is None:
        here.tick()
    here.hidden = {"/kv"}
    for _ in range(int(COLD_S) + 5):
        here.tick()
    here.unset_limits = here.hidden = set()
    assert here.play().state is RolloutState.DONE


def test_another_tenant_of_the_same_path_has_a_baseline_of_its_own() -> None:
    """`/agent` does 100 op/s on `b`; another tenant of that path does 9,000 on `c`."""
    moves = tuple(replace(move(one), to_node=to) for one, to in (("/kv", "b"), ("/web", "c")))
    met = Rehearsal(
        (
            Rehearsed("a", (Before("/kv", 500.0, 10, 10),), (("/kv", 7),)),
            Rehearsed("b", (Before("/agent", 1000.0, 10, 10),), (("/agent", 1),)),
            Rehearsed("c", (Before("/agent", 90000.0, 10, 10),), (("/agent", 2),)),
        ),
        met_s=1.0,
        moves=moves,
    )
    kept = Moved(moves[0], "a", MoveState.KEPT, rehearsal=met)
    left = Moved(replace(moves[1], to_node="b", limit_bytes=8192), "a")
    rollout = Rollout(1, 0.0, "alice", (kept, left), at=1, rehearses=True)
    free = tenant(slo=False)
    seen = {
        "a": NodeSeen(1.0, {"/web": free}),
        "b": NodeSeen(1.0, {"/agent": free, "/kv": free}),
    }
    again = begun(rollout, left, Observation(9.0, "a", "", "", seen))
    told = {(one.node, did.cgroup): did.mean_ops for one in again.nodes for did in one.before}
    assert told == {("b", "/agent"): 100.0, ("b", "/kv"): 50.0}
    assert again.nodes[1].had_bytes == (("/agent", 1), ("/kv", 7))


def test_a_failed_rehearsal_counts_with_the_mean_of_both_limits() -> None:
    assert Refuted("/kv", 10, 30, 0.0).least_bytes == 20
