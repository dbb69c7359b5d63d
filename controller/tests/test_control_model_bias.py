# SPDX-License-Identifier: Apache-2.0
"""Promises where the curves promise too much."""

from pathlib import Path

import numpy as np
import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World

from cachepilot.control.model_bias import BIAS_MAX, HEADROOM, SCATTER_MAX, ModelBias, scatter
from cachepilot.domain.objectives.objective import Objective, Objectives

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256, 384, 512))
TARGET = 1000.0


def aimed_at(tmp_path: Path, told: float, looks: int = 200) -> float:
    """What the planner is asked for, where the curve says `told` times the misses."""
    truth = linear(250 * MIB)
    tenant = PlantTenant("/a", {"default": truth}, 128 * MIB)
    tenant.told = {"default": lambda size: told * truth(size)}
    objectives = Objectives((Objective("/a", throughput_ops=TARGET),))
    world = World(tmp_path, Plant([tenant], 128 * MIB, SIZES), objectives.tenants)
    world.run(20)
    report = world.loop.report
    assert report is not None
    bias, found = ModelBias(), objectives
    for _ in range(looks):
        found = bias.aimed(report.collected, objectives, 0.0)
    return found.of("/a").throughput_ops or 0.0


def test_curves_that_promise_too_much_raise_the_aim(tmp_path: Path) -> None:
    aim = aimed_at(tmp_path, 0.8)
    assert 1.1 * TARGET < aim <= BIAS_MAX * HEADROOM * TARGET
    assert aimed_at(tmp_path / "once", 0.8, looks=1) < aim


@pytest.mark.parametrize("told", [1.0, 1.2])
def test_curves_that_promise_no_more_than_is_measured_leave_it(tmp_path: Path, told: float) -> None:
    assert aimed_at(tmp_path, told) == TARGET


def test_the_aim_is_bounded(tmp_path: Path) -> None:
    assert aimed_at(tmp_path, 0.01) <= BIAS_MAX * HEADROOM * TARGET * (1 + 1e-9)


def test_windows_that_scatter_raise_the_aim_and_a_change_of_the_mean_does_not() -> None:
    noise = np.random.default_rng(1).normal(0, 1, 40)
    assert scatter((1000 + 50 * noise).tolist()) == pytest.approx(0.05, rel=0.4)
    assert scatter((1000 + 500 * noise).tolist()) == SCATTER_MAX
    assert scatter([1000.0] * 20 + [500.0] * 20) == 0
    assert scatter(np.linspace(1000, 1400, 40).tolist()) < 0.01
    assert scatter([1000.0, 2000.0]) == 0
