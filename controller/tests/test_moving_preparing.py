# SPDX-License-Identifier: Apache-2.0
"""The target reads the page cache of a tenant before it moves, or the tenant moves cold."""

from dataclasses import replace

import pytest
from moved_fleet import MovedFleet, fleet, tenant

from cachepilot.domain.moving import MoveState, RolloutState, Warmth
from cachepilot.fleet.moving.holding import pins, reserves
from cachepilot.fleet.moving.preparing import unwatched
from cachepilot.fleet.moving.seen.observation import Act, Order
from cachepilot.fleet.moving.seen.patience import BEFORE_WINDOWS, LOST_S
from cachepilot.fleet.moving.transitions import BY_OPERATOR

PREPARING_S = 20.0
ALL = [Warmth.LISTING, Warmth.READING, Warmth.READING, Warmth.WARM]
WARM, DROP, MOVE = (Order("/kv", "a", "b", act, 4096) for act in (Act.WARM, Act.DROP, Act.MOVE))


def prepared(reads: list[Warmth | None]) -> MovedFleet:
    here = fleet("/kv")
    here.rollout = replace(here.rollout, preparing_s=PREPARING_S)
    here.reads = reads
    return here


def _until(here: MovedFleet, state: MoveState) -> None:
    while here.rollout.present is None or here.rollout.present.state is not state:
        assert not here.rollout.is_over, here.rollout.why
        here.tick()


def test_a_tenant_moves_once_its_page_cache_is_read() -> None:
    here = prepared([*ALL])
    over = here.play()
    assert over.state is RolloutState.DONE
    assert here.orders == [DROP] + [WARM] * 4 + [replace(MOVE, most_bytes=0)]
    moved = over.moves[0]
    assert moved.prepared_s is not None and moved.read_s is not None and moved.begun_s is not None
    # All tenants are measured again before the move.
    assert moved.read_s - moved.prepared_s == 5.0
    assert moved.begun_s - moved.read_s == BEFORE_WINDOWS
    assert "b reads the page cache of /kv, which is to come" in here.events


def test_a_tenant_moves_cold_if_reading_takes_too_long() -> None:
    here = prepared([Warmth.LISTING])
    over = here.play()
    assert (over.state, over.moves[0].read_s) == (RolloutState.DONE, None)
    moved = over.moves[0]
    assert moved.begun_s is not None and moved.prepared_s is not None
    assert moved.begun_s - moved.prepared_s == PREPARING_S + 1 + BEFORE_WINDOWS
    told = "the page cache of /kv is cold on b: it is not read after 20 s"
    assert told in here.events and told in over.changes
    assert here.orders.count(DROP) == 1, "what was read so far is of use"


def test_a_tenant_moves_cold_if_its_pages_cannot_be_read() -> None:
    here = prepared([None])
    _until(here, MoveState.PREPARING)
    here.refusal = "the disk is full"
    here.tick()
    here.refusal = ""
    over = here.play()
    assert over.state is RolloutState.DONE
    assert "the page cache of /kv is cold on b: the disk is full" in here.events
    assert here.orders[-2:] == [DROP, replace(MOVE, most_bytes=0)]


def test_a_target_that_gives_up_is_not_asked_again() -> None:
    here = prepared([Warmth.READING, Warmth.LISTING])
    assert here.play().state is RolloutState.DONE
    assert "the page cache of /kv is cold on b: b gave it up" in here.events
    assert [one.act for one in here.orders] == [Act.DROP, Act.WARM, Act.WARM, Act.DROP, Act.MOVE]


@pytest.mark.parametrize("crashed", range(6))
def test_a_controller_that_starts_again_goes_on(crashed: int) -> None:
    whole = prepared([*ALL])
    whole.play()
    here = prepared([*ALL])
    begun = next(at for at, one in enumerate(whole.steps) if one.moves[0].prepared_s)
    here.crashes = {begun + crashed + 1}
    assert here.play().state is RolloutState.DONE
    assert (here.where["/kv"], here.orders[-1].act) == ("b", Act.MOVE)


def test_read_pages_are_dropped_if_no_tenant_moves() -> None:
    here = prepared([Warmth.READING])
    _until(here, MoveState.PREPARING)
    here.rollout = replace(here.rollout, is_stopping=True)
    over = here.play()
    assert (over.state, over.why) == (RolloutState.STOPPED, BY_OPERATOR)
    assert (over.moves[0].state, here.orders[-1], here.where["/kv"]) == ("waiting", DROP, "a")


@pytest.mark.parametrize("node", ["a", "b"])
def test_a_node_that_is_lost_meanwhile_stops_it_and_a_gap_does_not(node: str) -> None:
    here = prepared([Warmth.READING])
    _until(here, MoveState.PREPARING)
    here.lost.add(node)
    for _ in range(5):
        here.tick()
    assert (here.rollout.state, here.rollout.why) == (RolloutState.RUNNING, f"node {node}: stale")
    here.lost.clear()
    here.tick()
    here.tick()
    assert not here.rollout.why
    here.lost.add(node)
    begun_s = here.now_s
    assert here.play().state is RolloutState.STOPPED
    assert (here.orders[-1], here.where["/kv"]) == (DROP, "a")
    assert LOST_S < here.now_s - begun_s < LOST_S + 3


@pytest.mark.parametrize("at", ["read", "refused"])
def test_read_pages_are_dropped_if_the_move_ends_later(at: str) -> None:
    here = prepared([Warmth.WARM])
    _until(here, MoveState.PREPARING)
    _until(here, MoveState.WAITING)
    if at == "read":
        here.rollout = replace(here.rollout, is_stopping=True)
        assert here.play().state is RolloutState.STOPPED
    else:
        _until(here, MoveState.MOVING)
        # The move was not carried out, and is refused.
        here.where["/kv"], here.refused = "a", "the disk is full"
        assert here.play().state is RolloutState.FAILED
    assert here.orders[-1] == DROP


def test_time_without_a_controller_does_not_count() -> None:
    here = prepared([Warmth.READING])
    _until(here, MoveState.PREPARING)
    here.tick()
    left_s = PREPARING_S - (here.now_s - (here.rollout.moves[0].prepared_s or 0.0))
    here.now_s += 1000.0
    here.rollout = unwatched(here.rollout, here.now_s)
    begun_s = here.now_s
    _until(here, MoveState.WAITING)
    assert here.now_s - begun_s == left_s + 1


def test_a_tenant_that_another_program_moves_ends_the_rollout() -> None:
    here = prepared([Warmth.READING])
    _until(here, MoveState.PREPARING)
    here.where["/kv"] = "b"
    over = here.play()
    assert (over.state, over.why) == (RolloutState.STOPPED, "/kv is on b already")
    assert here.orders[-1] == DROP


def test_room_is_kept_for_what_is_read() -> None:
    here = prepared([Warmth.READING])
    here.rollout = replace(here.rollout, spreads=True)
    _until(here, MoveState.PREPARING)
    assert reserves(here.rollout) == {"b": {"/kv": 4096}}
    assert ("/kv", "b") in pins(here.rollout)
    here.reads = [Warmth.WARM]
    _until(here, MoveState.WAITING)
    assert reserves(here.rollout) == {"b": {"/kv": 4096}} and ("/kv", "b") in pins(here.rollout)
    over = here.play()
    assert not reserves(over) and not pins(over)


def test_a_tenant_that_does_nothing_goes_though_its_page_cache_was_read() -> None:
    here = prepared([*ALL])
    here.rollout = replace(here.rollout, spreads=True)
    for node in "ab":
        here.there[node]["/kv"] = replace(tenant(met=None), ops=None)
    over = here.play()
    assert (over.state, over.moves[0].read_s is None) == (RolloutState.DONE, False)
    assert here.where["/kv"] == "b"


@pytest.mark.parametrize("ops", [None, 0.0])
def test_a_page_cache_that_is_read_is_not_the_tenant(ops: float | None) -> None:
    """Its cgroup exists before the tenant does. Pages are accessed there, and nothing else."""
    here = prepared([*ALL])
    here.there["b"]["/kv"] = replace(tenant(met=None), ops=ops)
    _until(here, MoveState.MOVING)
    for _ in range(5):
        here.tick()
    assert here.rollout.moves[0].state is MoveState.MOVING
    here.there["b"]["/kv"] = tenant()
    over = here.play()
    assert over.state is RolloutState.DONE
    begun_s, arrived_s = over.moves[0].begun_s, over.moves[0].arrived_s
    assert begun_s is not None and arrived_s == begun_s + 6


def test_nothing_is_read_where_that_is_not_asked_or_nothing_is_cold() -> None:
    here = prepared([Warmth.WARM])
    here.rollout = replace(here.rollout, preparing_s=0.0)
    here.play()
    assert [one.act for one in here.orders] == [Act.MOVE]
    here = prepared([Warmth.WARM])
    first = here.rollout.moves[0]
    warm = replace(first, move=replace(first.move, cold_pages=0))
    here.rollout = replace(here.rollout, moves=(warm,))
    here.there["b"]["/kv"] = tenant()
    here.play()
    assert [one.act for one in here.orders] == [Act.MOVE]
