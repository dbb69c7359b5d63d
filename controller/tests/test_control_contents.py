# SPDX-License-Identifier: Apache-2.0
"""Trials of policies that gain once misses brought what they keep, or promise little."""

import random
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Curve, Plant, PlantTenant, flat
from experiments.control_loop.world import World

from cachepilot.control.decisions import Event

SIZES = tuple(MIB * size for size in (32, 64, 128, 256, 512))


def slow(
    tmp_path: Path,
    truth: float,
    limit_bytes: int = 256 * MIB,
    told: float = 0.002,
    default: float = 0.02,
    plant: type[Plant] = Plant,
    noisy: Curve | None = None,
) -> World:
    """A tenant that hits nearly always, and `lfu`, which is said to do better yet."""
    curves = {"default": noisy or flat(default), "lfu": noisy or flat(truth)}
    said = {"default": flat(default), "lfu": flat(told)}
    tenant = PlantTenant("/hits", curves, limit_bytes, said, error_bar=0.001)
    adapt_s = 80.0 if plant is Plant and noisy is None else 0.5
    world = World(tmp_path, plant([tenant], limit_bytes, SIZES, adapt_s=adapt_s))
    while tenant.policy != "lfu":
        world.run(1)
    return world


def is_taken_back(world: World, within_s: int) -> bool:
    world.run(within_s)
    return world.events() == [Event.TRIAL, Event.REVERTED]


def test_a_gain_is_waited_for_until_misses_brought_as_much_as_is_cached(tmp_path: Path) -> None:
    """The default misses 1,300 times a second: 65,536 pages come in 50 seconds."""
    world = slow(tmp_path, truth=0.002)
    world.run(70)
    assert world.events() == [Event.TRIAL, Event.KEPT]


def test_what_never_gains_is_taken_back_once_they_did(tmp_path: Path) -> None:
    world = slow(tmp_path, truth=0.02)
    world.run(30)
    assert world.events() == [Event.TRIAL]
    assert is_taken_back(world, within_s=40)


@pytest.mark.parametrize("truth", [0.3, 0.9])
def test_what_does_harm_is_not_waited_for(tmp_path: Path, truth: float) -> None:
    world = slow(tmp_path, truth)
    assert is_taken_back(world, within_s=20)


def test_what_is_small_beside_its_misses_is_judged_as_soon_as_ever(tmp_path: Path) -> None:
    world = slow(tmp_path, truth=0.02, limit_bytes=32 * MIB)
    assert is_taken_back(world, within_s=20)


def test_what_promises_little_has_no_claim_in_another_phase(tmp_path: Path) -> None:
    world = slow(tmp_path, truth=0.9, told=0.008)
    tenant = world.plant.of("/hits")
    world.run(2)
    tenant.phase += 1
    world.run(2)
    assert world.events() == [Event.TRIAL, Event.ABANDONED] and tenant.policy == "default"


def test_an_agent_that_counts_phases_anew_ends_no_trial(tmp_path: Path) -> None:
    world = slow(tmp_path, truth=0.008, told=0.008)
    tenant = world.plant.of("/hits")
    trial = world.loop._guard.state.tenants["/hits"].trial
    assert trial is not None
    trial.phase = 3
    world.run(20)
    assert tenant.policy == "lfu" and Event.ABANDONED not in world.events()


class Slower(Plant):
    """A policy whose own work takes time."""

    def ops(self, tenant: PlantTenant, wait_us: float = 0.0) -> float:
        """Operations per second of a tenant."""
        return super().ops(tenant, wait_us) * (0.6 if tenant.policy == "lfu" else 1.0)


class Open(Plant):
    """As many requests as come: misses make them late, not fewer."""

    def ops(self, tenant: PlantTenant, wait_us: float = 0.0) -> float:
        """Operations per second of a tenant."""
        return 20_000.0


@pytest.mark.parametrize(("plant", "truth"), [(Slower, 0.0195), (Open, 0.08)])
def test_harm_is_what_a_verdict_would_call_so(
    tmp_path: Path, plant: type[Plant], truth: float
) -> None:
    world = slow(tmp_path, truth, plant=plant)
    assert is_taken_back(world, within_s=25)


def test_a_baseline_that_moved_excuses_no_harm(tmp_path: Path) -> None:
    world = slow(tmp_path, truth=0.02, default=0.03)
    tenant = world.plant.of("/hits")
    world.run(1)
    tenant.curves["default"] = tenant.told["default"] = flat(0.002)
    tenant.told["lfu"] = flat(0.001)
    tenant.generation += 1
    assert is_taken_back(world, within_s=25)


def is_kept(folder: Path, seed: int) -> bool:
    """Whether a policy that gains nothing is kept, of a tenant whose miss ratio is noisy."""
    folder.mkdir()
    random_ = random.Random(seed)
    noisy: Curve = lambda _: max(0.0005, random_.gauss(0.02, 0.004))  # noqa: E731
    world = slow(folder, truth=0.02, noisy=noisy)
    while len(world.events()) < 2:
        world.run(1)
    return world.events()[1] == Event.KEPT


def test_many_looks_at_noise_keep_no_more_than_one(tmp_path: Path) -> None:
    assert sum(is_kept(tmp_path / str(seed), seed) for seed in range(30)) <= 14
