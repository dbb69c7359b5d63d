# SPDX-License-Identifier: Apache-2.0
"""Limits that another program sets: the loop moves no memory until a person asks for it."""

from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World

from cachepilot.api.shapes.questions import Pin
from cachepilot.domain.objectives.objective import Mode, Objective
from cachepilot.v1 import session_pb2 as wire

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256, 384))
THEIRS = 128 * MIB
WHO = "memory.high was set to 134217728 by someone else"


@dataclass
class Contested(Plant):
    """A plant where another program sets `contested` limits to `THEIRS`, and the agent yields."""

    contested: Collection[str] = ()
    yielded_us: dict[str, int] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)

    def apply(self, plan: wire.Plan) -> wire.Ack:
        for action in plan.actions:
            if action.HasField("limit_bytes"):
                self.asked.append((action.cgroup, action.limit_bytes))
                self.yielded_us.pop(action.cgroup, None)
        return super().apply(plan)

    def pass_time(self, elapsed_s: float = 1.0) -> None:
        for name in self.contested:
            one = self.of(name)
            if one.target_bytes != THEIRS:
                one.limit_bytes = one.target_bytes = THEIRS
                self.yielded_us[name] = int(self.time_s * 1e6)
        super().pass_time(elapsed_s)

    def snapshot(self) -> wire.Snapshot:
        found = super().snapshot()
        for told in found.tenants:
            if told.cgroup in self.yielded_us:
                kind, since_us = wire.Condition.LIMIT_YIELDED, self.yielded_us[told.cgroup]
                told.conditions.add(kind=kind, message=WHO, since_us=since_us)
        return found

    def take_asked(self, cgroup: str = "/a") -> list[int]:
        """Return and forget the limits that were ordered so far."""
        found = [limit for name, limit in self.asked if name == cgroup]
        self.asked.clear()
        return found


def a_world(path: Path, *objectives: Objective) -> tuple[World, Contested]:
    hungry = PlantTenant("/a", {"default": linear(400 * MIB)}, THEIRS, threads=64)
    sated = PlantTenant("/b", {"default": linear(16 * MIB, 0.02)}, THEIRS)
    plant = Contested([hungry, sated], 256 * MIB, SIZES, contested={"/a"})
    return World(path, plant, objectives or (Objective("*"),)), plant


def test_a_yielded_limit_is_not_moved_and_explain_gives_the_reason(tmp_path: Path) -> None:
    world, plant = a_world(tmp_path)
    world.run(100)
    # The tenant had begun to give memory, which stops at the first rewrite.
    assert 1 <= len(plant.take_asked()) <= 2
    detail = world.service.tenant("/a")
    assert detail.why.startswith(f"unchanged: another program sets its limit: {WHO}")
    [condition] = detail.tenant.conditions
    assert (condition.kind, condition.message) == ("limit_yielded", WHO)
    assert condition.since_s == pytest.approx(plant.yielded_us["/a"] / 1e6)
    for _ in range(3):
        world.run(100)
        assert plant.take_asked() == []
        world.restart()
    world.run(30)
    notes = world.service.consolidation().notes
    assert "plant: counted as they are, others set their limits: /a" in notes


def test_memory_moves_again_after_a_pin_once_no_program_rewrites_the_limit(tmp_path: Path) -> None:
    world, plant = a_world(tmp_path)
    world.run(100)
    plant.contested = ()
    world.run(20)
    plant.take_asked()
    # This also holds for a pin to the present limit.
    world.service.pin(Pin(cgroup="/a", limit_bytes=THEIRS))
    world.run(3)
    assert plant.take_asked() == [THEIRS]
    assert world.service.tenant("/a").tenant.conditions == []
    world.service.unpin("/a")
    world.run(150)
    assert plant.of("/a").limit_bytes > 150 * MIB


@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.OBSERVE])
def test_a_pin_is_asked_for_once_each_time_that_it_is_made(tmp_path: Path, mode: Mode) -> None:
    world, plant = a_world(tmp_path, Objective("*", mode=mode))
    world.run(3)
    plant.take_asked()
    for limit in (64 * MIB, 96 * MIB):
        world.service.pin(Pin(cgroup="/a", limit_bytes=limit))
        world.run(30)
        assert plant.take_asked() == [limit]
    world.restart()
    world.run(30)
    assert plant.take_asked() == [], "the pin is older than what was yielded"
    world.service.unpin("/a")
    world.run(3)
    world.service.pin(Pin(cgroup="/a", limit_bytes=96 * MIB))
    world.run(30)
    assert plant.take_asked() == [96 * MIB]


def test_a_pin_that_is_removed_at_once_leaves_the_limit_to_others(tmp_path: Path) -> None:
    world, plant = a_world(tmp_path)
    world.run(100)
    plant.take_asked()
    world.service.pin(Pin(cgroup="/a", limit_bytes=64 * MIB))
    world.service.unpin("/a")
    world.run(30)
    assert plant.take_asked() == []


def test_others_are_planned_beside_a_limit_that_exceeds_the_budget(tmp_path: Path) -> None:
    world, plant = a_world(tmp_path)
    world.run(20)
    plant.budget_bytes = 160 * MIB
    world.run(100)
    assert world.service.nodes()[0].problem == ""
    # The tenant keeps half of its first memory.
    assert plant.of("/b").limit_bytes == 64 * MIB
