# SPDX-License-Identifier: Apache-2.0
"""Trials of policies that gain once misses brought what they keep, or promise little."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Curve, Plant, PlantTenant
from experiments.control_loop.world import World

from cachepilot.control.decisions import Event

SIZES = tuple(MIB * size for size in (32, 64, 128, 256, 512))


def flat(miss: float) -> Curve:
    """The same miss ratio at every size."""
    return lambda _: miss


def slow(tmp_path: Path, truth: float, limit_bytes: int = 256 * MIB, told: float = 0.002) -> World:
    """A tenant that hits nearly always, and `lfu`, which is said to do better yet."""
    curves = {"default": flat(0.02), "lfu": flat(truth)}
    tenant = PlantTenant("/hits", curves, limit_bytes, {"lfu": flat(told)}, error_bar=0.001)
    plant = Plant([tenant], limit_bytes, SIZES, adapt_s=80.0)
    world = World(tmp_path, plant)
    while tenant.policy != "lfu":
        world.run(1)
    return world


def test_a_gain_is_waited_for_until_misses_brought_as_much_as_is_cached(tmp_path: Path) -> None:
    """The default misses 1,300 times a second: 65,536 pages come in 50 seconds."""
    world = slow(tmp_path, truth=0.002)
    world.run(70)
    assert world.events() == [Event.TRIAL, Event.KEPT]


def test_what_never_gains_is_taken_back_once_they_did(tmp_path: Path) -> None:
    world = slow(tmp_path, truth=0.02)
    world.run(30)
    assert world.events() == [Event.TRIAL]
    world.run(40)
    assert world.events() == [Event.TRIAL, Event.REVERTED]


@pytest.mark.parametrize("truth", [0.3, 0.9])
def test_what_does_harm_is_not_waited_for(tmp_path: Path, truth: float) -> None:
    world = slow(tmp_path, truth)
    world.run(20)
    assert world.events() == [Event.TRIAL, Event.REVERTED]


def test_what_is_small_beside_its_misses_is_judged_as_soon_as_ever(tmp_path: Path) -> None:
    world = slow(tmp_path, truth=0.02, limit_bytes=32 * MIB)
    world.run(20)
    assert world.events() == [Event.TRIAL, Event.REVERTED]


def test_what_promises_little_has_no_claim_in_another_phase(tmp_path: Path) -> None:
    world = slow(tmp_path, truth=0.9, told=0.008)
    tenant = world.plant.of("/hits")
    world.run(2)
    tenant.phase += 1
    world.run(2)
    assert world.events() == [Event.TRIAL, Event.ABANDONED] and tenant.policy == "default"
