# SPDX-License-Identifier: Apache-2.0
"""What is shown of an SLO belongs to its present target and the reading beside it."""

from pathlib import Path

from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear, scan
from experiments.control_loop.world import World

from cachepilot.api.shapes.views import SloView
from cachepilot.domain.objectives.objective import Objective
from cachepilot.node.loop import SAVE_CYCLES

SIZES = tuple(MIB * size for size in (16, 64, 128, 256))
EASY, HARD = 0.05, 0.999


def a_world(path: Path, target: float) -> World:
    curves = {"default": scan(200 * MIB), "mru": linear(200 * MIB)}
    plant = Plant([PlantTenant("/a", curves, 128 * MIB)], 128 * MIB, SIZES)
    return World(path, plant, [Objective("/a", hit_ratio=target)])


def slo(world: World) -> SloView:
    return world.service.tenants()[0].slos[0]


def settled(path: Path) -> World:
    """Return a world whose SLO is met in most windows of many minutes."""
    world = a_world(path, EASY)
    world.run(4 * SAVE_CYCLES)
    assert (slo(world).attainment or 0) > 0.5
    return world


def test_attainment_restarts_with_another_target(tmp_path: Path) -> None:
    world = settled(tmp_path)
    windows = slo(world).windows_total
    world.service.set_objective(Objective("/a", hit_ratio=HARD))
    world.run(2)
    assert (slo(world).verdict, slo(world).attainment) == ("missed", 0.0)
    world.run(SAVE_CYCLES)
    # Counters never fall: they count windows, whatever the targets were.
    assert windows is not None and (slo(world).windows_total or 0) > windows
    world.service.set_objective(Objective("/a", hit_ratio=EASY))
    world.run(2)
    assert slo(world).attainment == 1.0


def test_attainment_restarts_even_if_the_controller_is_killed(tmp_path: Path) -> None:
    world = settled(tmp_path)
    world.restart()
    world.run(2)
    assert (slo(world).attainment or 0) > 0.5
    world.service.set_objective(Objective("/a", hit_ratio=HARD))
    world.restart()
    world.run(2)
    assert slo(world).attainment == 0.0
    world.run(2 * SAVE_CYCLES)
    world.restart()
    world.run(1)
    assert slo(world).attainment == 0.0


def test_an_slo_that_changes_nothing_keeps_its_attainment(tmp_path: Path) -> None:
    world = settled(tmp_path)
    before = slo(world).attainment
    world.service.set_objective(Objective("/a", hit_ratio=EASY, weight=2.0))
    world.run(1)
    after = slo(world).attainment
    assert before is not None and after is not None and abs(after - before) < 0.05


def test_an_slo_its_tenant_and_its_time_series_show_one_reading(tmp_path: Path) -> None:
    curves = {"default": scan(200 * MIB), "mru": linear(200 * MIB)}
    plant = Plant([PlantTenant("/a", curves, 128 * MIB)], 128 * MIB, SIZES)
    world = World(tmp_path, plant, [Objective("/a", hit_ratio=0.5, throughput_ops=300.0)])
    changed = set()
    for _ in range(40):
        world.run(1)
        [row] = world.service.tenants()
        for one in row.slos:
            assert one.measured == getattr(row, one.kind)
        course = world.service.past.series("/a", "plant", None, None, 600)
        if row.throughput_ops is not None:
            shown = course.throughput_ops[-1]
            assert shown is not None and abs(shown / row.throughput_ops - 1) < 1e-3
            changed.add(round(row.throughput_ops))
    assert len(changed) > 1
    detail = world.service.tenant("/a")
    assert detail.predicted_ops is not None and detail.tenant.throughput_ops is not None
    told = detail.predicted_ops / detail.tenant.throughput_ops - 1
    assert detail.prediction_error == told
