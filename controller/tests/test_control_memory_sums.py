# SPDX-License-Identifier: Apache-2.0
"""Promises and verdicts of all tenants together, in the terms of the goal."""

from pathlib import Path
from statistics import geometric_mean

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear, power
from experiments.control_loop.world import World

from cachepilot.control.memory_gain import promised_pct
from cachepilot.control.memory_sums import Compared, together
from cachepilot.control.verdict import stats
from cachepilot.domain.objectives.objective import Goal, Objective, Objectives
from cachepilot.plan.plan import plan
from cachepilot.sense.counters import Sample

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256))


def compared(before: float, after: float, weight: float = 1.0, told: float = 1.0) -> Compared:
    def at(ops: float) -> list[Sample]:
        return [Sample(0.0, 1.0, one, 0.5, 1000, 100.0, 50.0) for one in (0.9 * ops, 1.1 * ops)]

    return Compared(weight, stats(at(before)), stats(at(after)), told)


def test_one_that_doubles_makes_good_one_that_halves_however_fast_they_are() -> None:
    both = compared(10.0, 20.0, told=2.0), compared(1000.0, 500.0, told=0.5)
    fair = together(both, Goal.PROPORTIONAL_FAIRNESS)
    assert fair.before == pytest.approx(100) and fair.after == pytest.approx(100)
    assert fair.predicted_gain == pytest.approx(0, abs=1e-9)
    # Relative standard errors of 0.158 and 0.079, each counted by half.
    assert fair.noise == pytest.approx(100 * 0.0884, rel=1e-3)
    total = together(both, Goal.TOTAL_THROUGHPUT)
    assert [total.before, total.after] == pytest.approx([1010, 520])
    assert total.predicted_gain == pytest.approx(10 - 500)


def test_weights_count_and_nobody_is_nothing() -> None:
    both = compared(10.0, 20.0, weight=3.0), compared(10.0, 5.0)
    assert together(both, Goal.PROPORTIONAL_FAIRNESS).after == pytest.approx(10 * 2**0.5)
    assert together((), Goal.PROPORTIONAL_FAIRNESS).before == 0
    assert together((), Goal.TOTAL_THROUGHPUT).after == 0


@pytest.mark.parametrize("goal", [Goal.PROPORTIONAL_FAIRNESS, Goal.TOTAL_THROUGHPUT])
def test_a_promise_is_a_gain_of_what_the_goal_is_about(tmp_path: Path, goal: Goal) -> None:
    fast = PlantTenant("/fast", {"default": power(16 * MIB, 0.8)}, 96 * MIB, threads=64)
    slow = PlantTenant("/slow", {"default": linear(200 * MIB)}, 96 * MIB)
    asked = Objectives((Objective("*", keep=0),), goal)
    world = World(tmp_path, Plant([fast, slow], 192 * MIB, SIZES), asked.tenants, goal=goal)
    world.run(3)
    report = world.loop.report
    assert report is not None
    found = plan(report.collected.snapshot, asked, world.config.planner)
    before = [one.present.throughput_ops for one in found.actions]
    after = [one.throughput_ops for one in found.actions]
    gain_pct, error_pct = promised_pct(report.collected, found, asked)
    measure = sum if goal is Goal.TOTAL_THROUGHPUT else geometric_mean
    assert gain_pct == pytest.approx(100 * (measure(after) / measure(before) - 1))
    assert gain_pct > 0 and error_pct > 0
