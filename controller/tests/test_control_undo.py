# SPDX-License-Identifier: Apache-2.0
"""An order says what it costs before it takes effect, and a person's change can be undone."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World

from cachepilot.api.service import UnknownError
from cachepilot.api.shapes.errors import ACCEPTABLE
from cachepilot.api.shapes.questions import Apply, Pin
from cachepilot.domain.decisions import Decision, Event, Setting
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.past.change import ChangeKind, ChangeRow, ChangeState
from cachepilot.errors import ConflictError, InputError
from cachepilot.node.shown.changes import Topic
from cachepilot.store.stated import CHANGES_MAX
from cachepilot.store.store import Store

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256))
SLO = Objective("/a", hit_ratio=0.5)
"""Needs 100 MiB."""


def a_world(path: Path, *objectives: Objective) -> World:
    first = PlantTenant("/a", {"default": linear(200 * MIB), "lfu": linear(190 * MIB)}, 128 * MIB)
    other = PlantTenant("/b", {"default": linear(150 * MIB)}, 128 * MIB)
    stated = objectives or (SLO, Objective("*"))
    world = World(path, Plant([first, other], 256 * MIB, SIZES), stated)
    world.run(5)
    return world


def stated(world: World) -> tuple[Objectives, list[object]]:
    return world.service.objectives(), list(world.store.pins())


@pytest.mark.parametrize(("cgroup", "mib"), [("/a", 16), ("/b", 180)])
def test_a_pin_that_misses_an_slo_says_what_it_costs(tmp_path: Path, cgroup: str, mib: int) -> None:
    world = a_world(tmp_path)
    before = stated(world)
    pin = Pin(cgroup=cgroup, limit_bytes=mib * MIB)
    told = rf"^pin {cgroup}: SLO hit_ratio of /a would be missed: 0.5 asked, 0\.\d+ predicted, 0"
    with pytest.raises(ConflictError, match=told):
        world.service.pin(pin)
    assert stated(world) == before
    world.service.pin(pin, accept_missed_slos=True)
    world.run(40)
    assert world.plant.of(cgroup).limit_bytes == mib * MIB


def test_a_pin_that_keeps_every_slo_asks_nothing(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    world.service.pin(Pin(cgroup="/a", limit_bytes=120 * MIB))
    world.service.pin(Pin(cgroup="/a", policy="lfu"))
    # An SLO that is missed already is not reported again.
    world.service.set_objective(Objective("/a", hit_ratio=0.99))
    world.run(1)
    world.service.pin(Pin(cgroup="/a", limit_bytes=121 * MIB))


def test_an_order_is_judged_by_what_was_stated_since_the_last_cycle(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    world.service.set_objective(Objective("/a", hit_ratio=0.6))
    pin = Pin(cgroup="/b", limit_bytes=150 * MIB)
    with pytest.raises(ConflictError, match=r"missed: 0\.6 asked"):
        world.service.pin(pin)
    with pytest.raises(ConflictError, match=r"missed: 0\.6 asked"):
        world.service.apply(Apply(node="plant", limit_bytes={"/b": 150 * MIB}))
    world.service.set_objective(SLO)
    world.service.pin(pin)


def test_changes_are_undone_one_by_one_also_after_a_restart(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    seen = [stated(world)]
    world.service.pin(Pin(cgroup="/b", limit_bytes=64 * MIB))
    seen.append(stated(world))
    world.service.delete_objective("/a")
    seen.append(stated(world))
    world.service.unpin("/b")
    assert "pin /b" in world.service.last_change().what
    for earlier in reversed(seen):
        world.restart()
        world.run(1)
        world.service.undo(world.service.last_change().change)
        assert stated(world) == earlier
    with pytest.raises(UnknownError, match="no change of objectives or pins"):
        world.service.undo()


def test_an_undo_that_misses_an_slo_says_what_it_costs(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    world.service.pin(Pin(cgroup="/a", limit_bytes=16 * MIB), accept_missed_slos=True)
    world.service.unpin("/a")
    world.run(1)
    before = stated(world)
    told = r"^undo \d+ \(pin /a: .*\): SLO hit_ratio of /a would be missed: 0.5 asked, 0\.\d+ pred"
    with pytest.raises(ConflictError, match=told) as refused:
        world.service.undo()
    assert str(refused.value).endswith(ACCEPTABLE) and stated(world) == before
    world.service.undo(accept_missed_slos=True)
    assert [one.limit_bytes for one in world.store.pins()] == [16 * MIB]
    # An undo that removes the cost needs no confirmation.
    world.service.undo()


def test_a_revert_that_misses_an_slo_says_what_it_costs(tmp_path: Path) -> None:
    """The setting before the change met no SLO."""
    world = a_world(tmp_path)
    before = Setting("default", 16 * MIB)
    now = Setting("default", world.plant.of("/a").limit_bytes)
    kept = Decision(0.0, "/a", Event.KEPT, before, now, "for its SLO")
    world.store.save("plant", 1, 0.0, [kept])
    row = ChangeRow(ChangeKind.MEMORY, ChangeState.CONFIRMED, "plant", "/a", 1.0, 2.0)
    row.from_limit_bytes, row.to_limit_bytes = before.limit_bytes, now.limit_bytes
    world.store.save_changes([(row, None)])
    decision = world.store.history("/a", None, 1)[0].id
    for order, number in (
        (world.service.revert, decision),
        (world.service.revert_change, row.id),
    ):
        told = "^pin /a: SLO hit_ratio of /a would be missed"
        with pytest.raises(ConflictError, match=told):
            order(number)
        assert world.store.pins() == []
        assert order(number, accept_missed_slos=True).limit_bytes == 16 * MIB
        world.service.unpin("/a", "plant")


def test_a_later_change_by_another_person_is_not_undone(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    world.service.pin(Pin(cgroup="/b", limit_bytes=64 * MIB))
    mine = world.service.last_change().change
    world.service.pin(Pin(cgroup="/b", policy="default"))
    before = stated(world)
    with pytest.raises(ConflictError, match="the last change is"):
        world.service.undo(mine)
    assert stated(world) == before


def test_a_change_keeps_its_number_when_others_change_something(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    others = iter((Objective("/b", weight=7.0),))

    def change_too(topic: Topic, _node: str) -> None:
        if topic is Topic.ASKED and (other := next(others, None)) is not None:
            world.service.set_objective(other)

    world.fleet.changes.listen(change_too)
    done = world.service.apply(Apply(node="plant", limit_bytes={"/b": 100 * MIB}))
    last = world.service.last_change()
    assert "weight" in last.what and done.change == last.change - 1
    with pytest.raises(ConflictError):
        world.service.undo(done.change)


def test_an_unreadable_change_cannot_be_undone_and_blocks_no_other(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    for weight in (2.0, 3.0):
        world.service.set_objective(Objective("/b", weight=weight))
    with world.store.together():
        world.store._rows("UPDATE stated_before SET objectives = ? WHERE id = 2", '{"later": 1}')
    world.service.pin(Pin(cgroup="/b", limit_bytes=64 * MIB))
    world.service.undo()
    with pytest.raises(UnknownError):
        world.service.undo()
    assert [kind for kind, _, _ in world.store.kept_aside()] == ["change"]
    assert world.service.objectives().of("/b").weight == 3


def test_a_pin_that_ended_meanwhile_stays_away(tmp_path: Path) -> None:
    wall = [1e9]
    world = a_world(tmp_path)
    world.store.close()
    world.store = Store(world.path, clock=lambda: wall[0])
    world.begin()
    world.run(1)
    world.service.pin(Pin(cgroup="/b", limit_bytes=64 * MIB, until_s=1e9 + 60))
    world.service.delete_objective("/a")
    wall[0] += 61
    world.run(1)
    world.service.undo()
    assert world.store.pins() == [] and world.service.objectives().tenants[0] == SLO


def test_the_store_keeps_so_many_changes_and_no_more(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    for weight in range(1, CHANGES_MAX + 10):
        world.service.set_objective(Objective("/b", weight=float(weight) + 1))
    for _ in range(CHANGES_MAX):
        world.service.undo()
    with pytest.raises(UnknownError):
        world.service.undo()


def test_a_what_if_is_applied_as_one_change_that_ends(tmp_path: Path) -> None:
    wall = [1e9]
    world = a_world(tmp_path)
    world.store.close()
    world.store = Store(world.path, clock=lambda: wall[0])
    world.begin()
    world.run(1)
    before = stated(world)
    asked = Apply(
        node="plant",
        policy={"/a": "lfu"},
        limit_bytes={"/a": 120 * MIB, "/b": 100 * MIB},
        throughput_ops={"/b": 100.0},
        hold_s=600.0,
    )
    done = world.service.apply(asked)
    assert done.until_s == 1e9 + 600 and len(done.pins) == 2
    assert done.change == world.service.last_change().change
    world.run(5)
    one = world.plant.of("/a")
    assert (one.policy, one.limit_bytes) == ("lfu", 120 * MIB)
    assert world.service.objectives().of("/b").throughput_ops == 100.0
    world.service.undo(done.change)
    assert stated(world) == before
    world.service.apply(asked)
    wall[0] += 601
    world.run(2)
    assert world.store.pins() == []


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"budget_bytes": 512 * MIB}, "budget_bytes: the agent's configuration states it"),
        ({}, "nothing is asked that could be applied"),
        ({"limit_bytes": {"/a": 120 * MIB}, "hold_s": 1.0}, "hold_s: 1.0 .allowed: 60 to"),
        ({"limit_bytes": {"/c": 120 * MIB}}, "'/c' is no tenant"),
        ({"limit_bytes": {"/a": 4096}}, "limit 4 KiB is below 1 MiB, what cannot be reclaimed"),
        ({"policy": {"/a": "mru"}}, "'mru' has no curve"),
        ({"limit_bytes": {"/a": 16 * MIB}}, "SLO hit_ratio of /a would be missed"),
        ({"throughput_ops": {"/b": -1.0}}, "throughput_ops: /b: -1.0"),
    ],
)
def test_a_what_if_that_cannot_be_applied_changes_nothing(
    tmp_path: Path, changes: dict[str, object], why: str
) -> None:
    world = a_world(tmp_path)
    before = stated(world)
    with pytest.raises(InputError, match=why):
        world.service.apply(Apply.model_validate({"node": "plant", **changes}))
    assert stated(world) == before
