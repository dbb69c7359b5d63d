# SPDX-License-Identifier: Apache-2.0
"""A rehearsal in progress, on a fake fleet, with a store on a disk that may be full."""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from moved_fleet import drain, move, tenant

from cachepilot.domain.moving import Check, MoveState, Rehearsal, Rehearsed, Rollout
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.fleet.config import ControllerConfig
from cachepilot.fleet.fleet import Fleet
from cachepilot.fleet.moving import mover as moving
from cachepilot.fleet.moving.folder import FolderProvider
from cachepilot.fleet.moving.holding import pins
from cachepilot.fleet.moving.mover import Mover
from cachepilot.fleet.moving.seen.observation import NodeSeen
from cachepilot.sense.collect import not_scraped
from cachepilot.store.store import Store

EVERYBODY = Objectives((Objective("*"),))
Fill = Callable[[], pytest.MonkeyPatch]


@dataclass
class Held:
    """Node `a` is rehearsed to be drained into `b`: `/kv` has its memory of afterwards."""

    path: Path
    monkeypatch: pytest.MonkeyPatch
    now_s: float = 1e9
    met: bool = True
    store: Store = field(init=False)
    fleet: Fleet = field(init=False)
    mover: Mover = field(init=False)

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            (self.path / "nodes" / name).mkdir(parents=True)
        (self.path / "nodes" / "a" / "kv.toml").write_text('cgroup = "/kv"\n')
        self.monkeypatch.setattr(moving, "node_seen", self._seen)
        self.restart()
        begun = self.mover.begin([drain("/kv")])
        self.fleet.store.save_rollout(self.rehearsed(begun))
        self.restart()

    def _seen(self, name: str, _: object) -> NodeSeen:
        told = replace(tenant(met=self.met), limit_bytes=4096)
        return NodeSeen(self.now_s, {"/kv": told} if name == "a" else {})

    def rehearsed(self, begun: Rollout) -> Rollout:
        """Return the rollout after memory was taken and every tenant was judged."""
        checks = (Check("/kv", "throughput_ops", 90.0, 100.0),)
        nodes = (Rehearsed("a", checks=checks), Rehearsed("b"))
        now_s = self.now_s
        rehearsal = Rehearsal(nodes, now_s, now_s, since_s=now_s, moves=(move("/kv"),))
        moved = replace(begun.moves[0], state=MoveState.REHEARSING, rehearsal=rehearsal)
        return replace(begun, moves=(moved,), since_s=now_s)

    def restart(self) -> None:
        """Start another controller on the same store."""
        if hasattr(self, "store"):
            self.store.close()
        self.store = Store(self.path / "c.db", clock=lambda: self.now_s)
        if self.store.objectives() is None:
            self.store.set_objectives(EVERYBODY)
        config = ControllerConfig(store=self.path / "c.db")
        self.fleet = Fleet(config, self.store, not_scraped)
        for name in ("a", "b"):
            self.fleet.join(name)
        provider = FolderProvider(self.path / "nodes")
        self.mover = Mover(self.fleet, provider, lambda: self.now_s)

    def tick(self, seconds: float = 1.0) -> None:
        self.now_s += seconds
        self.mover.tick()

    def begin_again(self) -> None:
        """Begin another rollout, and run it until it takes memory."""
        self.mover.stop()
        self.tick()
        self.mover.begin([drain("/kv")])
        while not pins(self.rollout):
            self.tick()

    @property
    def rollout(self) -> Rollout:
        assert self.mover.rollout is not None
        return self.mover.rollout

    def state(self) -> MoveState:
        """Return the state of the move."""
        return self.rollout.moves[0].state

    def operated(self) -> frozenset[str]:
        """Return the tenants whose limits operators decide, as the next look of the rollout."""
        moved = self.rollout.present
        assert moved is not None
        return self.mover._look(self.rollout, moved).operated

    def pins(self) -> list[tuple[str, str | None, int | None, int | None]]:
        """Return the pins in force, after checking that the same pins are stored."""
        found = self.fleet.asked().pins
        assert list(found) == self.store.pins()
        return [(one.cgroup, one.node, one.limit_bytes, one.rollout) for one in found]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    found = Held(tmp_path, monkeypatch)
    yield found
    found.store.close()


@pytest.fixture
def fill() -> Iterator[Fill]:
    """Return a function that makes the disk full until its result is undone."""
    patched = pytest.MonkeyPatch()

    def begin(_: Store) -> None:
        full = sqlite3.OperationalError("database or disk is full")
        full.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise full

    def full() -> pytest.MonkeyPatch:
        patched.setattr(Store, "_begin", begin)
        return patched

    yield full
    patched.undo()
