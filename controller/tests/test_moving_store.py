# SPDX-License-Identifier: Apache-2.0
"""A rollout survives the end of its controller."""

import sqlite3
from dataclasses import replace
from pathlib import Path

from moved_fleet import fleet

from cachepilot.domain.moving import MoveState, Rollout
from cachepilot.fleet.moving.holding import pins
from cachepilot.store.stated import ROLLOUTS_MAX
from cachepilot.store.store import Store


def test_every_state_of_a_rollout_is_read_back_as_it_was(tmp_path: Path) -> None:
    here = fleet("/kv", "/web")
    here.rollout = replace(here.rollout, rehearses=True)
    over = here.play()
    store = Store(tmp_path / "c.db")
    assert store.last_rollout() is None
    for one in here.steps:
        store.save_rollout(one)
        assert store.last_rollout() == one
    store.close()
    store = Store(tmp_path / "c.db")
    assert store.last_rollout() == over
    store.close()


def test_a_rehearsal_that_a_version_before_stored_keeps_its_pins(tmp_path: Path) -> None:
    here = fleet("/kv", "/web")
    here.rollout = replace(here.rollout, rehearses=True)
    while not pins(here.rollout):
        here.tick()
    running = here.rollout
    first = running.moves[0]
    assert first.state is MoveState.REHEARSING and first.rehearsal is not None
    before = replace(first, rehearsal=replace(first.rehearsal, moves=()))
    store = Store(tmp_path / "c.db")
    store.save_rollout(replace(running, moves=(before, *running.moves[1:])))
    assert store.last_rollout() == running
    store.close()


def test_only_the_last_rollouts_are_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db")
    for number in range(1, ROLLOUTS_MAX + 6):
        store.save_rollout(Rollout(number, 0.0, "alice", ()))
    store.close()
    rows = sqlite3.connect(tmp_path / "c.db").execute("SELECT id FROM rollouts").fetchall()
    assert sorted(rows) == [(number,) for number in range(6, ROLLOUTS_MAX + 6)]


def test_an_unreadable_rollout_is_quarantined(tmp_path: Path) -> None:
    store = Store(tmp_path / "c.db")
    store.save_rollout(replace(Rollout(3, 0.0, "alice", ()), why="x"))
    store.close()
    db = sqlite3.connect(tmp_path / "c.db")
    db.execute("UPDATE rollouts SET document = '{}'")
    db.commit()
    db.close()
    store = Store(tmp_path / "c.db")
    assert store.last_rollout() is None
    store.close()
    kinds = sqlite3.connect(tmp_path / "c.db").execute("SELECT kind FROM quarantine").fetchall()
    assert kinds == [("rollout",)]
