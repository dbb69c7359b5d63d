# SPDX-License-Identifier: Apache-2.0
"""Rollouts that spread tenants: no rehearsals, and their nodes keep the other tenants."""

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from moved_fleet import MovedFleet, fleet, move, tenant

from cachepilot.domain.consolidation import Drain, Plans, Rest
from cachepilot.domain.json_values import decode, encode
from cachepilot.domain.moving import KEEP, Moved, MoveState, Rollout, RolloutState
from cachepilot.fleet.config import ControllerConfig
from cachepilot.fleet.fleet import Fleet
from cachepilot.fleet.moving.holding import reserves
from cachepilot.fleet.moving.mover import CLOSED_S, Mover
from cachepilot.fleet.moving.seen.observation import NodeSeen, TenantSeen
from cachepilot.fleet.moving.seen.whereabouts import whereabouts
from cachepilot.sense.collect import not_scraped
from cachepilot.store.store import Store


def _spread(*cgroups: str, stays: str = "/stays") -> MovedFleet:
    """Return a fleet in which these tenants leave `a` for `b`, where `/own` is; one stays."""
    found = fleet(*cgroups, stays)
    moves = tuple(Moved(move(one), "a") for one in cgroups)
    found.rollout = Rollout(1, 0.0, "alice", moves, spreads=True)
    return found


@pytest.mark.parametrize("crashes", [set(), {12, 13, 40}])
def test_each_move_is_measured_and_kept_without_a_rehearsal(crashes: set[int]) -> None:
    here = _spread("/1", "/2")
    here.crashes = crashes
    done = here.play()
    assert (done.state, done.why) == (RolloutState.DONE, "all moves were confirmed")
    assert [one.state for one in done.moves] == [MoveState.KEPT, MoveState.KEPT]
    assert (done.emptied, done.others, done.changes) == ([], (), ())
    assert here.where == {"/1": "b", "/2": "b", "/stays": "a", "/own": "b"}
    states = {one.state for step in here.steps for one in step.moves}
    assert MoveState.REHEARSING not in states
    assert all(rest.spreads and "a" in rest.closed for rest in here.rests)
    assert decode(Rollout, json.loads(encode(done))) == done


@pytest.mark.parametrize(
    ("ops", "state"),
    [(60.0, RolloutState.DONE), (58.0, RolloutState.DONE), (40.0, RolloutState.TURNED_BACK)],
)
def test_an_slo_that_is_missed_at_home_may_be_missed_but_not_by_more(
    ops: float, state: RolloutState
) -> None:
    here = _spread("/1")
    here.there["a"]["/1"] = tenant(ops=60.0, met=False)
    here.there["b"]["/1"] = tenant(ops=ops, met=False)
    done = here.play()
    assert done.state is state
    own = next(one for one in done.moves[0].checks if one.cgroup == "/1")
    assert (own.kind, own.target) == (KEEP, 0.9 * 60.0)
    assert here.where["/1"] == ("b" if state is RolloutState.DONE else "a")


def test_an_slo_that_is_met_at_home_has_to_be_met_on_the_target() -> None:
    here = _spread("/1")
    here.there["b"]["/1"] = tenant(met=False)
    done = here.play()
    assert (done.state, list(dict(done.closed))) == (RolloutState.TURNED_BACK, ["b"])
    assert here.where["/1"] == "a"


def test_a_node_with_a_missed_slo_receives_no_tenants_and_the_rest_goes_elsewhere() -> None:
    here = _spread("/1", "/2")
    here.there["b"]["/own"] = tenant(met=False)
    here.there["c"] = dict(here.there["b"])

    def plan(rest: Rest) -> Plans:
        moves = tuple(
            replace(one, to_node="c" if "b" in rest.closed else "b") for one in rest.drains[0].moves
        )
        return Plans([Drain("a", moves, 0)], [Drain("a", moves, 0)])

    here.plan = plan
    done = here.play()
    assert done.state is RolloutState.DONE and list(dict(done.closed)) == ["b"]
    assert (here.where["/1"], here.where["/2"]) == ("c", "c")
    assert done.changes[:2] == (
        "b receives no tenants: an SLO of /own on b is missed already",
        "/1 goes to c, not to b",
    )


def test_a_spread_ends_if_no_other_node_can_be_planned() -> None:
    here = _spread("/1")
    here.there["b"]["/own"] = tenant(met=False)
    here.plan = lambda _: Plans([], [], frozenset("a"))
    done = here.play()
    assert done.state is RolloutState.STOPPED
    assert done.why.startswith("not moved from a: /1: its node stays short, and no other has room")
    assert done.changes[0] == "b receives no tenants: an SLO of /own on b is missed already"


def test_a_tenant_that_need_not_leave_any_more_stays() -> None:
    here = _spread("/1", "/2")
    here.plan = lambda _: Plans([], [])
    done = here.play()
    assert (done.state, here.where["/2"]) == (RolloutState.DONE, "a")
    told = "not moved from a: /2: its node has room for it now, by the latest measurements"
    assert done.why.startswith(told) and done.changes[-1].startswith(told)


def test_a_spread_can_be_stopped_during_a_move() -> None:
    here = _spread("/1", "/2")
    while here.where["/1"] == "a":
        here.tick()
    here.rollout = replace(here.rollout, is_stopping=True)
    assert here.play().state is RolloutState.STOPPED
    assert here.where["/1"] == "a"


@pytest.mark.parametrize("what", ["refused", "lost", "silent", "stopped"])
def test_a_node_that_caused_a_rollback_receives_no_tenants(what: str) -> None:
    here = _spread("/1")
    if what == "refused":
        here.refusal = "the disk is full"
    at = MoveState.WARMING if what == "silent" else MoveState.MOVING
    while here.rollout.moves[0].state is not at and not here.rollout.is_over:
        here.tick()
    if what in ("lost", "silent"):
        here.lost = {"b"}
    if what == "stopped":
        here.rollout = replace(here.rollout, is_stopping=True)
    done = here.play()
    assert here.where["/1"] == "a"
    assert list(dict(done.closed)) == ([] if what == "stopped" else ["b"])


def test_memory_is_reserved_for_a_tenant_that_moves() -> None:
    here = _spread("/1")
    while here.rollout.moves[0].state is MoveState.WAITING:
        assert reserves(here.rollout) == {}
        here.tick()
    assert reserves(here.rollout) == {"b": {"/1": 4096}}
    assert reserves(here.play()) == {}


def test_an_idle_tenant_moves_without_checks_of_its_own() -> None:
    here, idle = _spread("/1", "/2"), replace(tenant(met=None), ops=None)
    for node in "ab":
        here.there[node]["/1"] = idle
    done = here.play()
    assert (done.state, done.why) == (RolloutState.DONE, "all moves were confirmed")
    assert {one.cgroup for one in done.moves[0].checks} == {"/own"}
    assert (here.where["/1"], here.where["/2"]) == ("b", "b")


def test_an_idle_tenant_that_is_to_leave_is_not_waited_for() -> None:
    rollout, idle = _spread("/1").rollout, replace(tenant(met=None), ops=None)
    target = NodeSeen(1.0, {"/own": tenant()})

    def waits(**home: TenantSeen) -> Mapping[str, str]:
        there = {f"/{name}": one for name, one in home.items()}
        seen = {"a": NodeSeen(1.0, there), "b": target}
        return whereabouts(rollout, seen, lambda _: ("a", "")).waits

    assert waits(**{"1": idle, "stays": tenant()}) == {}
    # Its agent has just started.
    assert waits(**{"1": idle, "stays": idle}) == {"a": "nothing is measured of /1"}


def test_a_tenant_that_stays_on_its_node_is_not_waited_for() -> None:
    rollout = _spread("/1").rollout
    seen = {node: NodeSeen(1.0, {"/1": tenant(), "/stays": tenant()}) for node in "ab"}
    found = whereabouts(rollout, seen, lambda one: ("a" if one == "/1" else "elsewhere", ""))
    assert (found.waits, found.refused, found.gone) == ({}, {}, {})


@pytest.mark.parametrize(
    ("where", "why"),
    [
        (("c", ""), "the provider has it on c"),
        ((None, ""), "the provider has it on no node"),
        ((None, "it is on several"), "it is not known where it is: it is on several"),
    ],
)
def test_a_tenant_that_the_provider_does_not_have_is_waited_for_and_stays(
    where: tuple[str | None, str], why: str
) -> None:
    rollout = _spread("/1", "/2").rollout
    seen = {node: NodeSeen(1.0, {"/1": tenant(), "/2": tenant()}) for node in "ab"}
    found = whereabouts(rollout, seen, lambda one: where if one == "/1" else ("a", ""))
    assert (found.waits, found.gone) == ({"a": f"/1: {why}"}, {"/1": why})
    assert (found.refused, found.unseen) == ({}, set())


def test_homes_are_where_tenants_were_before_they_were_drained() -> None:
    def kept(cgroup: str, from_node: str, to_node: str) -> Moved:
        gone = replace(move(cgroup), from_node=from_node, to_node=to_node)
        return Moved(gone, from_node, MoveState.KEPT)

    night = Rollout(1, 0.0, "", (kept("/1", "a", "b"), Moved(move("/2"), "a")))
    assert night.came_from == {"/1": "a"}
    later = replace(night, moves=(kept("/1", "b", "c"), kept("/2", "a", "c")), homes=(("/1", "a"),))
    assert later.came_from == {"/1": "a", "/2": "a"}
    homes = tuple(later.came_from.items())
    morning = Rollout(2, 0.0, "", (kept("/1", "c", "a"),), spreads=True, homes=homes)
    assert morning.came_from == {"/2": "a"}


def test_no_tenant_is_spread_for_an_hour_to_a_node_after_a_rollback_there(tmp_path: Path) -> None:
    now = [10_000.0]
    with closing(Store(tmp_path / "c.db")) as store:
        undone = Rollout(
            1, 0.0, "", (), RolloutState.TURNED_BACK, spreads=True, closed=(("b", 9_000.0),)
        )
        store.save_rollout(undone)
        mover = Mover(
            Fleet(ControllerConfig(store=tmp_path / "c.db"), store, not_scraped),
            None,
            lambda: now[0],
        )
        assert mover.closed == {"b": 9_000.0}
        now[0] += CLOSED_S
        assert mover.closed == {}
