# SPDX-License-Identifier: Apache-2.0
"""A snapshot without a tenant ends no check of it: the agent may fail to read a cgroup once."""

from dataclasses import replace

import pytest
from moved_fleet import LIMIT_BYTES, MovedFleet, fleet, tenant

from cachepilot.domain.moving import MoveState, RolloutState
from cachepilot.fleet.moving.holding import pins
from cachepilot.fleet.moving.judging import WINDOWS
from cachepilot.fleet.moving.seen.patience import BEFORE_WINDOWS, LOST_S

MISSES = replace(tenant(met=False), limit_bytes=LIMIT_BYTES // 2)
ALL = {"/kv", "/web", "/own"}


def rehearsed() -> MovedFleet:
    here = fleet("/kv", "/web")
    here.rollout = replace(here.rollout, rehearses=True)
    return here


def _until(here: MovedFleet, state: MoveState) -> None:
    while here.rollout.present is None or here.rollout.present.state is not state:
        assert not here.rollout.is_over, here.rollout.why
        here.tick()


def _lacks(here: MovedFleet, who: set[str], ticks: int = 1) -> None:
    here.hidden = who
    for _ in range(ticks):
        here.tick()
    here.hidden = set()


def _until_judged(here: MovedFleet) -> None:
    """Tick until the snapshot before the first that is judged in a rehearsal."""
    while (rehearsal := here.rollout.moves[0].rehearsal) is None or rehearsal.ready_s is None:
        assert not here.rollout.is_over
        here.tick()


def test_a_neighbour_that_one_snapshot_lacks_is_judged_all_the_same() -> None:
    here = fleet("/kv")
    _until(here, MoveState.WARMING)
    while here.rollout.moves[0].looks < 2:
        here.tick()
    _lacks(here, {"/own"})
    here.there["b"]["/own"] = tenant(met=False)
    over = here.play()
    assert over.state is RolloutState.TURNED_BACK
    assert "/own meets throughput_ops 90 in 2 of 4 windows" in over.why


def test_a_removed_tenant_is_not_judged_any_more() -> None:
    here = fleet("/kv")
    _until(here, MoveState.WARMING)
    here.where["/own"] = None
    over = here.play()
    assert over.state is RolloutState.DONE
    assert [one.cgroup for one in over.moves[0].checks] == ["/kv"]
    warm_s, ended_s = over.moves[0].warm_s, over.moves[0].ended_s
    assert warm_s is not None and ended_s is not None and ended_s - warm_s == LOST_S


@pytest.mark.parametrize("who", [{"/own"}, {"/web"}, ALL])
def test_a_rehearsal_whose_snapshot_lacks_tenants_is_not_passed_for_that(who: set[str]) -> None:
    here = rehearsed()
    _until_judged(here)
    _lacks(here, who)
    assert here.rollout.moves[0].state is MoveState.REHEARSING
    here.squeezed = dict.fromkeys(who, MISSES)
    over = here.play()
    assert (over.state, here.orders) == (RolloutState.STOPPED, [])
    assert all(f"{one} meets throughput_ops 90 in 0 of 2" in over.why for one in who)


@pytest.mark.parametrize("who", ["/own", "/web"])
def test_checks_of_a_rehearsal_do_not_depend_on_one_snapshot(who: str) -> None:
    here = rehearsed()
    here.squeezed[who] = MISSES
    while not pins(here.rollout):
        here.tick()
    here.hidden = {who}
    _until_judged(here)
    here.hidden = set()
    over = here.play()
    assert (over.state, here.orders) == (RolloutState.STOPPED, [])


def test_checks_after_a_move_do_not_depend_on_the_snapshot_of_its_order() -> None:
    here = rehearsed()
    here.there["b"]["/two"], here.where["/two"] = tenant(), "b"
    _until_judged(here)
    for _ in range(WINDOWS - 1):
        here.tick()
    _lacks(here, {"/own"})
    assert not here.orders
    # All tenants except `/own` were judged before.
    _lacks(here, {"/two"})
    assert here.orders
    assert [one.cgroup for one in here.rollout.moves[0].checks] == ["/kv", "/own", "/two"]


@pytest.mark.parametrize("who", ["/own", "/kv"])
@pytest.mark.parametrize("at", [1, BEFORE_WINDOWS - 1, BEFORE_WINDOWS])
def test_measurements_before_a_move_survive_a_missing_snapshot(at: int, who: str) -> None:
    here = fleet("/kv")
    while here.now_s < 1000.0 + at - 1:
        here.tick()
    _lacks(here, {who})
    while not here.orders:
        assert not here.rollout.is_over
        here.tick()
    assert here.rollout.moves[0].begun_s == 1000.0 + BEFORE_WINDOWS + 1
    told = [(one.cgroup, one.before_ops) for one in here.rollout.moves[0].checks]
    assert told == [("/kv", 100.0), ("/own", 100.0)]


def test_a_neighbour_that_only_the_last_snapshot_before_an_order_lacks_is_judged() -> None:
    here = fleet("/kv")
    _lacks(here, {"/kv"})
    for _ in range(BEFORE_WINDOWS - 1):
        here.tick()
    _lacks(here, {"/own"})
    assert here.orders
    assert [one.cgroup for one in here.rollout.moves[0].checks] == ["/kv", "/own"]


def test_a_tenant_that_its_node_does_not_show_is_not_moved() -> None:
    here = rehearsed()
    _until_judged(here)
    for _ in range(WINDOWS - 1):
        here.tick()
    here.hidden = {"/kv", "/web"}
    over = here.play()
    assert (over.state, here.orders) == (RolloutState.STOPPED, [])
    assert over.why == "nothing is measured of /kv on a"
