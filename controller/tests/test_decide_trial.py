# SPDX-License-Identifier: Apache-2.0
"""The rollout of one change: what confirms it, what undoes it, and how much gains scatter."""

from math import inf, isinf, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from cachepilot.decide.trial import AUTOCORRELATION_MAX, LEAST_INTERVALS, Trial

COST = 100.0
SIGMAS, UNDO_TIMES = 2.0, 4.0
GAINS = st.lists(st.integers(-(10**6), 10**6).map(float), min_size=2, max_size=60)


def a_trial(factor: float = 1.0) -> Trial:
    return Trial("default", "lru", 0.0, 1 << 30, factor, (1000.0, 0.5), (1100.0, 0.4))


def after(gains: list[float], promised: float = 0.0) -> Trial:
    """A trial of which every interval gained so much, and promised as much as is told."""
    trial = a_trial()
    for gained in gains:
        trial.take(gained, 0.0, gained - promised)
    return trial


def autoregressive(r: float, count: int, random: np.random.Generator) -> NDArray[np.float64]:
    """A stationary series of variance 1 about 5."""
    found = np.empty(count)
    found[0] = random.standard_normal()
    for i in range(1, count):
        found[i] = r * found[i - 1] + sqrt(1 - r * r) * random.standard_normal()
    return found + 5.0


def oracle(gains: NDArray[np.float64]) -> float:
    """The standard error of the sum of a first-order autoregressive series, written out."""
    lagged = (gains[1:] * gains[:-1]).mean() - gains.mean() ** 2
    r = np.clip(lagged / gains.var(), 0.0, AUTOCORRELATION_MAX)
    return float(np.sqrt(len(gains) * gains.var() * (1 + r) / (1 - r)))


@pytest.mark.parametrize("r", [-0.6, 0.0, 0.4, 0.8, 0.99])
@pytest.mark.parametrize("count", [5, 30, 300])
def test_the_standard_error_is_that_of_the_formula(r: float, count: int) -> None:
    gains = autoregressive(r, count, np.random.default_rng(count))
    trial = after(gains.tolist())
    assert trial.standard_error() == pytest.approx(oracle(gains), rel=1e-4)


@pytest.mark.parametrize("r", [0.0, 0.5, 0.8])
def test_sums_of_correlated_gains_scatter_as_the_standard_error_says(r: float) -> None:
    random = np.random.default_rng(1)
    series = [autoregressive(r, 200, random) for _ in range(300)]
    scatter = np.std([one.sum() for one in series])
    told = np.mean([after(one.tolist()).standard_error() for one in series])
    assert told == pytest.approx(scatter, rel=0.15)


def test_gains_that_alternate_count_as_independent() -> None:
    assert after([0.0, 10.0] * 50).standard_error() == pytest.approx(sqrt(100) * 5.0)


def test_one_gain_says_nothing_of_scatter_and_equal_gains_do_not_scatter() -> None:
    assert isinf(a_trial().standard_error()) and isinf(after([5.0]).standard_error())
    assert after([5.0] * 10).standard_error() == 0.0


@given(GAINS)
def test_a_standard_error_is_finite_and_grows_with_the_gains(gains: list[float]) -> None:
    found = after(gains).standard_error()
    assert 0 <= found < inf
    doubled = after([2 * one for one in gains]).standard_error()
    assert doubled == pytest.approx(2 * found)


def test_an_interval_is_taken_by_what_the_earlier_policy_would_have_missed() -> None:
    trial = a_trial(factor=0.5)
    trial.take(would_cost=100.0, misses=70.0, raw=120.0)
    trial.take(would_cost=100.0, misses=130.0, raw=300.0)
    assert (trial.intervals, trial.gained) == (2, 30.0 - 30.0)
    assert trial.promised == 40.0 + 0.0
    assert (trial.would_cost, trial.misses, trial.raw) == (200.0, 200.0, 420.0)


def test_a_gain_beyond_its_scatter_is_confirmed_and_one_within_is_not() -> None:
    scattered = [60.0, -40.0, 45.0, -35.0] * 5
    trial = after(scattered)
    sigmas = trial.gained / trial.standard_error()
    assert sigmas > 0
    assert trial.is_confirmed(COST, sigmas * 0.99, UNDO_TIMES)
    assert not trial.is_confirmed(COST, sigmas * 1.01, UNDO_TIMES)


def test_fewer_than_the_least_intervals_neither_confirm_nor_undo() -> None:
    few, enough = LEAST_INTERVALS - 1, LEAST_INTERVALS
    assert not after([1e6] * few).is_confirmed(COST, SIGMAS, UNDO_TIMES)
    assert after([1e6] * enough).is_confirmed(COST, SIGMAS, UNDO_TIMES)
    assert after([-1e6] * few).why_undone(COST, UNDO_TIMES) is None
    assert after([-1e6] * enough).why_undone(COST, UNDO_TIMES) is not None


def test_a_change_is_undone_when_it_read_twice_its_cost_more() -> None:
    assert after([-2 * COST / 10] * 10).why_undone(COST, UNDO_TIMES) is None
    found = after([-2 * COST / 10 - 0.1] * 10).why_undone(COST, UNDO_TIMES)
    assert found == "it read 201 pages more than default would have"


def test_a_promise_that_was_due_and_not_kept_is_undone() -> None:
    due = UNDO_TIMES * COST
    assert after([0.0] * 10, promised=due / 10 - 0.1).why_undone(COST, UNDO_TIMES) is None
    found = after([0.0] * 10, promised=due / 10).why_undone(COST, UNDO_TIMES)
    assert found == "it was to save 400 pages, and saved 0"
    kept = due / UNDO_TIMES / 10
    assert after([kept] * 10, promised=due / 10).why_undone(COST, UNDO_TIMES) is None
    assert after([kept * 0.9] * 10, promised=due / 10).why_undone(COST, UNDO_TIMES) is not None


def test_scatter_puts_off_when_a_promise_is_due() -> None:
    promised = UNDO_TIMES * COST / 10
    scattered = [50.0, -50.0] * 5
    assert after(scattered, promised).why_undone(COST, UNDO_TIMES) is None
    error = after(scattered).standard_error()
    later = UNDO_TIMES * (COST + error) / 10 + 0.01
    assert after(scattered, later).why_undone(COST, UNDO_TIMES) is not None


def test_what_keeps_its_promise_is_confirmed_however_it_scatters() -> None:
    promised = 2 * UNDO_TIMES * COST / 10
    kept = promised / UNDO_TIMES
    gains = [kept + 1000.0, kept - 999.0] * 5
    assert not after(gains).is_confirmed(COST, SIGMAS, UNDO_TIMES)
    assert not after(gains, promised * 0.99).is_confirmed(COST, SIGMAS, UNDO_TIMES)
    assert after(gains, promised).is_confirmed(COST, SIGMAS, UNDO_TIMES)


@given(GAINS, st.floats(0.0, 1e6), st.floats(1.0, 1e6))
def test_what_gained_nothing_is_never_confirmed(
    gains: list[float], promised: float, cost: float
) -> None:
    trial = after(gains, promised)
    if trial.gained <= 0:
        assert not trial.is_confirmed(cost, SIGMAS, UNDO_TIMES)
    if trial.gained < -2 * cost and trial.intervals >= LEAST_INTERVALS:
        assert trial.why_undone(cost, UNDO_TIMES) is not None
