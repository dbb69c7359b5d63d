# SPDX-License-Identifier: Apache-2.0
"""With the goal `least_memory`, tenants give what they do not need, and get it back on need."""

from itertools import pairwise
from pathlib import Path

import pytest
from experiments.control_loop.plant import Curve, Plant, PlantTenant, flat, linear, scan
from experiments.control_loop.world import World

from cachepilot.domain.objectives.objective import Goal, Objective, Objectives
from cachepilot.sizes import parse_size

MIB = 1 << 20
SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256))
FIRST = 128 * MIB


def world(path: Path, *stated: Objective, **curves: Curve) -> tuple[World, Plant]:
    """Return a node of tenants named by their curves, with 128 MiB each and nothing free."""
    tenants = [PlantTenant(f"/{name}", {"default": one}, FIRST) for name, one in curves.items()]
    plant = Plant(tenants, FIRST * len(tenants), SIZES)
    here = World(path, plant, stated)
    here.service.set_objectives(Objectives(stated, Goal.LEAST_MEMORY))
    return here, plant


def _needing_more(here: World, plant: Plant) -> PlantTenant:
    """Let the tenant that gave memory need more than it has. Only its misses show that."""
    web = plant.of("/web")
    web.change({"default": scan(110 * MIB)})
    web.told, web.distrust = {"default": flat(1.0)}, "predicts 1, measured less"
    web.phase += 1
    here.run(2)
    return web


@pytest.mark.parametrize("keep", [0.95, 0.7])
def test_a_tenant_keeps_the_share_that_is_stated_and_gives_the_rest(
    tmp_path: Path, keep: float
) -> None:
    here, plant = world(tmp_path, Objective("*", keep=keep), web=linear(256 * MIB))
    here.run(5)
    first = plant.ops(plant.of("/web"))
    here.run(200)
    assert keep * 0.98 <= plant.ops(plant.of("/web")) / first <= keep + 0.05


def test_nothing_is_taken_from_an_slo_before_it_is_known_how_intervals_scatter(
    tmp_path: Path,
) -> None:
    slo = Objective("/web", throughput_ops=20_000.0)
    here, plant = world(tmp_path, slo, web=scan(32 * MIB))
    here.run(8)
    assert plant.of("/web").limit_bytes == FIRST
    here.run(62)
    assert plant.of("/web").limit_bytes <= 40 * MIB
    assert plant.ops(plant.of("/web")) >= 20_000


def test_a_tenant_that_reads_more_has_its_first_memory_one_interval_later(
    tmp_path: Path,
) -> None:
    here, plant = world(tmp_path, Objective("*", keep=0.95), web=scan(32 * MIB), other=scan(MIB))
    here.run(60)
    web = plant.of("/web")
    assert web.limit_bytes <= 40 * MIB
    _needing_more(here, plant)
    assert web.limit_bytes == FIRST


def test_a_missed_slo_takes_free_memory_at_once_with_low_confidence(
    tmp_path: Path,
) -> None:
    slo = Objective("/web", throughput_ops=20_000.0)
    here, plant = world(tmp_path, slo, Objective("*"), web=scan(32 * MIB), other=scan(16 * MIB))
    here.run(70)
    web = plant.of("/web")
    assert web.limit_bytes <= 40 * MIB
    _needing_more(here, plant)
    assert web.limit_bytes == FIRST
    assert any(
        "it had this memory before and needs it again" in one.why
        for one in here.service.history(limit=9)
    )


def test_memory_that_others_got_is_not_given_twice(tmp_path: Path) -> None:
    here, plant = world(tmp_path, Objective("*", keep=0.95), web=scan(32 * MIB), other=scan(MIB))
    here.run(60)
    plant.budget_bytes = sum(one.limit_bytes for one in plant.tenants) + 16 * MIB
    web = plant.of("/web")
    before = web.limit_bytes
    _needing_more(here, plant)
    assert before + 15 * MIB <= web.limit_bytes <= before + 16 * MIB


def test_a_limit_that_was_too_low_is_tried_again_ever_more_rarely(tmp_path: Path) -> None:
    """The curve predicts that a little less than the working set costs little."""
    here, plant = world(tmp_path, Objective("*", keep=0.95), web=scan(32 * MIB), other=scan(MIB))
    web, raised = plant.of("/web"), []
    web.told = {"default": linear(32 * MIB)}
    for second in range(400):
        before = web.limit_bytes
        here.run(1)
        if before < 40 * MIB and web.limit_bytes == FIRST:
            raised.append(second)
    assert 2 <= len(raised) <= 4
    waits = [after - before for before, after in pairwise(raised)]
    assert all(two >= 1.5 * one for one, two in pairwise(waits))
    assert web.limit_bytes <= 40 * MIB


def test_no_tenant_gets_back_more_than_its_memory_max(tmp_path: Path) -> None:
    most = Objective("/web", keep=0.95, memory_max=parse_size("64MiB"))
    here, plant = world(tmp_path, most, Objective("*", keep=0.95), web=scan(32 * MIB))
    here.run(60)
    web = _needing_more(here, plant)
    for _ in range(5):
        assert web.limit_bytes <= 64 * MIB
        here.run(1)


def test_a_tenant_with_keep_0_gets_no_memory_back(tmp_path: Path) -> None:
    here, plant = world(tmp_path, Objective("*", keep=0.95), web=scan(32 * MIB), other=scan(MIB))
    here.run(60)
    stated = (Objective("*", keep=0.0),)
    here.service.set_objectives(Objectives(stated, Goal.LEAST_MEMORY))
    assert _needing_more(here, plant).limit_bytes <= 40 * MIB
