# SPDX-License-Identifier: Apache-2.0
"""The rest of a rollout is planned again after each move, and no tenant moves twice."""

from dataclasses import replace

import pytest
from moved_fleet import LIMIT_BYTES, MovedFleet, fleet, move, tenant

from cachepilot.domain.consolidation import Drain, Move, Plans, Rest
from cachepilot.domain.moving import (
    KEEP,
    Check,
    Moved,
    MoveState,
    Rehearsal,
    Rehearsed,
    Rollout,
    RolloutState,
    Verdict,
)
from cachepilot.fleet.moving.holding import pins
from cachepilot.fleet.moving.judging import WINDOWS
from cachepilot.fleet.moving.replan import (
    CHANGES_MAX,
    GONE,
    MOVED,
    NO_ROOM,
    TOOK_IN,
    new_changes,
    replanned,
    rest_of,
    with_changes,
)
from cachepilot.fleet.moving.step import step

AGAIN_S = 10.0


def _goes(cgroup: str, to_node: str, from_node: str = "c", **more: float) -> Move:
    found = replace(move(cgroup), from_node=from_node, to_node=to_node)
    return replace(found, **more)  # type: ignore[arg-type]


def _both(*drains: Drain) -> Plans:
    return Plans(drains, drains)


def _after_the_first() -> Rollout:
    """Return a rollout in which `/kv` left `a`. `/db` and `/web` are to leave `c`."""
    kept = Moved(move("/kv"), "a", MoveState.KEPT)
    others = [Moved(_goes(one, "b"), "c") for one in ("/db", "/web")]
    return Rollout(
        1, 0.0, "alice", (kept, *others), at=1, rehearses=True, is_planned=False
    )  # fmt: skip


def _in_the_middle() -> Rollout:
    """Return a rollout in which `/db` left `c`, which was rehearsed.

    `/web` is to leave `c` as well, and `/kv` is to leave `a`.
    """
    moves = (_goes("/db", "b"), _goes("/web", "b"))
    checks = tuple(Check(one.cgroup, KEEP, 90.0, verdict=Verdict.MET) for one in moves)
    home = Rehearsed("c", checks=checks, most_bytes=(("/db", 4096), ("/web", 4096)))
    rehearsal = Rehearsal((home,), begun_s=1.0, ready_s=2.0, met_s=3.0, moves=moves)
    made = Moved(moves[0], "c", MoveState.KEPT, rehearsal=rehearsal)
    waiting = (Moved(moves[1], "c"), Moved(_goes("/kv", "b", "a"), "a"))
    return Rollout(
        1, 0.0, "alice", (made, *waiting), at=1, rehearses=True, is_planned=False
    )  # fmt: skip


WEB = Drain("c", (_goes("/web", "b"),), 0)
KV = Drain("a", (_goes("/kv", "b", "a"),), 0)


def rehearsed(*cgroups: str) -> MovedFleet:
    here = fleet(*cgroups)
    here.rollout = replace(here.rollout, rehearses=True)
    return here


def test_the_rest_is_planned_again_after_each_move_before_anything_begins() -> None:
    here = rehearsed("/kv", "/web", "/db")
    seen: list[list[str]] = []

    def plan(rest: Rest) -> Plans:
        seen.append([one.cgroup for drain in rest.drains for one in drain.moves])
        kept = [one.move.cgroup for one in here.rollout.kept]
        assert [one.cgroup for one in here.orders] == kept, "nothing else was begun"
        return _both(*rest.drains)

    here.plan = plan
    assert here.play().state is RolloutState.DONE
    assert seen == [["/web", "/db"], ["/db"]]
    rehearsals = [one.rehearsal for one in here.rollout.moves]
    assert rehearsals[0] is not None and rehearsals[1:] == [None, None], "one for all"


def test_a_rollout_that_is_not_planned_yet_begins_nothing_and_can_be_stopped() -> None:
    here = rehearsed("/kv")
    waits = replace(here.rollout, is_planned=False)
    assert step(waits, here.observation()).rollout == waits
    over = step(replace(waits, is_stopping=True), here.observation()).rollout
    assert over.state is RolloutState.STOPPED


def test_a_tenant_that_needs_more_than_rehearsed_is_rehearsed_again() -> None:
    here = rehearsed("/kv", "/web")
    here.plan = lambda _: _both(Drain("a", (replace(move("/web"), limit_bytes=12288),), 0))
    while len(here.orders) < 2:
        here.tick()
    held = {
        one.limit_bytes for at in here.steps for one in pins(at).values() if one.cgroup == "/web"
    }
    assert held == {4096, 12288}
    again = here.rollout.moves[1].rehearsal
    assert again is not None and again.met_s == here.now_s
    assert [one.cgroup for one in again.moves] == ["/web"]
    told = [(one.node, check.cgroup, check.windows) for one in again.nodes for check in one.checks]
    assert told == [("a", "/web", WINDOWS), ("b", "/kv", WINDOWS), ("b", "/own", WINDOWS)]
    assert here.play().emptied == ["a"]


def test_a_rehearsal_that_is_missed_after_the_first_move_keeps_that_move() -> None:
    here = rehearsed("/kv", "/web")
    here.plan = lambda _: _both(Drain("a", (replace(move("/web"), limit_bytes=12288),), 0))
    while not here.rollout.kept:
        here.tick()
    here.squeezed["/web"] = replace(tenant(met=False), limit_bytes=LIMIT_BYTES // 2)
    over = here.play()
    assert [one.state for one in over.moves] == [MoveState.KEPT, MoveState.SKIPPED]
    assert here.where == {"/kv": "b", "/web": "a", "/own": "b"}
    assert over.state is RolloutState.STOPPED
    assert over.why.endswith("(/kv moved before, and that is confirmed)")
    assert over.moves[1].rehearsal is not None and over.moves[1].rehearsal.missed_s == here.now_s


def test_throughput_is_compared_with_that_before_the_first_rehearsal() -> None:
    """With less memory it does 95 of 100, then 87 of 95, which is less than 90% of 100."""
    here = rehearsed("/kv", "/web")
    here.there["a"]["/web"] = here.there["b"]["/web"] = tenant(100.0, slo=False)
    here.squeezed["/web"] = tenant(95.0, slo=False)
    here.plan = lambda _: _both(Drain("a", (replace(move("/web"), limit_bytes=12288),), 0))
    while not here.rollout.kept:
        here.tick()
    here.there["a"]["/web"] = tenant(95.0, slo=False)
    here.squeezed["/web"] = tenant(87.0, slo=False)
    over = here.play()
    assert "/web does 87 op/s, has to keep 90" in over.why


def test_a_rollout_that_can_drain_no_more_ends_and_keeps_its_moves() -> None:
    here = rehearsed("/kv", "/web")
    here.plan = lambda _: _both()
    over = here.play()
    assert [one.state for one in over.moves] == [MoveState.KEPT, MoveState.SKIPPED]
    assert here.where == {"/kv": "b", "/web": "a", "/own": "b"}
    assert (over.state, len(here.orders)) == (RolloutState.STOPPED, 1)
    assert over.why == f"a is not drained: {NO_ROOM} (/kv moved before, and that is confirmed)"
    assert not pins(over)


def test_a_changed_plan_is_followed_and_shown() -> None:
    moves = (_goes("/db", "d", limit_bytes=8192), _goes("/web", "b"))
    found = replanned(_after_the_first(), _both(Drain("c", moves, 0)), 9.0)
    assert [one.move for one in found.moves[1:]] == list(moves)
    assert (found.at, found.is_planned, found.is_over) == (1, True, False)
    assert found.changes == ("/db goes to d, not to b",)


def test_a_node_whose_tenants_fit_no_more_is_not_drained() -> None:
    found = replanned(_after_the_first(), _both(), 9.0)
    assert [one.state for one in found.moves] == ["kept", "skipped", "skipped"]
    assert (found.state, found.ended_s, found.emptied) == (RolloutState.DONE, 9.0, ["a"])
    assert found.why == f"c is not drained: {NO_ROOM}" and found.changes == (found.why,)


def test_a_plan_that_says_the_same_changes_nothing_else() -> None:
    before = _after_the_first()
    moves = tuple(one.move for one in before.moves[1:])
    plans = _both(Drain("c", moves, 0), Drain("z", (_goes("/z", "b", "z"),), 0))
    assert replanned(before, plans, 9.0) == replace(before, is_planned=True)


def test_the_order_is_kept_while_it_drains_the_same_nodes() -> None:
    before = _in_the_middle()
    elsewhere = (Drain("c", (_goes("/web", "d"),), 0), KV)
    found = replanned(before, Plans((WEB, KV), elsewhere), 9.0, AGAIN_S)
    assert found == replace(before, is_planned=True)
    found = replanned(before, Plans((KV,), (WEB,)), 9.0, AGAIN_S)
    assert [one.move.cgroup for one in found.moves if one.state == "waiting"] == ["/kv"]


def test_a_plan_that_empties_more_nodes_is_taken() -> None:
    elsewhere = (Drain("c", (_goes("/web", "d"),), 0), KV)
    found = replanned(_in_the_middle(), Plans((KV,), elsewhere), 9.0, AGAIN_S)
    waiting = [one.move.to_node for one in found.moves if one.state == "waiting"]
    assert waiting == ["d", "b"] and not found.is_rehearsed("c")
    assert found.changes == ("/web goes to d, not to b",)


@pytest.mark.parametrize(("cold_s", "to_node"), [(8.0, "b"), (1.0, "d")])
def test_a_cheaper_plan_is_taken_if_it_pays_for_another_rehearsal(
    cold_s: float, to_node: str
) -> None:
    ordered = (Drain("c", (_goes("/web", "b", cold_s=15.0),), 0), KV)
    cheaper = (Drain("c", (_goes("/web", "d", cold_s=cold_s),), 0), KV)
    found = replanned(_in_the_middle(), Plans(ordered, cheaper), 9.0, AGAIN_S)
    waiting = [one.move.to_node for one in found.moves if one.state == "waiting"]
    assert waiting == [to_node, "b"]


def test_less_memory_than_was_rehearsed_needs_no_other_rehearsal() -> None:
    before = _in_the_middle()
    less = Drain("c", (_goes("/web", "b", limit_bytes=2048),), 0)
    assert replanned(before, _both(less, KV), 9.0) == replace(before, is_planned=True)


def test_the_node_that_is_being_drained_comes_first() -> None:
    found = replanned(_in_the_middle(), _both(KV, WEB), 9.0)
    assert [one.drain for one in found.moves] == ["c", "c", "a"]


def test_a_new_tenant_moves_with_the_others_after_another_rehearsal() -> None:
    moves = (_goes("/web", "b"), _goes("/new", "b"))
    found = replanned(_in_the_middle(), _both(Drain("c", moves, 0), KV), 9.0)
    assert found.changes == ("/new on c came later, and goes to b",)
    assert not found.is_rehearsed("c") and not pins(found)


@pytest.mark.parametrize(
    ("drain", "why"),
    [
        (Drain("c", (_goes("/web", "c"),), 0), NO_ROOM),
        (Drain("c", (_goes("/web", "b"), _goes("/db", "b")), 0), MOVED),
        (Drain("c", (), 0), GONE),
    ],
)
def test_a_plan_that_moves_tenants_back_is_not_followed(drain: Drain, why: str) -> None:
    found = replanned(_in_the_middle(), _both(drain, KV), 9.0)
    assert [one.state for one in found.moves] == ["kept", "skipped", "waiting"]
    assert found.moves[1].why == why


def test_drained_nodes_receive_no_tenants_and_receiving_nodes_are_not_drained() -> None:
    before = _after_the_first()
    full = Moved(_goes("/own", "d", "b"), "b")
    rollout = replace(before, moves=(*before.moves, full))
    plans = _both(
        Drain("c", (_goes("/db", "a"), _goes("/web", "d")), 0),
        Drain("b", (_goes("/own", "d", "b"),), 0),
    )
    found = replanned(rollout, plans, 9.0)
    assert {one.drain: one.why for one in found.moves[1:]} == {"c": NO_ROOM, "b": TOOK_IN}


def test_a_node_that_is_to_be_drained_receives_no_tenants_before() -> None:
    before = _in_the_middle()
    plans = _both(Drain("c", (_goes("/web", "a"),), 0), KV)
    found = replanned(before, plans, 9.0)
    assert [(one.move.to_node, one.state) for one in found.moves[1:]] == [
        ("b", "skipped"), ("a", "waiting"),
    ]  # fmt: skip


def test_a_node_that_sends_nothing_is_not_drained_with_the_reason() -> None:
    found = replanned(_after_the_first(), _both(), 9.0, refused={"c": "node c: stale"})
    assert found.why == "c is not drained: node c: stale"


@pytest.mark.parametrize("count", [0, 1, CHANGES_MAX - 1, CHANGES_MAX, 2 * CHANGES_MAX])
def test_new_changes_are_known_for_any_number_of_earlier_ones(count: int) -> None:
    before = with_changes(_after_the_first(), [f"change {one}" for one in range(count)])
    assert new_changes(before, with_changes(before, ["x", "y"])) == ("x", "y")
    assert new_changes(before, before) == ()


def test_the_planner_gets_the_rest_its_nodes_and_proven_memory() -> None:
    rest = rest_of(_in_the_middle())
    assert rest.drains == (WEB, KV)
    assert rest.drainable == {"a", "c"} and rest.closed == {"c"}
    assert rest.proven == {("b", "/db"): 4096, ("c", "/web"): 4096}
    assert rest_of(replace(_in_the_middle(), moves=_in_the_middle().moves[1:])).proven == {}
