# SPDX-License-Identifier: Apache-2.0
"""The fit of service time and accesses, with `scipy.optimize.least_squares` as the referee."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from cachepilot._models import fit_split
from cachepilot.domain.snapshot import FloatArray
from cachepilot.model.fitting import HIGH, LOW, ROOT_WEIGHTS, SOFT


class SplitProblem(NamedTuple):
    """Time per operation and wait per access of intervals, and accesses as measured."""

    log_seen: FloatArray
    misses_us: FloatArray
    root_weight: FloatArray
    accesses: float
    prior_weight: float
    start: tuple[float, float]


def best_split(one: SplitProblem) -> tuple[float, float]:
    weights, believed = one.root_weight / SOFT, (one.accesses, one.prior_weight / SOFT)
    return fit_split(one.log_seen, one.misses_us, weights, believed, one.start, LOW, HIGH)


def _problem(seed: int, scatter: float, outliers: int, swing: float) -> SplitProblem:
    random = np.random.default_rng(seed)
    count = int(random.integers(3, 129))
    service_us, accesses = 10 ** random.uniform(0, 4), 10 ** random.uniform(-1, 2)
    misses_us = 10 ** random.uniform(0, 4) * random.uniform(1 - swing, 1, count)
    time_us = (service_us + accesses * misses_us) * np.exp(scatter * random.normal(size=count))
    # If most intervals are outliers there are several minima, and chance decides which is found.
    time_us[random.integers(count, size=min(outliers, (count - 1) // 2))] *= 20
    believed = accesses * 10 ** random.uniform(-0.5, 0.5)
    weight = ROOT_WEIGHTS[-count:]
    return SplitProblem(
        np.log(time_us), misses_us, weight, believed, float(random.uniform(0.05, 3)),
        (service_us, believed),
    )  # fmt: skip


def _residuals(one: SplitProblem, at: FloatArray) -> FloatArray:
    service_us, accesses = np.exp(at)
    off = np.log(service_us + accesses * one.misses_us) - one.log_seen
    away = one.prior_weight * (at[1] - math.log(one.accesses))
    return np.append(off * one.root_weight, away)


def _loss(one: SplitProblem, at: FloatArray) -> float:
    found = np.sqrt(1 + (_residuals(one, at) / SOFT) ** 2) - 1
    return float(SOFT**2 * found.sum())


def _by_scipy(one: SplitProblem, start: FloatArray | None = None) -> FloatArray:
    bounds = np.log(LOW), np.log(HIGH)
    start = np.clip(np.log(one.start) if start is None else start, *bounds)
    found = least_squares(
        lambda at: _residuals(one, at), start, bounds=bounds, loss="soft_l1", f_scale=SOFT,
        xtol=1e-12, ftol=1e-12, gtol=1e-12,
    )  # fmt: skip
    return np.asarray(found.x)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 0.3), st.integers(0, 5), st.floats(0.1, 0.99))
def test_scipy_finds_nothing_better_near_a_solution(
    seed: int, scatter: float, outliers: int, swing: float
) -> None:
    problem = _problem(seed, scatter, outliers, swing)
    service_us, accesses = best_split(problem)
    found = np.log([service_us, accesses])
    # With outliers there may be another minimum elsewhere.
    other = _by_scipy(problem, found)
    assert _loss(problem, found) <= _loss(problem, other) * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("scatter", [0.0, 0.05])
def test_solutions_agree_with_scipy_where_there_is_one(scatter: float) -> None:
    problems = [_problem(seed, scatter, 1, 0.8) for seed in range(24)]
    for problem in problems:
        # Where service time has little effect, it is known less well.
        assert np.log(best_split(problem)) == pytest.approx(_by_scipy(problem), abs=0.01)


def test_a_parameter_at_its_bound_leaves_the_other_free() -> None:
    misses_us = np.linspace(100.0, 1000.0, 60)
    # Time grows less than in proportion to misses, so the best service time is below 0.
    log_seen = np.log(3 * misses_us - 250)
    one = SplitProblem(log_seen, misses_us, ROOT_WEIGHTS[-60:], 2.0, 0.05, (10.0, 2.0))
    service_us, accesses = best_split(one)
    assert service_us == pytest.approx(LOW[0], rel=1e-3) or service_us < 1
    assert _loss(one, np.log([service_us, accesses])) <= _loss(one, _by_scipy(one)) * (1 + 1e-6)
