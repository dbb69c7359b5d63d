# SPDX-License-Identifier: Apache-2.0
"""A tenant with a new policy gives no memory before the policy does as predicted."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import Plant, PlantTenant, flat, linear
from experiments.control_loop.world import World

from cachepilot.api.shapes.questions import Pin
from cachepilot.decide.state import SETTLED_S, PolicyState
from cachepilot.domain.objectives.objective import Mode, Objective, Objectives
from cachepilot.sizes import parse_size

MIB = 1 << 20
SIZES = tuple(MIB * size for size in (16, 32, 64, 96, 128, 192, 256))
FIRST_BYTES = 128 * MIB


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Return a tenant that needs its memory with the default and not with another policy.

    Measurements scatter, so a trial takes long.
    """
    curves = {"default": linear(256 * MIB), "lru": flat(0.45)}
    web = PlantTenant("/web", curves, FIRST_BYTES)
    other = PlantTenant("/other", {"default": linear(256 * MIB)}, FIRST_BYTES)
    return World(tmp_path, Plant([web, other], 2 * FIRST_BYTES, SIZES, noise=0.3))


def policies_of(world: World) -> PolicyState:
    """Return the decider's state of the policies of `/web`."""
    return world.loop._decider.state.tenants["/web"].policy


def test_memory_is_taken_only_after_the_new_policy_is_confirmed(world: World) -> None:
    web, tried = world.plant.tenants[0], 0
    for _ in range(150):
        world.run(1)
        state = policies_of(world)
        if state.trial is not None and state.in_force_s <= SETTLED_S:
            tried += web.policy == "lru"
            assert web.limit_bytes == FIRST_BYTES
    assert tried > 30
    assert web.policy == "lru" and policies_of(world).trial is None
    assert web.limit_bytes <= FIRST_BYTES * 0.6


def test_a_trial_that_takes_longer_than_a_minute_does_not_keep_memory(world: World) -> None:
    world.plant.noise = 2.0
    web, tried = world.plant.tenants[0], 0
    for _ in range(400):
        world.run(1)
        state = policies_of(world)
        tried += state.trial is not None and state.in_force_s > SETTLED_S
        if state.trial is not None and web.limit_bytes < FIRST_BYTES:
            return
    pytest.fail(f"on trial for more than a minute in {tried} cycles, with {web.limit_bytes} bytes")


def on_trial(world: World) -> tuple[PlantTenant, PlantTenant]:
    """Run until `/web` has had a policy on trial for eight seconds."""
    for _ in range(60):
        world.run(1)
        state = policies_of(world)
        if state.trial is not None and state.trial.intervals >= 8:
            web, other = world.plant.tenants[:2]
            return web, other
    pytest.fail("no trial")


def test_memory_is_taken_during_a_trial_if_the_node_has_less(world: World) -> None:
    on_trial(world)
    world.plant.budget_bytes = 130 * MIB
    world.run(12)
    assert policies_of(world).trial is not None
    assert sum(one.limit_bytes for one in world.plant.tenants) <= 130 * MIB


def test_memory_is_taken_during_a_trial_for_a_pin(world: World) -> None:
    _, other = on_trial(world)
    world.service.pin(Pin(cgroup="/other", limit_bytes=170 * MIB))
    world.run(12)
    assert policies_of(world).trial is not None
    assert other.limit_bytes == 170 * MIB


def test_memory_is_taken_during_a_trial_for_a_stated_minimum(world: World) -> None:
    _, other = on_trial(world)
    least = Objective("/other", memory_min=parse_size("150MiB"))
    world.service.set_objectives(Objectives((least, Objective("*"))))
    world.run(12)
    assert policies_of(world).trial is not None
    assert other.limit_bytes >= 150 * MIB


def test_memory_is_taken_during_a_trial_for_an_slo(world: World) -> None:
    _, other = on_trial(world)
    slo = Objective("/other", throughput_ops=1.15 * world.plant.ops(other), priority=1)
    world.service.set_objectives(Objectives((slo, Objective("*"))))
    world.run(15)
    assert policies_of(world).trial is not None
    assert other.limit_bytes >= 140 * MIB


def test_memory_is_taken_during_a_trial_although_another_tenant_is_only_observed(
    tmp_path: Path,
) -> None:
    """The limit of that tenant stays, which leaves no room for all that is protected."""
    curves = {"default": linear(256 * MIB), "lru": flat(0.45)}
    some = [
        PlantTenant("/web", curves, FIRST_BYTES),
        PlantTenant("/other", {"default": linear(256 * MIB)}, FIRST_BYTES),
        PlantTenant("/seen", {"default": linear(256 * MIB)}, FIRST_BYTES),
    ]
    stated = (Objective("/seen", mode=Mode.OBSERVE), Objective("*"))
    world = World(tmp_path, Plant(some, 3 * FIRST_BYTES, SIZES, noise=0.3), stated)
    on_trial(world)
    world.plant.budget_bytes = FIRST_BYTES + 130 * MIB
    world.run(15)
    assert policies_of(world).trial is not None
    assert sum(one.limit_bytes for one in some) <= FIRST_BYTES + 130 * MIB
