# SPDX-License-Identifier: Apache-2.0
"""Tenants of plants with known curves, and questions about a world of them."""

from collections.abc import Callable
from pathlib import Path

from experiments.control_loop.plant import MIB, Curve, Plant, PlantTenant, linear, scan
from experiments.control_loop.world import World

from cachepilot.decide.memory.state import MemoryChange

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256, 384, 512))


def fooled(cgroup: str = "/scan") -> PlantTenant:
    """Return a tenant whose curves favour a policy under which everything misses."""
    told = {"mru": linear(150 * MIB)}
    curves = {"default": linear(200 * MIB), "mru": scan(200 * MIB)}
    return PlantTenant(cgroup, curves, 128 * MIB, told=told)


def looping() -> PlantTenant:
    """Return a tenant that another policy serves much better."""
    return PlantTenant("/scan", {"default": scan(200 * MIB), "mru": linear(200 * MIB)}, 128 * MIB)


def liar() -> PlantTenant:
    """Return a tenant that needs much more than its curve says."""
    told: dict[str, Curve] = {"default": linear(16 * MIB, 0.02)}
    return PlantTenant("/liar", {"default": linear(120 * MIB, 0.02)}, 128 * MIB, told=told)


def sated(phase: int = 0) -> PlantTenant:
    curves: dict[str, Curve] = {"default": linear(16 * MIB, 0.02)}
    return PlantTenant("/sated", curves, 128 * MIB, phase=phase)


def hungry(phase: int = 0) -> PlantTenant:
    curves: dict[str, Curve] = {"default": linear(400 * MIB)}
    return PlantTenant("/hungry", curves, 128 * MIB, threads=64, phase=phase)


def world(path: Path, *tenants: PlantTenant, time_s: float = 1000.0) -> World:
    """Return a node with as much memory as its tenants have together."""
    budget = sum(one.limit_bytes for one in tenants)
    return World(path, Plant(list(tenants), budget, SIZES, time_s=time_s))


def moving(path: Path, phase: int = 0) -> World:
    """Return a world in which memory moves for a real gain; `phase` is the regime number."""
    return world(path, hungry(phase), sated(phase))


def memory_change(here: World) -> MemoryChange | None:
    return here.loop._decider.state.memory.change


def settles(here: World) -> bool:
    """Whether memory is where it is going, and not yet confirmed."""
    change = memory_change(here)
    return change is not None and change.settled_s is not None


def moves(here: World) -> bool:
    """Whether memory is under way."""
    change = memory_change(here)
    return change is not None and change.settled_s is None


def until(here: World, reached: Callable[[], object], cycles: int = 100) -> None:
    for _ in range(cycles):
        if reached():
            return
        here.run(1)
    raise AssertionError("it never came to that")
