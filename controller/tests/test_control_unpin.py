# SPDX-License-Identifier: Apache-2.0
"""`unpin` restores what a pin changed, if the autopilot would not choose it by itself."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World

from cachepilot.api.shapes.questions import Pin
from cachepilot.domain.objectives.objective import Mode, Objective, Objectives
from cachepilot.node import node_state
from cachepilot.node.deciding.before_pin import BeforePin
from cachepilot.node.deciding.decider import NodeState
from cachepilot.store.store import Store

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256))
WATCHED = pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.RECOMMEND])


def a_world(path: Path, *objectives: Objective, limit_mib: int = 128) -> World:
    curves = {"default": linear(200 * MIB), "lfu": linear(300 * MIB)}
    first = PlantTenant("/a", curves, limit_mib * MIB)
    other = PlantTenant("/b", {"default": linear(400 * MIB)}, 128 * MIB, threads=64)
    world = World(path, Plant([first, other], 256 * MIB, SIZES), objectives)
    world.run(3)
    return world


def setting(world: World, cgroup: str = "/a") -> tuple[str, int]:
    tenant = world.plant.of(cgroup)
    return tenant.policy, tenant.limit_bytes // MIB


@WATCHED
@pytest.mark.parametrize(
    "pins",
    [
        [Pin(cgroup="/a", limit_bytes=16 * MIB)],
        [Pin(cgroup="/a", policy="lfu")],
        [Pin(cgroup="/a", policy="lfu"), Pin(cgroup="/a", limit_bytes=16 * MIB)],
        [Pin(cgroup="/a", limit_bytes=64 * MIB), Pin(cgroup="/a", limit_bytes=16 * MIB)],
    ],
)
@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_unpinned_tenant_has_the_setting_from_before_the_pin(
    tmp_path: Path, mode: Mode, pins: list[Pin], is_restarted: bool
) -> None:
    world = a_world(tmp_path, Objective("*", mode=mode))
    for pin in pins:
        world.service.pin(pin, accept_missed_slos=True)
        world.run(3)
    assert setting(world) != ("default", 128)
    if is_restarted:
        world.restart()
    world.service.unpin("/a")
    world.run(4)
    assert setting(world) == ("default", 128)
    row = world.service.tenant("/a").tenant
    assert (row.pinned_policy, row.pinned_limit_bytes) == (None, None)
    assert world.loop._decider.state.before_pins == {}


@WATCHED
def test_the_setting_is_restored_when_a_pin_is_undone_or_ends_by_itself(
    tmp_path: Path, mode: Mode
) -> None:
    wall = [1e9]
    world = a_world(tmp_path, Objective("*", mode=mode))
    world.store.close()
    world.store = Store(world.path, clock=lambda: wall[0])
    world.begin()
    world.run(1)
    pin = Pin(cgroup="/a", limit_bytes=16 * MIB, until_s=1e9 + 60)
    world.service.pin(pin)
    world.run(3)
    world.service.undo()
    world.run(4)
    assert setting(world) == ("default", 128)
    world.service.pin(pin)
    world.run(3)
    assert setting(world) == ("default", 16)
    wall[0] += 61
    world.run(4)
    assert setting(world) == ("default", 128)


def test_a_tenant_that_got_the_pinned_tenants_memory_gives_it_back(tmp_path: Path) -> None:
    world = a_world(tmp_path, Objective("/a", mode=Mode.OBSERVE), Objective("*"))
    world.service.pin(Pin(cgroup="/a", limit_bytes=16 * MIB))
    world.run(60)
    assert world.plant.of("/b").limit_bytes > 160 * MIB
    world.service.unpin("/a")
    world.run(1)
    assert "unpinned" in world.service.tenant("/a").why
    world.run(40)
    assert setting(world) == ("default", 128)
    assert world.plant.most_assigned_bytes <= 256 * MIB


def test_a_tenant_that_had_no_limit_has_none_after_unpin(tmp_path: Path) -> None:
    world = a_world(tmp_path, Objective("*", mode=Mode.OBSERVE), limit_mib=0)
    assert world.plant.of("/a").limit_bytes == 0
    world.service.pin(Pin(cgroup="/a", limit_bytes=16 * MIB))
    world.run(3)
    assert setting(world) == ("default", 16)
    world.service.unpin("/a")
    world.run(3)
    assert setting(world) == ("default", 0)


@WATCHED
def test_a_limit_that_another_program_sets_meanwhile_stays(tmp_path: Path, mode: Mode) -> None:
    world = a_world(tmp_path, Objective("*", mode=mode))
    world.plant.of("/b").limit_bytes = world.plant.of("/b").target_bytes = 240 * MIB
    world.service.pin(Pin(cgroup="/a", limit_bytes=8 * MIB))
    world.run(20)
    # There is no room for the tenant's own limit.
    world.service.unpin("/a")
    world.run(20)
    assert setting(world) == ("default", 16)
    one = world.plant.of("/a")
    one.limit_bytes = one.target_bytes = 4 * MIB
    world.run(20)
    world.plant.of("/b").limit_bytes = world.plant.of("/b").target_bytes = 64 * MIB
    world.run(20)
    assert setting(world) == ("default", 4)


def test_without_curves_nothing_is_decided_so_it_is_put_back(tmp_path: Path) -> None:
    one = PlantTenant("/a", {"default": linear(200 * MIB)}, 128 * MIB, is_sampled=False)
    world = World(tmp_path, Plant([one], 256 * MIB, SIZES), [Objective("*")])
    one.seen_generation = one.generation
    world.run(3)
    assert world.service.tenant("/a").tenant.distrust == "there are no curves yet"
    world.service.pin(Pin(cgroup="/a", limit_bytes=16 * MIB))
    world.run(3)
    assert setting(world) == ("default", 16)
    world.service.unpin("/a")
    world.run(4)
    assert setting(world) == ("default", 128)


def test_a_tenant_that_goes_to_auto_is_left_to_the_decider(tmp_path: Path) -> None:
    world = a_world(tmp_path, Objective("*", mode=Mode.OBSERVE))
    world.service.pin(Pin(cgroup="/a", limit_bytes=120 * MIB))
    world.run(3)
    world.service.set_objectives(Objectives((Objective("*"),)))
    world.service.unpin("/a")
    world.run(2)
    assert world.loop._decider.state.before_pins == {}


def test_settings_before_pins_are_stored_and_missing_in_an_old_store() -> None:
    state = NodeState(before_pins={"/a": BeforePin(7, "default", 128 * MIB)})
    assert node_state.from_json(node_state.to_json(state), "node x") == state
    assert node_state.from_json('{"tenants": {}}', "node x").before_pins == {}
