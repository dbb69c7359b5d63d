# SPDX-License-Identifier: Apache-2.0
"""How far promises of every kind are kept, and what follows for the memory of who keeps them."""

from dataclasses import replace
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World

from cachepilot.control.constraints import constrained
from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.standing import NOBODY, Standing, _reached, standing
from cachepilot.control.tenant_state import TenantState
from cachepilot.domain.objectives.objective import Fixed, Goal, Objective, Objectives
from cachepilot.sense.collect import Collected

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256, 384))
A = frozenset({"/a"})


def a_world(path: Path, *stated: Objective) -> World:
    """Two tenants of a hit ratio of 0.64."""
    tenants = [
        PlantTenant(name, {"default": linear(200 * MIB)}, 128 * MIB) for name in ("/a", "/b")
    ]
    world = World(path, Plant(tenants, 256 * MIB, SIZES), (*stated, Objective("*")))
    world.run(5)
    return world


def collected_of(world: World) -> Collected:
    assert world.loop.report is not None
    return world.loop.report.collected


@pytest.mark.parametrize(
    ("hit_ratio", "is_near", "is_tight"),
    [(0.3, False, False), (0.58, True, False), (0.63, True, True), (0.7, True, True)],
)
def test_a_hit_ratio_is_kept_by_more_or_less(
    tmp_path: Path, hit_ratio: float, is_near: bool, is_tight: bool
) -> None:
    stated = Objective("/a", hit_ratio=hit_ratio)
    collected = collected_of(a_world(tmp_path, stated))
    found = standing(collected, Objectives((stated, Objective("*"))), {})
    assert ("/a" in found.short) is (hit_ratio > 0.65)
    assert ("/a" in found.near) is is_near
    assert ("/a" in found.tight) is is_tight
    assert ("/a" in found.ample) is not is_tight


def test_a_hit_ratio_kept_with_ease_shrinks_to_the_least_memory(tmp_path: Path) -> None:
    stated = Objective("/a", hit_ratio=0.5)
    world = a_world(tmp_path, stated)
    world.service.set_objectives(Objectives((stated, Objective("*")), Goal.LEAST_MEMORY))
    world.run(80)
    assert world.plant.of("/a").limit_bytes < 112 * MIB


@pytest.mark.parametrize(
    ("goal", "held"), [(Goal.TOTAL_THROUGHPUT, True), (Goal.LEAST_MEMORY, False)]
)
def test_least_memory_takes_from_who_just_keeps_its_promise(
    tmp_path: Path, goal: Goal, held: bool
) -> None:
    stated = Objective("/a", hit_ratio=0.63)
    collected = collected_of(a_world(tmp_path, stated))
    objectives = Objectives((stated, Objective("*")), goal)
    states = {name: TenantState(seen.wire.cgroup_id) for name, seen in collected.seen.items()}
    for stands, kept in (
        (Standing(near=frozenset({"/a"}), tight=frozenset({"/a"})), held),
        (Standing(short=frozenset({"/a"}), tight=frozenset({"/a"})), True),
    ):
        found = constrained(collected, objectives, states, (), (), stands, GuardConfig())
        assert (found.of("/a").memory_min is not None) is kept


def test_a_p99_is_kept_by_more_or_less() -> None:
    stated = Objective("/a", latency_p99_us=1000.0)
    reached = [_reached(stated, {"latency_p99_us": value}, 1.0) for value in (500, 800, 1000, 1001)]
    assert reached == [2.0, 1.25, 1.0, 0.0]


def test_who_no_memory_can_help_is_not_waited_for(tmp_path: Path) -> None:
    stated = Objective("/a", hit_ratio=0.9)
    collected = collected_of(a_world(tmp_path, stated))
    seen = collected.seen["/a"]
    assert seen.window is not None
    idle = replace(seen, window=replace(seen.window, ops=0.0))
    fixed = replace(stated, fixed=Fixed(limit_bytes=64 * MIB))
    policy = replace(stated, fixed=Fixed(policy="lfu"))
    for one, objective, is_short in (
        (seen, stated, True),
        (seen, policy, True),
        (seen, fixed, False),
        (idle, stated, False),
    ):
        here = replace(collected, seen={**collected.seen, "/a": one})
        found = standing(here, Objectives((objective, Objective("*"))), {})
        assert found == (replace(NOBODY, short=A, near=A, tight=A) if is_short else NOBODY)
