# SPDX-License-Identifier: Apache-2.0
"""The stored state of a node: the whole, and the tenants that changed since."""

import json
import sqlite3
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from experiments.control_loop.plant import MIB, Curve, Plant, PlantTenant, flat
from experiments.control_loop.world import World

from cachepilot.model.calibration import ACCESSES, SECONDS
from cachepilot.model.climb import BESIDE, Climb
from cachepilot.node import node_state
from cachepilot.node.deciding.decider import NodeState
from cachepilot.node.loop import SAVE_CYCLES
from cachepilot.store.journal import NodeRow
from cachepilot.store.store import Store

SIZES = tuple(MIB * size for size in (32, 64, 128))
TENANTS = 3


def world_of(tmp_path: Path) -> World:
    """Return a world in which no gain by `lfu` is predicted until `promise` predicts one."""
    tenants = [
        PlantTenant(f"/{i}", {"default": flat(0.5), "lfu": flat(0.5)}, 64 * MIB, {"lfu": flat(0.5)})
        for i in range(TENANTS)
    ]
    return World(tmp_path, Plant(tenants, TENANTS * 64 * MIB, SIZES))


def cycle(world: World) -> None:
    """Run a cycle that is killed before what follows it."""
    world.plant.pass_time()
    world.loop.cycle(world.plant.snapshot())


def promise(world: World, cgroup: str) -> None:
    tenant = world.plant.of(cgroup)
    tenant.told = {"lfu": flat(0.1)}
    tenant.generation += 1


def row(world: World) -> NodeRow:
    return world.store.nodes()[0]


def test_a_trial_is_stored_by_itself_and_outlives_a_kill_before_the_rest_is(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path)
    world.run(12)
    promise(world, "/0")
    while world.loop._decider.state.tenants["/0"].policy.trial is None:
        cycle(world)
    assert list(row(world).tenant_states) == ["/0"]
    world.restart()
    trial = world.loop._decider.state.tenants["/0"].policy.trial
    assert trial is not None and trial.to_policy == "lfu"


def test_the_whole_takes_the_place_of_tenants_that_changed(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.run(12)
    promise(world, "/1")
    while world.loop._decider.state.tenants["/1"].policy.trial is None:
        cycle(world)
    world.run(SAVE_CYCLES)
    assert dict(row(world).tenant_states) == {}
    found = node_state.stored(row(world))
    assert found is not None and found.tenants["/1"].policy.calibration.values[SECONDS, 1] > 0


def test_memory_that_begins_to_move_is_stored_with_the_whole_and_then_by_itself(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path)
    world.run(12)
    linear: Curve = lambda size: max(0.0, 1 - size / (160 * MIB))  # noqa: E731
    tenant = world.plant.of("/2")
    tenant.curves, tenant.told = {"default": linear, "lfu": linear}, {}
    tenant.generation += 1
    while world.loop._decider.state.memory.change is None:
        cycle(world)
    found = node_state.stored(row(world))
    assert found is not None and found.memory.change is not None
    for _ in range(3):
        cycle(world)
        state, found = world.loop._decider.state, node_state.stored(row(world))
        assert node_state.UNDER_WAY in row(world).tenant_states
        assert found is not None and (found.memory, found.clock) == (state.memory, state.clock)


def test_tenants_of_a_state_that_was_replaced_are_of_no_account(tmp_path: Path) -> None:
    """An earlier version, which knows only the whole state, replaced it."""
    store = Store(tmp_path / "c.db")
    store.reserve_epochs("n", 0)
    store.save("n", 1, 1.0, state="one")
    store.save("n", 2, 2.0, tenant_states={"/a": "null"})
    assert dict(store.nodes()[0].tenant_states) == {"/a": "null"}
    with sqlite3.connect(tmp_path / "c.db") as db:
        db.execute("UPDATE nodes SET guard = 'two'")
    assert dict(store.nodes()[0].tenant_states) == {}


def test_removed_tenants_are_forgotten_and_unreadable_parts_start_again() -> None:
    tenant = '{"cgroup_id": 7, "held_first_bytes": 2}'
    whole = f'{{"tenants": {{"/a": {tenant}}}}}'
    kept = node_state.stored(NodeRow("n", 1, None, 0.0, whole, {"/b": tenant}))
    assert kept is not None and set(kept.tenants) == {"/a", "/b"}
    gone = node_state.stored(NodeRow("n", 1, None, 0.0, whole, {"/a": "null"}))
    assert gone is not None and gone.tenants == {}
    less = node_state.stored(NodeRow("n", 1, None, 0.0, whole, {"/b": tenant, "/a": "{"}))
    assert less is not None and set(less.tenants) == {"/b"}
    deep = "[" * 200_000
    less = node_state.stored(NodeRow("n", 1, None, 0.0, whole, {"/b": tenant, "/a": deep}))
    assert less is not None and set(less.tenants) == {"/b"}
    for text in "[]", deep:
        assert node_state.stored(NodeRow("n", 1, None, 0.0, text)) is None
    assert node_state.stored(NodeRow("n", 1, None, 0.0, None)) is None


def test_a_trial_that_could_not_be_stored_is_with_the_next_that_can(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.run(12)
    save = world.store.save

    def is_full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    promise(world, "/0")
    while world.loop._decider.state.tenants["/0"].policy.trial is None:
        world.store.save = is_full  # type: ignore[method-assign]
        cycle(world)
        world.loop.after()
    world.store.save = save  # type: ignore[method-assign]
    cycle(world)
    world.restart()
    assert world.loop._decider.state.tenants["/0"].policy.trial is not None


def test_times_are_of_one_clock_though_it_went_back(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.plant.time_s += 50_000
    world.run(12)
    promise(world, "/0")
    while world.loop._decider.state.tenants["/0"].policy.trial is None:
        world.run(1)
    world.run(2)
    world.plant.time_s -= 7200
    cycle(world)
    before = world.loop._decider.state.tenants["/0"].policy.trial
    assert before is not None and before.started_s < world.plant.time_s
    world.restart()
    cycle(world)
    after = world.loop._decider.state.tenants["/0"].policy.trial
    assert after is not None and after.started_s == pytest.approx(before.started_s, abs=SAVE_CYCLES)


def test_a_limit_that_an_earlier_version_stored_as_enough_is_kept() -> None:
    lacked = '{"cgroup_id": 7, "least_bytes": 8192, "wait_s": 60.0, "until_s": 70.0}'
    whole = f'{{"memory": {{"lacked": {{"/a": {lacked}}}}}}}'
    kept = node_state.stored(NodeRow("n", 1, None, 0.0, whole))
    assert kept is not None and kept.memory.lacked["/a"].limit_bytes == 8192


def test_gains_of_an_earlier_version_invalidate_nothing_else() -> None:
    gain = '{"intervals": 4, "total": 2.0, "squares": 1.0, "products": 0.5, "last": 0.5}'
    member = '{"cgroup_id": 7, "policy": "default", "from_bytes": 8192, "to_bytes": 4096,'
    member += ' "baseline": {"ops": 1.0, "miss_ratio": 0.5}, "predicted": '
    member += '{"ops": 1.0, "miss_ratio": 0.5}}'
    change = '{"started_s": 1.0, "moved_s": 1.0, "cost": 1.0, "promised": 0.1, "forced": false,'
    change += f' "members": {{"/a": {member}}}, "gained": {gain}, "since": {gain}}}'
    policies = '{"trial": {"from_policy": "default", "to_policy": "lfu", "started_s": 1.0,'
    policies += ' "limit_bytes": 8192, "factor": 1.0, "baseline": [1.0, 0.5],'
    policies += ' "predicted": [1.0, 0.5], "intervals": 9, "settled": 5.0, "last": 1.0,'
    policies += f' "promised": 7.0, "course": {gain}}}}}'
    tenant = f'{{"cgroup_id": 7, "held_first_bytes": 2, "policy": {policies}}}'
    whole = f'{{"tenants": {{"/a": {tenant}}}, "memory": {{"change": {change}}}}}'
    kept = node_state.stored(NodeRow("n", 1, None, 0.0, whole))
    assert kept is not None and kept.memory.change is not None
    # The stored scatter is unknown now, so nothing counts as certain by it.
    assert kept.memory.change.gained.bound(0.01) >= 1.0
    assert kept.memory.change.expected == 0.1
    trial = kept.tenants["/a"].policy.trial
    assert trial is not None and trial.intervals == 9
    assert trial.expected == 7.0 and trial.series.intervals == 4


def test_a_state_is_read_as_it_was_written(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.run(SAVE_CYCLES)
    state = world.loop._decider.state
    assert node_state.from_json(node_state.to_json(state), "node") == state


def on_trial(tmp_path: Path) -> World:
    """Return a world in which tenant 0 has a change on trial."""
    world = world_of(tmp_path)
    world.run(12)
    promise(world, "/0")
    while world.loop._decider.state.tenants["/0"].policy.trial is None:
        world.run(1)
    return world


def restart_with(world: World, change: Callable[[dict[str, Any]], None]) -> NodeState:
    """Restart with a stored state that `change` has modified, and return the new state."""
    state = json.loads(node_state.to_json(world.loop._decider.state))
    change(state)
    world.store.save(world.loop.name, 99, world.plant.time_s, state=json.dumps(state))
    world.restart()
    return world.loop._decider.state


EARLIER = {"saved": [[1.0, 2.0]], "white": [], "seconds": [], "accesses": [], "looked": 3}


@pytest.mark.parametrize("part", ["totals", "climb", "calibration"])
@pytest.mark.parametrize("told", [EARLIER, [4], [[1.0], [1.0, 2.0]], None])
def test_a_part_stored_in_another_form_is_the_only_one_lost(
    tmp_path: Path, part: str, told: object, caplog: pytest.LogCaptureFixture
) -> None:
    world = on_trial(tmp_path)
    before = deepcopy(world.loop._decider.state.tenants)

    def change(state: dict[str, Any]) -> None:
        for one in state["tenants"].values():
            one["policy"][part] = told

    after = restart_with(world, change).tenants
    assert f"{TENANTS} parts cannot be read" in caplog.text and "tenants./2.policy" in caplog.text
    for name, one in before.items():
        assert after[name].policy.policies == []
        assert after[name].held_first_bytes == one.held_first_bytes > 0
        assert (after[name].policy.trial, after[name].changes) == (one.policy.trial, one.changes)
    world.run(3)
    now = world.loop._decider.state.tenants
    assert now["/0"].policy.trial is not None and now["/2"].policy.policies == ["default", "lfu"]


def test_sums_of_an_earlier_version_start_again_and_nothing_else_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Earlier sums had one column less beside the groups, and calibrations had no accesses."""
    world = on_trial(tmp_path)
    before = deepcopy(world.loop._decider.state.tenants)

    def change(state: dict[str, Any]) -> None:
        for one in state["tenants"].values():
            climb = one["policy"]["climb"]
            climb["values"] = [row[:-BESIDE] + row[1 - BESIDE :] for row in climb["values"]]
            one["policy"]["calibration"]["values"].pop(ACCESSES)

    after = restart_with(world, change).tenants
    assert "cannot be read" not in caplog.text
    for name, one in before.items():
        policies, groups = len(one.policy.policies), one.policy.groups
        one.policy.climb = Climb()
        one.policy.climb.restart(policies, groups)
        one.policy.calibration.values[ACCESSES] = 0.0
        assert after[name] == one and policies == 2
    world.run(3)
    assert world.loop._decider.state.tenants["/2"].policy.climb.looked > 0


def test_missing_tables_are_created(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.run(12)
    restart_with(world, lambda state: state["tenants"]["/1"]["policy"].pop("climb"))
    world.run(3)
    assert world.loop._decider.state.tenants["/1"].policy.climb.looked > 0


def test_an_unreadable_trial_is_not_confirmed_and_first_memory_stays(
    tmp_path: Path,
) -> None:
    world = on_trial(tmp_path)
    before = deepcopy(world.loop._decider.state.tenants["/0"])
    state = restart_with(
        world, lambda state: state["tenants"]["/0"]["policy"]["trial"].pop("factor")
    )
    found = state.tenants["/0"]
    assert before.changes and (found.changes, found.policy.trial) == ([], None)
    assert found.policy.wanted is None and found.policy.calibration == before.policy.calibration
    assert found.held_first_bytes == before.held_first_bytes


def test_one_unreadable_rollback_leaves_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told = {"/a": {"cgroup_id": 1, "limit_bytes": 4096}, "/b": {"cgroup_id": 2}}
    tenants = {"/a": {"cgroup_id": 1, "changes": [3]}, "/b": {"cgroup_id": 2, "changes": [3]}}
    tenants["/c"] = {}
    missing = {"cgroup_id": 4, "held_first_bytes": 4096, "policy": {"climb": 3}}
    whole: dict[str, Any] = {"tenants": tenants, "away": {"/d": {"state": missing, "since_s": 1.0}}}
    whole["memory"] = {"restore": told, "owed": "much"}
    found = node_state.from_json(json.dumps(whole), "node")
    assert found.away["/d"].state.held_first_bytes == 4096
    assert set(found.memory.restore) == {"/a"}
    assert {name: one.changes for name, one in found.tenants.items()} == {"/a": [3], "/b": []}
    assert "node: 4 parts" in caplog.text and "memory.restore./b, tenants./c" in caplog.text


def test_tables_that_do_not_fit_are_logged_with_their_path(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tenant = {"cgroup_id": 1, "policy": {"policies": ["default"]}}
    whole = {"tenants": {"/a": tenant}, "away": {"/a": {"state": tenant, "since_s": 1.0}}}
    found = node_state.from_json(json.dumps(whole), "node")
    assert found.tenants["/a"].policy.policies == found.away["/a"].state.policy.policies == []
    told = "node: 2 parts cannot be read and start again: "
    assert told + "away./a.state.policy.policies, tenants./a.policy.policies" in caplog.text
