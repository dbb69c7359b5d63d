# SPDX-License-Identifier: Apache-2.0
"""The pins of a rollout are its own: they are in force only while the rollout needs them."""

import sqlite3
from dataclasses import replace

import pytest
from held_fleet import EVERYBODY, Fill, Held, fill, world

from cachepilot.domain.moving import RolloutState
from cachepilot.domain.objectives.objective import Mode, Objective, Objectives
from cachepilot.domain.objectives.pins import Pin
from cachepilot.errors import ConflictError
from cachepilot.fleet.moving.seen.patience import LOST_S

__all__ = ["fill", "world"]
"""Imported fixtures."""
HOUR_S = 3600.0
HELD = ("/kv", "a", 4096, 1)
"""The rollout's pin."""


def operators(until_s: float | None, node: str | None = "a") -> Pin:
    return Pin("/kv", node, None, 8192, until_s)


def test_a_controller_that_starts_again_pins_what_one_before_it_stored(world: Held) -> None:
    assert world.pins() == []
    world.tick()
    assert world.pins() == [HELD]


def test_a_controller_that_starts_again_unpins_what_one_before_it_left(world: Held) -> None:
    world.tick()
    over = replace(world.rollout, state=RolloutState.STOPPED, ended_s=world.now_s)
    world.store.save_rollout(over)
    world.restart()
    assert world.pins() == [HELD]
    world.tick()
    assert world.pins() == []


def test_a_pin_that_ended_is_pinned_again_and_one_that_is_to_end_ends_later(world: Held) -> None:
    world.tick()
    (pin,) = world.store.pins()
    assert pin.until_s is not None
    world.now_s = pin.until_s - LOST_S
    world.tick(0.5)
    (later,) = world.store.pins()
    assert later.until_s is not None and later.until_s > pin.until_s + LOST_S
    world.now_s = later.until_s
    assert not world.fleet.asked().pins
    world.tick()
    assert world.pins() == [HELD]


def test_an_unpin_on_a_full_disk_takes_effect_at_once_and_is_stored_later(
    world: Held, fill: Fill
) -> None:
    world.tick()
    disk = fill()
    assert world.mover.stop().is_stopping
    world.tick()
    assert world.rollout.state is RolloutState.STOPPED and not world.fleet.asked().pins
    world.tick()
    assert not world.fleet.asked().pins and world.store.pins()
    disk.undo()
    world.fleet.set_pin(Pin("/other", "b", None, 8192))
    assert [one.cgroup for one in world.fleet.asked().pins] == ["/other"]
    world.tick()
    assert world.pins() == [("/other", "b", 8192, None)]
    stored = world.store.last_rollout()
    assert stored is not None and stored.is_over


def test_an_operator_may_pin_in_the_place_of_one_that_could_not_be_unpinned(
    world: Held, fill: Fill
) -> None:
    world.tick()
    disk = fill()
    world.mover.stop()
    world.tick()
    disk.undo()
    world.fleet.set_pin(operators(world.now_s + HOUR_S))
    world.tick()
    assert world.pins() == [("/kv", "a", 8192, None)]


@pytest.mark.parametrize("node", ["a", None])
def test_an_operators_earlier_pin_with_an_end_stays(world: Held, node: str | None) -> None:
    mine = operators(world.now_s + HOUR_S, node)
    world.fleet.set_pin(mine)
    world.tick()
    assert world.store.pins() == [mine]
    world.mover.stop()
    world.tick()
    assert world.rollout.is_over and world.store.pins() == [mine]


@pytest.mark.parametrize("node", ["a", None])
@pytest.mark.parametrize("until_s", [None, 1e9 + HOUR_S])
def test_an_operators_pin_replaces_that_of_the_rollout(
    world: Held, node: str | None, until_s: float | None
) -> None:
    world.tick()
    mine = replace(operators(until_s, node), limit_bytes=None, policy="default")
    world.fleet.set_pin(mine)
    world.tick()
    assert world.store.pins() == [mine], "of the limit of the rollout nothing is left"
    world.mover.stop()
    world.tick()
    assert world.store.pins() == [mine]


def test_a_tenant_that_leaves_mode_auto_is_unpinned(world: Held) -> None:
    world.begin_again()
    recommended = Objectives((Objective("/kv", mode=Mode.RECOMMEND),))
    world.fleet.change_objectives(lambda _: recommended)
    world.tick()
    assert world.pins() == []


@pytest.mark.parametrize("node", ["a", None])
def test_it_is_known_whose_limits_operators_decide(world: Held, node: str | None) -> None:
    world.begin_again()
    assert world.operated() == set()
    world.fleet.set_pin(Pin("/kv", "b", None, 8192))
    assert world.operated() == set(), "that is of the tenant on its new node"
    world.fleet.set_pin(operators(world.now_s + HOUR_S, node))
    assert world.operated() == {"/kv"}


def test_it_is_known_which_tenants_the_autopilot_does_not_decide(world: Held) -> None:
    world.begin_again()
    recommended = Objectives((Objective("/kv", mode=Mode.RECOMMEND),))
    world.fleet.change_objectives(lambda _: recommended)
    assert world.operated() == {"/kv"}


def test_an_operator_cannot_unpin_what_a_rollout_holds(world: Held) -> None:
    world.tick()
    with pytest.raises(
        ConflictError, match=r"rollout 1 holds it on node a .allowed: stop the roll"
    ):
        world.fleet.delete_pin("/kv", "a")
    assert world.pins() == [HELD] and world.fleet.before() is None


def test_undo_does_not_restore_pins_of_a_rollout(world: Held) -> None:
    world.begin_again()
    world.fleet.change_objectives(lambda _: Objectives((Objective("/kv", weight=2.0),)))
    world.mover.stop()
    world.tick()
    last = world.fleet.before()
    assert last is not None and last.pins == ()
    world.fleet.undo(last.change)
    assert world.pins() == [] and world.fleet.asked().objectives == EVERYBODY


def test_undo_leaves_the_pins_of_a_rollout_in_force(world: Held) -> None:
    world.fleet.set_pin(Pin("/other", "b", None, 8192))
    world.begin_again()
    last = world.fleet.before()
    assert last is not None
    world.fleet.undo(last.change)
    assert world.pins() == [("/kv", "a", 4096, 2)]


def test_a_pin_that_a_version_before_stored_is_an_operators(world: Held) -> None:
    world.tick()
    (pin,) = world.store.pins()
    world.store.close()
    db = sqlite3.connect(world.path / "c.db")
    db.execute("DROP TABLE rollouts_of_pins")
    db.commit()
    db.close()
    world.restart()
    assert world.store.pins() == [replace(pin, rollout=None)]
    world.mover.stop()
    world.tick()
    assert world.store.pins() == [replace(pin, rollout=None)]
