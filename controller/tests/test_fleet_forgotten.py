# SPDX-License-Identifier: Apache-2.0
"""Nodes that are silent for long make room for new nodes, and only then."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear

from cachepilot.domain.objectives.pins import Pin
from cachepilot.domain.slos import SloMinute
from cachepilot.domain.units import DAY_S
from cachepilot.fleet import fleet as fleet_module
from cachepilot.fleet.config import ControllerConfig
from cachepilot.fleet.fleet import Fleet, FleetError
from cachepilot.store.schema import OF_NODES
from cachepilot.store.store import Store
from cachepilot.v1 import session_pb2 as wire

KEEP_DAYS = 2.0


class Clock:
    """The clock of the controller's host."""

    def __init__(self) -> None:
        self.now_s = 1e9

    def __call__(self) -> float:
        return self.now_s

    def pass_days(self, days: float) -> None:
        self.now_s += days * DAY_S


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(fleet_module, "NODES_MAX", 2)
    return Clock()


def fleet_of(path: Path, clock: Clock) -> Fleet:
    store = Store(path / "c.db", KEEP_DAYS, clock)
    config = ControllerConfig(store=path / "c.db", keep_days=KEEP_DAYS)
    return Fleet(config, store, lambda indicator: None)


def session(fleet: Fleet, name: str) -> None:
    """Run a session with one snapshot, of a node whose own clock is in 1970."""
    node = Plant([PlantTenant("/a", {"default": linear(MIB)}, MIB)], MIB, (MIB,), time_s=10.0)
    loop = fleet.join(name)
    loop.begin(wire.Hello(node=name))
    loop.cycle(node.snapshot())
    loop.after()
    loop.end()


def test_a_node_that_is_silent_for_long_makes_room(tmp_path: Path, clock: Clock) -> None:
    fleet = fleet_of(tmp_path, clock)
    session(fleet, "a")
    clock.pass_days(1)
    session(fleet, "b")
    fleet.set_pin(Pin(cgroup="/a", node="a", policy="default"))
    windows = [SloMinute("/a", "hit_ratio", 0, 1, 1)]
    for name in ("a", "b"):
        fleet.store.save(name, 1, 10.0, windows=windows)
        fleet.store.save_record(name, 1, b"{}")
    with pytest.raises(FleetError, match=r"node c: too many nodes .*more than 2 days"):
        fleet.join("c")
    clock.pass_days(1.5)
    session(fleet, "c")
    assert list(fleet.loops()) == ["b", "c"]
    assert [row.name for row in fleet.store.nodes()] == ["b", "c"]
    for table in OF_NODES:
        assert not fleet.store._rows(f"SELECT 1 FROM {table} WHERE node = 'a'"), table
    assert fleet.store.windows("b") and fleet.store.record("b", 1)
    assert [pin.node for pin in fleet.store.pins()] == ["a"]


def test_no_node_is_forgotten_while_there_is_room_or_its_session_lasts(
    tmp_path: Path, clock: Clock
) -> None:
    fleet = fleet_of(tmp_path, clock)
    session(fleet, "a")
    fleet.join("a").connected = True
    clock.pass_days(100)
    session(fleet, "b")
    assert list(fleet.loops()) == ["a", "b"]
    with pytest.raises(FleetError):
        fleet.join("c")


def test_a_restart_remembers_since_when_a_node_is_silent(tmp_path: Path, clock: Clock) -> None:
    fleet = fleet_of(tmp_path, clock)
    session(fleet, "a")
    session(fleet, "b")
    clock.pass_days(1.5)
    session(fleet, "b")
    fleet.store.close()
    again = fleet_of(tmp_path, clock)
    clock.pass_days(1)
    session(again, "c")
    assert list(again.loops()) == ["b", "c"]
    again.store.close()


def test_nodes_of_a_store_that_knows_no_such_times_are_heard_of_now(
    tmp_path: Path, clock: Clock
) -> None:
    fleet = fleet_of(tmp_path, clock)
    session(fleet, "a")
    fleet.store._rows("DROP TABLE heard")
    fleet.store.close()
    clock.pass_days(100)
    assert fleet_of(tmp_path, clock).loops()["a"].heard_s == clock.now_s
