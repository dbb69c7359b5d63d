# SPDX-License-Identifier: Apache-2.0
"""The margin above a target for the scatter of intervals, and misses beyond chance."""

import numpy as np
import pytest

from cachepilot.model.throughput_error import KEPT_SHARE, SCATTER_MAX, TargetError, scatter

SETTING = ("default", 1 << 26)
TARGET = 1000.0


def run(mean: float, deviation: float, intervals: int, seed: int = 1) -> tuple[TargetError, int]:
    """Run until the target counts as missed, or so many intervals. Return how many.

    The first value is the error of the target at that time.
    """
    random, found = np.random.default_rng(seed), TargetError()
    for interval in range(1, intervals + 1):
        value = max(1.0, float(random.normal(mean, deviation)))
        found.take(SETTING, value, mean, value >= TARGET)
        if found.is_short:
            return found, interval
    return found, intervals


@pytest.mark.parametrize("deviation", [60.0, 100.0, 200.0])
def test_a_mean_by_its_margin_above_a_target_meets_it_in_nearly_all_intervals(
    deviation: float,
) -> None:
    known, _ = run(1500.0, deviation, 40)
    mean = TARGET * (1 + known.margin)
    random = np.random.default_rng(2)
    kept = random.normal(mean, known.scatter * mean, 20_000) >= TARGET
    assert kept.mean() == pytest.approx(KEPT_SHARE, abs=0.003)
    alarms = [run(mean, 0.9 * known.scatter * mean, 60, seed)[0].is_short for seed in range(200)]
    assert np.mean(alarms) <= 0.05


@pytest.mark.parametrize(("mean", "within"), [(700.0, 3), (950.0, 12)])
def test_a_target_that_is_missed_is_noticed(mean: float, within: int) -> None:
    for seed in range(50):
        found, intervals = run(mean, 20.0, within, seed)
        assert found.is_short, f"not in {intervals} intervals"


@pytest.mark.parametrize(
    ("missed", "of", "is_short"), [(3, 5, True), (3, 6, False), (4, 25, True), (4, 26, False)]
)
def test_enough_missed_intervals_are_beyond_chance(missed: int, of: int, is_short: bool) -> None:
    found = TargetError()
    met = [True] * (of - missed)
    for is_met in (*[False] * (missed - 1), *met, False):
        found.take(SETTING, TARGET, TARGET, is_met)
    assert found.is_short == is_short


def test_the_error_of_the_model_is_learnt() -> None:
    found = TargetError()
    for _ in range(100):
        found.take(SETTING, 800.0, 1000.0, True)
    assert found.ratio == pytest.approx(0.8, abs=0.01) and found.margin == 0


def test_a_prediction_that_is_too_high_is_corrected_at_once_and_too_low_is_not() -> None:
    much, little = TargetError(), TargetError()
    much.take(SETTING, 800.0, 1000.0, True)
    little.take(SETTING, 1200.0, 1000.0, True)
    assert much.ratio == pytest.approx(0.8) and little.ratio == 1.0


def test_while_a_page_cache_fills_nothing_counts_as_missed() -> None:
    found = TargetError()
    for _ in range(50):
        found.take(SETTING, 100.0, 1000.0, None)
    assert not found.is_short
    for _ in range(3):
        found.take(SETTING, 100.0, 1000.0, False)
    assert found.is_short
    found.take(("default", 1 << 27), 2000.0, 1000.0, True)
    assert not found.is_short


def test_scatter_is_of_neighbours_not_of_a_mean_that_moves() -> None:
    rising = [1000.0 + 10 * i for i in range(40)]
    assert scatter(rising) < 0.01
    assert scatter([1.0, 1000.0] * 20) == SCATTER_MAX
    assert scatter(rising[:3]) == 0.0
