# SPDX-License-Identifier: Apache-2.0
"""A tenant gets its first memory back, whatever happened to it and to those that have it."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import Curve, Plant, PlantTenant, flat, linear, scan
from experiments.control_loop.world import World

from cachepilot.api.shapes.questions import Pin
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.sense.counters import Pages
from cachepilot.sense.turnover import AtFirst
from cachepilot.sizes import PAGE_BYTES

MIB = 1 << 20
SIZES = tuple(MIB * size for size in (16, 32, 64, 96, 128, 192, 256))
EVERYBODY = (Objective("*"),)
EVEN = linear(200 * MIB)


def given(
    path: Path,
    stated: tuple[Objective, ...] = EVERYBODY,
    service_us: float = 50.0,
    threads: float = 4.0,
    curve: Curve = EVEN,
) -> tuple[World, PlantTenant, PlantTenant]:
    """Return a tenant that needs half of its first memory, and another that has got the rest."""
    web = PlantTenant("/web", {"default": scan(60 * MIB)}, 128 * MIB, service_us=service_us)
    other = PlantTenant("/other", {"default": curve}, 64 * MIB, threads=threads)
    world = World(path, Plant([web, other], 192 * MIB, SIZES), stated)
    world.run(200)
    assert web.limit_bytes <= 68 * MIB and other.limit_bytes >= 120 * MIB
    return world, web, other


def taken_at_first(*intervals: tuple[int, Pages | None, float | None]) -> float | None:
    known = AtFirst()
    for regime, pages, anew in intervals:
        known.take("lru", regime, pages, anew, 2.0, 40.0)
    return known.miss_ratio


def test_the_miss_ratio_with_the_first_memory_is_known_for_its_regime() -> None:
    some = (1, Pages(100, 20), None)
    assert taken_at_first(some) is None
    assert taken_at_first(*[some] * 4, (1, None, None)) == pytest.approx(0.2)
    assert taken_at_first(*[some] * 4, (2, None, None)) is None


def test_only_misses_since_the_last_turnover_count() -> None:
    assert taken_at_first(*[(1, Pages(100, 0), None)] * 9, (1, Pages(100, 100), 1.0)) == 1.0


@pytest.mark.parametrize("why", ["it is idle", "it is doubted"])
def test_a_tenant_above_its_first_memory_gives_it_back_with_unknown_curves(
    tmp_path: Path, why: str
) -> None:
    world, web, other = given(tmp_path, curve=scan(120 * MIB))
    web.change({"default": scan(110 * MIB)})
    if why == "it is idle":
        other.threads = 0.0
    else:
        other.distrust = "counts too few events"
    world.run(60)
    assert web.limit_bytes >= 110 * MIB and other.limit_bytes >= 64 * MIB


def test_a_tenant_whose_waits_grow_with_less_memory_regains_what_it_keeps(
    tmp_path: Path,
) -> None:
    def waits(size: float) -> float:
        return 3 - 2 * min(size / (64 * MIB), 2) + 2 * min(size / (64 * MIB), 1)

    web = PlantTenant("/web", {"default": linear(128 * MIB, 0.3, 0.4)}, 128 * MIB, waits=waits)
    other = PlantTenant("/other", {"default": EVEN}, 64 * MIB)
    plant = Plant([web, other], 192 * MIB, SIZES)
    world = World(tmp_path, plant, EVERYBODY)
    world.run(5)
    first, low_s, kept = plant.ops(web), 0, 0
    for second in range(600):
        world.run(1)
        share = plant.ops(web) / first
        low_s += share < 0.85
        kept += second >= 120 and share >= 0.85
    assert 0 < low_s <= 60 and kept >= 470


def test_kept_memory_is_given_back_beside_a_tenant_with_more_weight(tmp_path: Path) -> None:
    stated = (Objective("/other", weight=100.0), *EVERYBODY)
    world, web, _ = given(tmp_path, stated)
    web.change({"default": scan(110 * MIB)})
    world.run(600)
    assert web.limit_bytes >= 110 * MIB


def test_a_tenant_that_works_in_bursts_gets_its_memory_back(tmp_path: Path) -> None:
    world, web, _ = given(tmp_path, service_us=500.0, threads=1.0)
    web.change({"default": scan(110 * MIB)})
    for second in range(900):
        web.threads = 4.0 if second % 30 < 4 else 0.0
        world.run(1)
    assert web.limit_bytes >= 110 * MIB


def test_a_new_workload_with_low_confidence_has_the_first_memory(tmp_path: Path) -> None:
    world, web, other = given(tmp_path)
    web.change({"default": scan(110 * MIB)})
    web.phase += 1
    web.told, web.distrust = {"default": flat(1.0)}, "predicts 1, measured less"
    world.run(60)
    assert web.limit_bytes >= 128 * MIB - PAGE_BYTES and other.limit_bytes >= 60 * MIB


def test_misses_with_less_memory_take_nothing_with_low_confidence(
    tmp_path: Path,
) -> None:
    world, web, _ = given(tmp_path, service_us=500.0)
    web.change({"default": scan(110 * MIB, 0.05)})
    world.run(30)
    web.told, web.distrust = {"default": flat(0.5)}, "predicts 0.5, measured less"
    for _ in range(400):
        world.run(1)
        assert web.limit_bytes >= 110 * MIB


def test_a_streaming_tenant_with_low_confidence_gives_once(tmp_path: Path) -> None:
    batch = PlantTenant("/batch", {"default": scan(96 * MIB)}, 128 * MIB)
    needs = PlantTenant("/needs", {"default": linear(200 * MIB)}, 64 * MIB)
    much, little = (Objective("/needs", throughput_ops=one) for one in (20_000.0, 7_000.0))
    world = World(tmp_path, Plant([batch, needs], 192 * MIB, SIZES), (much, *EVERYBODY))
    world.run(100)
    batch.change({"default": flat(1.0)})
    batch.told, batch.distrust = {"default": scan(96 * MIB)}, "predicts 0, measured more"
    world.run(60)
    world.service.set_objectives(Objectives((little, *EVERYBODY)))
    world.run(100)
    settled, decided = batch.limit_bytes, len(world.events())
    world.run(600)
    assert settled <= 68 * MIB and batch.limit_bytes == settled
    assert len(world.events()) == decided


def test_a_change_is_not_judged_by_curves_that_lost_confidence_since(tmp_path: Path) -> None:
    web = PlantTenant("/web", {"default": scan(60 * MIB, 0.02)}, 128 * MIB)
    other = PlantTenant("/other", {"default": linear(200 * MIB)}, 64 * MIB)
    world = World(tmp_path, Plant([web, other], 192 * MIB, SIZES), EVERYBODY)
    for _ in range(300):
        world.run(1)
        if other.limit_bytes > 70 * MIB and not other.distrust:
            other.told, other.distrust = {"default": flat(0.0)}, "predicts 0, measured more"
            other.generation += 1
    assert other.distrust and other.limit_bytes >= 120 * MIB


def test_memory_taken_by_an_slo_blocks_no_later_change(tmp_path: Path) -> None:
    batch = PlantTenant("/batch", {"default": scan(96 * MIB)}, 128 * MIB)
    needs = PlantTenant("/needs", {"default": linear(200 * MIB)}, 64 * MIB)
    world = World(tmp_path, Plant([batch, needs], 192 * MIB, SIZES), EVERYBODY)
    world.run(20)
    world.service.set_objectives(
        Objectives((Objective("/needs", throughput_ops=20_000.0), *EVERYBODY))
    )
    world.run(300)
    assert batch.limit_bytes < 96 * MIB
    world.service.set_objectives(Objectives(EVERYBODY))
    world.run(60)
    assert batch.limit_bytes >= 96 * MIB
    batch.change({"default": flat(1.0)})
    world.run(200)
    assert batch.limit_bytes <= 68 * MIB


def test_a_large_tenant_gives_what_is_much_to_a_small_one_and_little_to_it(tmp_path: Path) -> None:
    sizes = (*SIZES, *(MIB * size for size in (1024, 2048, 4096, 8192)))
    large = PlantTenant("/large", {"default": linear(8192 * MIB)}, 4096 * MIB)
    small = PlantTenant("/small", {"default": linear(32 * MIB)}, 20 * MIB)
    slo = Objective("/small", throughput_ops=25_000.0)
    world = World(tmp_path, Plant([large, small], 4116 * MIB, sizes), (slo, *EVERYBODY))
    world.run(60)
    assert small.limit_bytes >= 24 * MIB
    assert large.limit_bytes + small.limit_bytes <= 4116 * MIB


def test_memory_of_a_tenant_missing_from_snapshots_is_not_allocated(
    tmp_path: Path,
) -> None:
    world, web, other = given(tmp_path, curve=linear(300 * MIB))
    both, held = world.plant.tenants, web.limit_bytes
    for _ in range(4):
        world.plant.tenants = [other]
        world.run(20)
        assert other.target_bytes + held <= 192 * MIB
        world.plant.tenants, web.seen_generation = both, 0
        world.run(10)
    settled, decided = other.limit_bytes, len(world.events())
    world.plant.tenants = [other]
    world.run(60)
    assert other.limit_bytes > settled and len(world.events()) > decided


@pytest.mark.parametrize("between", [0, 1, 4])
def test_successors_of_removed_tenants_give_no_memory_for_them(
    tmp_path: Path, between: int
) -> None:
    def four(side: str) -> list[PlantTenant]:
        curves = [linear(size * MIB) for size in (150, 96, 96, 96)]
        return [
            PlantTenant(f"/{side}{i}", {"default": curve}, 48 * MIB, cgroup_id=ord(side) + i)
            for i, curve in enumerate(curves)
        ]

    plant = Plant(four("a"), 192 * MIB, SIZES, shrink_bytes=4 * MIB)
    world = World(tmp_path, plant, EVERYBODY)
    world.run(30)
    plant.tenants = four("k")[:between]
    world.run(5)
    plant.tenants = four("k")
    world.run(15)
    held = [one.limit_bytes for one in plant.tenants]
    assert max(held) >= 60 * MIB and sum(held) >= 188 * MIB


def test_a_pinned_policy_that_is_refused_keeps_no_memory_from_others(tmp_path: Path) -> None:
    curve = flat(1.0)
    batch = PlantTenant("/batch", {"default": curve, "lru": curve}, 128 * MIB)
    spare = PlantTenant("/spare", {"default": curve}, 64 * MIB)
    needs = PlantTenant("/needs", {"default": EVEN}, 64 * MIB)
    world = World(tmp_path, Plant([batch, spare, needs], 256 * MIB, SIZES), EVERYBODY)
    world.run(1)
    world.plant.refuse = {"/batch": "no such policy"}
    world.service.pin(Pin(cgroup="/batch", policy="lru"))
    slo = Objective("/needs", throughput_ops=14_000.0)
    world.service.set_objectives(Objectives((slo, *EVERYBODY)))
    world.run(100)
    assert world.plant.ops(needs) >= 14_000 and spare.limit_bytes < 30 * MIB
