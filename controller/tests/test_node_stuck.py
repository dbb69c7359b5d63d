# SPDX-License-Identifier: Apache-2.0
"""Limits that do not move: others are asked instead, and these more and more rarely."""

import random
from pathlib import Path

import pytest
from experiments.control_loop.plant import Plant, PlantTenant, flat, linear, power
from experiments.control_loop.world import World

from cachepilot.domain.decisions import Event
from cachepilot.domain.objectives.objective import Objective
from cachepilot.sizes import PAGE_BYTES
from cachepilot.v1 import session_pb2 as wire

MIB = 1 << 20
SIZES = tuple(MIB * size for size in (16, 32, 64, 96, 128, 192, 256))
EVERYBODY = (Objective("*"),)
SLO = Objective("/needs", throughput_ops=20_000.0)


class StuckPlant(Plant):
    """A plant that cannot reclaim the memory of `/batch`."""

    def pass_time(self, elapsed_s: float = 1.0) -> None:
        batch = self.of("/batch")
        limit = batch.limit_bytes
        super().pass_time(elapsed_s)
        batch.limit_bytes = max(limit, batch.limit_bytes)


class RefusingPlant(Plant):
    """A plant that sets no limit of `/web`, which has none and whose page cache scatters."""

    random = random.Random(1)

    def snapshot(self) -> wire.Snapshot:
        found = super().snapshot()
        for one in found.tenants:
            if one.cgroup == "/web":
                less = PAGE_BYTES * self.random.randrange(64)
                one.limit_bytes = one.target_limit_bytes = 0
                one.current_bytes -= less
                one.file_bytes -= less
        return found

    def apply(self, plan: wire.Plan) -> wire.Ack:
        web = self.of("/web")
        before = web.limit_bytes, web.target_bytes
        ack = super().apply(plan)
        web.limit_bytes, web.target_bytes = before
        for one in ack.results:
            if one.cgroup == "/web":
                one.outcome, one.reason, one.limit_bytes = wire.Result.REFUSED, "EPERM", 0
        return ack


def test_another_tenant_gives_if_one_limit_does_not_move(tmp_path: Path) -> None:
    batch = PlantTenant("/batch", {"default": flat(1.0)}, 128 * MIB)
    spare = PlantTenant("/spare", {"default": power(64 * MIB, 0.05)}, 128 * MIB)
    needs = PlantTenant("/needs", {"default": linear(200 * MIB)}, 64 * MIB)
    plant = StuckPlant([batch, spare, needs], 320 * MIB, SIZES)
    World(tmp_path, plant, (SLO, *EVERYBODY)).run(120)
    assert plant.ops(needs) >= 20_000 and batch.limit_bytes == 128 * MIB


@pytest.mark.parametrize("stated", [(SLO, *EVERYBODY), EVERYBODY])
def test_a_limit_that_does_not_move_is_requested_ever_more_rarely(
    tmp_path: Path, stated: tuple[Objective, ...]
) -> None:
    batch = PlantTenant("/batch", {"default": flat(1.0)}, 128 * MIB)
    needs = PlantTenant("/needs", {"default": linear(200 * MIB)}, 64 * MIB)
    world = World(tmp_path, StuckPlant([batch, needs], 192 * MIB, SIZES), stated)
    world.run(900)
    begun = [one for one in world.events() if one == Event.TRIAL]
    assert 2 <= len(begun) <= 12


def test_a_change_ends_though_what_a_tenant_without_a_limit_holds_scatters(tmp_path: Path) -> None:
    batch = PlantTenant("/batch", {"default": flat(1.0)}, 128 * MIB)
    web, other = (
        PlantTenant(name, {"default": linear(200 * MIB)}, 64 * MIB) for name in ("/web", "/other")
    )
    world = World(tmp_path, RefusingPlant([batch, web, other], 256 * MIB, SIZES), EVERYBODY)
    longest = 0.0
    for _ in range(420):
        world.run(1)
        change = world.loop._decider.state.memory.change
        if change is not None:
            longest = max(longest, world.plant.time_s - change.started_s)
    assert 0 < longest < 90
    assert len([one for one in world.events() if one == Event.REFUSED]) <= 40
