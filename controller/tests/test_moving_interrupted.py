# SPDX-License-Identifier: Apache-2.0
"""A rehearsal on a full disk, and after a time without a controller."""

from held_fleet import Fill, Held, fill, world
from moved_fleet import drain

from cachepilot.domain.moving import MoveState, RolloutState
from cachepilot.fleet.moving.judging import WINDOWS
from cachepilot.fleet.moving.seen.patience import LOST_S

__all__ = ["fill", "world"]
"""Imported fixtures."""


def test_a_missed_rehearsal_returns_memory_on_a_full_disk(world: Held, fill: Fill) -> None:
    world.tick()
    disk, world.met = fill(), False
    for _ in range(WINDOWS):
        world.tick()
    assert world.rollout.state is RolloutState.STOPPED and not world.fleet.asked().pins
    assert world.state() is MoveState.SKIPPED
    disk.undo()
    world.tick()
    assert world.store.last_rollout() == world.rollout and world.pins() == []


def test_no_tenant_moves_after_a_rehearsal_whose_end_cannot_be_stored(
    world: Held, fill: Fill
) -> None:
    world.tick()
    disk = fill()
    for _ in range(2 * WINDOWS):
        world.tick()
    assert world.state() is MoveState.REHEARSING
    assert (world.path / "nodes" / "a" / "kv.toml").exists()
    disk.undo()
    world.tick()
    assert world.state() is MoveState.MOVING


def test_no_memory_is_taken_that_cannot_be_stored(world: Held, fill: Fill) -> None:
    world.mover.stop()
    world.tick()
    world.mover.begin([drain("/kv")])
    world.tick()
    disk = fill()
    for _ in range(2 * WINDOWS):
        world.tick()
    assert world.rollout.moves[0].rehearsal is not None
    assert world.rollout.moves[0].rehearsal.begun_s is None and not world.fleet.asked().pins
    disk.undo()
    world.tick()
    assert world.pins() == [("/kv", "a", 4096, 2)]


def test_a_rehearsal_takes_memory_again_after_a_time_without_a_controller(
    world: Held,
) -> None:
    world.tick()
    world.tick()
    world.restart()
    world.tick(2 * LOST_S)
    found = world.rollout.moves[0].rehearsal
    assert found is not None and (found.begun_s, found.ready_s) == (world.now_s, None)
    assert not any(one.checks or one.most_bytes for one in found.nodes)
    while not world.rollout.moves[0].begun_s:
        world.tick()
    assert found.begun_s is not None and world.now_s - found.begun_s > WINDOWS
