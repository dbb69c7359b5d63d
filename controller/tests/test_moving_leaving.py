# SPDX-License-Identifier: Apache-2.0
"""A node counts as empty only if several snapshots show so after the last tenant left it."""

import json

import pytest
from moved_fleet import MovedFleet, fleet

from cachepilot.domain.json_values import decode, encode
from cachepilot.domain.moving import MoveState, Rollout, RolloutState
from cachepilot.fleet.moving.preparing import unwatched
from cachepilot.fleet.moving.seen.patience import LOST_S

UNSEEN = "it is not known whether a is empty: it sent too few snapshots"
NOT_EMPTY = "a is not empty: /new is on it"


def arrived() -> MovedFleet:
    """Return a fleet in which `/kv`, the last tenant of `a`, has arrived on `b`."""
    here = fleet("/kv", "/new")
    here.rollout = Rollout(1, 0.0, "alice", here.rollout.moves[:1])
    here.where["/new"] = None
    while here.rollout.moves[0].state is not MoveState.WARMING:
        here.tick()
    return here


def until_decided(here: MovedFleet) -> None:
    """Tick until the snapshot before the one that ends an undisturbed rollout."""
    alike = arrived()
    alike.play()
    while here.ticks < alike.ticks - 1:
        here.tick()
    assert not here.rollout.is_over


def test_a_tenant_that_the_last_snapshot_lacks_is_still_on_its_node() -> None:
    here = arrived()
    here.where["/new"] = "a"
    until_decided(here)
    here.hidden = {"/new"}
    here.tick()
    here.hidden = set()
    over = here.play()
    assert (over.state, over.why, over.emptied) == (RolloutState.STOPPED, NOT_EMPTY, [])


def test_a_tenant_that_came_and_went_is_not_on_it() -> None:
    here = arrived()
    here.where["/new"] = "a"
    until_decided(here)
    here.where["/new"] = None
    begun_s = here.now_s
    over = here.play()
    assert (over.state, over.emptied, over.others) == (RolloutState.DONE, ["a"], ())
    assert LOST_S <= here.now_s - begun_s <= LOST_S + 2


@pytest.mark.parametrize("how", ["lost", "stuck"])
@pytest.mark.parametrize("came", [True, False])
def test_a_node_that_sends_nothing_at_the_end_is_waited_for(how: str, came: bool) -> None:
    here = arrived()
    if how == "lost":
        here.lost = {"a"}
    else:
        here.stuck = {"a": here.now_s}
    until_decided(here)
    for _ in range(5):
        here.tick()
    assert not here.rollout.is_over
    here.where["/new"] = "a" if came else None
    here.lost, here.stuck = set(), {}
    over = here.play()
    assert over.emptied == ([] if came else ["a"]) and over.unseen == ()
    assert over.why == (NOT_EMPTY if came else "all moves were confirmed")


def test_a_node_that_stays_lost_does_not_count_as_empty() -> None:
    here = arrived()
    here.lost = {"a"}
    begun_s = here.now_s
    over = here.play()
    assert (over.state, over.emptied, over.unseen) == (RolloutState.STOPPED, [], ("a",))
    assert over.why == UNSEEN and over.changes == (UNSEEN,)
    assert over.moves[0].state is MoveState.KEPT and here.where["/kv"] == "b"
    assert LOST_S <= here.now_s - begun_s <= LOST_S + 2
    assert "node a is empty" not in here.events


def test_time_that_no_controller_watched_is_not_time_without_a_snapshot() -> None:
    here = arrived()
    here.lost = {"a"}
    until_decided(here)
    here.now_s += 10 * LOST_S
    here.rollout = unwatched(decode(Rollout, json.loads(encode(here.rollout))), here.now_s)
    here.tick()
    assert not here.rollout.is_over
    here.lost = set()
    assert here.play().emptied == ["a"]


def test_only_the_last_move_of_a_node_watches_it() -> None:
    here = fleet("/kv", "/web")
    over = here.play()
    assert over.moves[0].left is None
    assert over.moves[1].left is not None and over.emptied == ["a"]
