# SPDX-License-Identifier: Apache-2.0
"""The trial of one change: what confirms it, what undoes it, and how much gains scatter."""

from collections.abc import Callable
from dataclasses import replace
from math import inf, isinf, sqrt

import numpy as np
import pytest
from deciding import World, run_all, scattering
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from cachepilot.decide.state import Interval
from cachepilot.decide.trial import READ_ANEW, Trial
from cachepilot.domain.decisions import Event
from cachepilot.model.gain import AUTOCORRELATION_MAX, LEAST_INTERVALS, quantile, quantiles

COST = 100.0
WOULD = 1e7
UNDO_TIMES, GROUPS = 4.0, 16
GAINS = st.lists(st.integers(-(10**6), 10**6).map(float), min_size=2, max_size=60)


def a_trial(factor: float = 1.0) -> Trial:
    return Trial("default", "lru", 0.0, 1 << 30, factor, (1000.0, 0.5), (1100.0, 0.4))


def after(gains: list[float], promised: float = 0.0) -> Trial:
    """Return a trial with these gains by interval. Each interval predicts a gain of `promised`.

    Every page is sampled. The earlier policy misses the same number of pages in each interval.
    """
    trial = a_trial()
    for gained in gains:
        trial.take(np.full(GROUPS, WOULD / GROUPS), WOULD - gained, WOULD - promised, 1.0)
    return trial


def settled(gains: list[float], promised: float = 0.0) -> Trial:
    """Return a trial whose first intervals, in which pages are read again, have no gain."""
    trial = after([0.0] * READ_ANEW + gains)
    trial.expected = promised
    return trial


def autoregressive(r: float, count: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return a stationary series with mean 5 and variance 1."""
    found = np.empty(count)
    found[0] = random.standard_normal()
    for i in range(1, count):
        found[i] = r * found[i - 1] + sqrt(1 - r * r) * random.standard_normal()
    return found + 5.0


def oracle(gains: NDArray[np.float64]) -> float:
    """Return the standard error of the sum of a first-order autoregressive series."""
    off = gains - gains.mean()
    lagged = (off[1:] * off[:-1]).mean()
    r = np.clip(lagged / gains.var(), 0.0, AUTOCORRELATION_MAX)
    return float(np.sqrt((READ_ANEW + len(gains)) * gains.var(ddof=1) * (1 + r) / (1 - r)))


@pytest.mark.parametrize("r", [-0.6, 0.0, 0.4, 0.8, 0.99])
@pytest.mark.parametrize("count", [5, 30, 300])
def test_the_standard_error_is_that_of_the_formula(r: float, count: int) -> None:
    gains = autoregressive(r, count, np.random.default_rng(count))
    trial = settled(gains.tolist())
    assert trial.standard_error() == pytest.approx(oracle(gains), rel=1e-4)


@pytest.mark.parametrize("r", [0.0, 0.5, 0.8])
def test_sums_of_correlated_gains_scatter_as_the_standard_error_says(r: float) -> None:
    random = np.random.default_rng(1)
    series = [autoregressive(r, 200, random) for _ in range(300)]
    scatter = np.std([one.sum() for one in series])
    told = np.mean([settled(one.tolist()).standard_error() for one in series])
    assert told == pytest.approx(scatter, rel=0.15)


def test_gains_that_alternate_count_as_independent() -> None:
    assert after([0.0, 10.0] * 50).standard_error() == pytest.approx(sqrt(100) * 5.0, rel=0.01)


def test_rereads_at_first_do_not_count_as_scatter() -> None:
    assert after([-1e6] * READ_ANEW + [5.0] * 10).standard_error() == 0.0


@pytest.mark.parametrize("groups", [3, 16, 200])
@pytest.mark.parametrize("chance", [0.4, 0.05, 1e-3, 1e-5])
def test_the_bound_is_the_quantile_of_students_t(groups: int, chance: float) -> None:
    exact = stats.t.ppf(1 - chance, groups - 1)
    assert quantile(chance, groups) == pytest.approx(exact)
    both = [quantile(one, groups) for one in (chance, 0.5)]
    assert quantiles(np.array([chance, 0.5]), groups).tolist() == both


def on_trial(
    errors: NDArray[np.float64], calibrated: int, rate: float = 0.0, alpha: float = 0.01
) -> tuple[bool, Trial]:
    """Return whether a change without gain is ever confirmed, and its trial.

    `errors` are by interval and group. The policy misses 100 pages of each group. The mean
    error of the first `calibrated` intervals is calibrated away.
    """
    predicted = 100.0 + errors
    trial = a_trial()
    trial.profile = predicted[:calibrated].sum(axis=0).tolist()
    factor = 100.0 * GROUPS * calibrated / sum(trial.profile)
    for one in predicted[calibrated:]:
        trial.take(factor * one, 100.0 * GROUPS, 0.0, rate)
        if trial.is_confirmed(trial.bound(alpha)):
            return True, trial
    return False, trial


@pytest.mark.parametrize("lasts", [0.0, 0.95, 1.0])
def test_a_change_without_gain_is_confirmed_no_more_often_than_alpha(
    lasts: float,
) -> None:
    random, runs, alpha, confirmed = np.random.default_rng(5), 200, 0.05, 0
    for _ in range(runs):
        errors = np.empty((180, GROUPS))
        errors[0] = 10 * random.standard_normal(GROUPS)
        for i in range(1, len(errors)):
            new = 10 * random.standard_normal(GROUPS)
            errors[i] = lasts * errors[i - 1] + sqrt(1 - lasts * lasts) * new
        confirmed += on_trial(errors, 60, alpha=alpha)[0]
    assert confirmed / runs <= alpha + 2 * sqrt(alpha * (1 - alpha) / runs)


def test_independent_noise_confirms_no_more_often_than_alpha() -> None:
    """Of all looks in a few hundred intervals, at most this share of runs confirms."""
    random, runs, alpha, confirmed = np.random.default_rng(7), 2000, 0.01, 0
    would_cost = np.full(GROUPS, 1000.0 / GROUPS)
    for _ in range(runs):
        trial = a_trial()
        for misses in 1000 + 30 * random.standard_normal(60):
            trial.take(would_cost, misses, 1000.0, 1.0)
            if trial.is_confirmed(trial.sure_bound(alpha)):
                confirmed += 1
                break
    assert confirmed / runs <= alpha + 2 * sqrt(alpha * (1 - alpha) / runs)


def skewed(
    random: np.random.Generator, skew: float, scatter: float
) -> Callable[[Interval], Interval]:
    """Return a function that predicts more misses of some groups, and scatters measured misses."""
    shares = np.exp(skew * random.standard_normal(GROUPS))
    shares /= shares.mean()
    scattered = scattering(random, scatter)

    def seen_as(seen: Interval) -> Interval:
        told = seen.counterfactual
        assert told is not None
        return scattered(replace(seen, counterfactual=told._replace(misses=told.misses * shares)))

    return seen_as


@pytest.mark.parametrize("skew", [0.0, 0.7])
@pytest.mark.parametrize("scatter", [0.1, 0.3])
def test_a_calibration_that_scatters_confirms_nothing(scatter: float, skew: float) -> None:
    """The policies are equal, but one is predicted to save; measured misses scatter.

    Some groups may miss more than others all the time. This is no noise of the sample.
    """
    worlds = [World({"default": 0.5, "lru": 0.5}, told={"lru": 0.46}) for _ in range(40)]
    for seed, world in enumerate(worlds):
        world.seen_as = skewed(np.random.default_rng(seed), skew, scatter)
    confirmed = [
        (seed, one.why)
        for seed, found in enumerate(run_all(worlds, 200))
        for one in found
        if one.event is Event.KEPT and one.after.policy == "lru"
    ]
    assert len(confirmed) <= 1, confirmed


def test_errors_of_a_small_sample_stay_after_larger_samples() -> None:
    trial = a_trial()
    for rate in (0.5, 0.01, 1.0):
        trial.take(np.array([60.0, 40.0]), 70.0, 120.0, rate)
    assert trial.unseen == 0.99


def test_an_error_that_stays_is_calibrated_away_and_one_that_is_new_is_not() -> None:
    random = np.random.default_rng(6)
    same = np.repeat(10 * random.standard_normal((1, GROUPS)), 60, axis=0)
    _, trial = on_trial(same, 30)
    assert trial.standard_error() == pytest.approx(0.0, abs=1e-6)
    same[30:] = 10 * random.standard_normal(GROUPS)
    _, trial = on_trial(same, 30)
    # 30 intervals of sixteen groups. Each is off by 10 in the calibration and in the trial.
    assert trial.standard_error() == pytest.approx(30 * 10 * sqrt(2 * GROUPS), rel=0.4)


def test_gains_that_scatter_with_the_load_are_no_error() -> None:
    """The same share is saved of a load that rises a hundredfold, and then ends."""
    random, trial = np.random.default_rng(4), a_trial()
    shares = random.normal(0.3, 0.01, 40)
    loads = np.concatenate((np.geomspace(1e4, 1e6, 20), np.full(10, 1e6), np.zeros(10)))
    for load, share in zip(loads, shares, strict=True):
        trial.take(np.full(GROUPS, load / GROUPS), load * (1 - share), load * 0.7, 1.0)
        if trial.intervals > READ_ANEW + LEAST_INTERVALS:
            assert trial.is_confirmed(trial.bound(0.01))
    told = 0.01 * np.sqrt((loads[READ_ANEW:] ** 2).sum())
    assert trial.standard_error() == pytest.approx(told, rel=0.5)


@pytest.mark.parametrize(
    "loads",
    [
        np.concatenate((np.geomspace(1e4, 1e6, 20), np.full(40, 1e6))),
        np.array([1e2] * 2 + [1e6] + [1e2] * 12),
        np.array([1e4] * 2 + [1e6] + [0.0] * 5),
        np.array([1e6 if i in (3, 9) else 10.0 for i in range(40)]),
        np.full(60, 1e5),
    ],
    ids=["rises", "one_burst", "ends", "two_bursts", "even"],
)
def test_a_saving_that_scatters_about_zero_is_not_confirmed_under_any_load(
    loads: NDArray[np.float64],
) -> None:
    confirmed = 0
    for seed in range(200):
        random, trial = np.random.default_rng(seed), a_trial()
        for load in loads:
            misses = load * (1 - random.normal(0.0, 0.05))
            trial.take(np.full(GROUPS, load / GROUPS), misses, load * 0.7, 1.0)
            if trial.is_confirmed(trial.bound(0.01)):
                confirmed += 1
                break
    assert confirmed <= 0.05 * 200


def test_misses_that_the_earlier_policy_avoids_need_an_error_before_they_undo() -> None:
    trial = a_trial()
    for misses in (0.0, 0.0, 9.0, 8.0, 10.0):
        trial.take(np.zeros(GROUPS), misses, 0.0, 1.0)
    assert trial.bound(0.01) > 9.0


def test_one_gain_says_nothing_of_scatter_and_equal_gains_do_not_scatter() -> None:
    assert isinf(a_trial().standard_error()) and isinf(after([5.0]).standard_error())
    assert after([5.0] * 10).standard_error() == 0.0


@given(GAINS)
def test_a_standard_error_is_finite_and_grows_with_the_gains(gains: list[float]) -> None:
    found = settled(gains).standard_error()
    assert 0 <= found < inf
    doubled = settled([2 * one for one in gains]).standard_error()
    assert doubled == pytest.approx(2 * found)


def test_the_chance_of_a_false_confirmation_is_shared_out_among_doublings_of_the_time() -> None:
    bounds = []
    counts = (LEAST_INTERVALS, 2 * LEAST_INTERVALS, 64 * LEAST_INTERVALS)
    for count in counts:
        trial = after([1.0, 3.0, 3.0, 1.0] * (count // 4) + [2.0] * (count % 4))
        assert trial.intervals == count
        bounds.append(trial.bound(0.01) / trial.standard_error())
    chances = [0.01 * 6 / np.pi**2 / (1 + doublings) ** 2 for doublings in (0, 1, 6)]
    assert bounds == pytest.approx(
        [stats.t.ppf(1 - one, of - READ_ANEW - 1) for one, of in zip(chances, counts, strict=True)]
    )


def test_an_interval_is_taken_by_what_the_earlier_policy_would_have_missed() -> None:
    trial = a_trial(factor=0.5)
    trial.take(would_cost=np.array([60.0, 40.0]), misses=70.0, raw=120.0, rate=0.25)
    trial.take(would_cost=np.array([70.0, 30.0]), misses=130.0, raw=300.0, rate=0.25)
    assert (trial.intervals, trial.gained) == (2, 30.0 - 30.0)
    # A later interval may reduce what was predicted.
    assert trial.expected == 40.0 - 50.0
    assert (trial.would_cost, trial.raw) == (200.0, 420.0)
    assert (trial.groups, trial.unseen) == ([130.0, 70.0], 0.75)


def test_another_number_of_groups_restarts_their_sums() -> None:
    trial = a_trial()
    trial.take(np.array([60.0, 40.0]), 70.0, 120.0, 0.25)
    trial.take(np.array([30.0, 40.0, 30.0]), 70.0, 120.0, 0.25)
    assert trial.groups == [30.0, 40.0, 30.0] and trial.would_cost == 200.0


def test_a_gain_beyond_error_is_confirmed_and_one_within_is_not() -> None:
    trial = after([60.0, -40.0, 45.0, -35.0] * 5)
    assert trial.is_confirmed(trial.gained * 0.99)
    assert not trial.is_confirmed(trial.gained * 1.01)


def test_fewer_than_the_least_intervals_neither_confirm_nor_undo() -> None:
    few, enough = LEAST_INTERVALS - 1, LEAST_INTERVALS
    assert not after([1e6] * few).is_confirmed(0.0)
    assert after([1e6] * enough).is_confirmed(0.0)
    assert after([-1e6] * few).why_undone(COST, 0.0, UNDO_TIMES) is None
    assert after([-1e6] * enough).why_undone(COST, 0.0, UNDO_TIMES) is not None


@pytest.mark.parametrize("error", [0.0, 50.0])
def test_a_change_is_undone_as_soon_as_it_is_sure_that_it_reads_more(error: float) -> None:
    """It must read more than its cost, which it reads again, plus the error."""
    most = (COST + error) / 10
    assert after([-most] * 10).why_undone(COST, error, UNDO_TIMES) is None
    found = after([-most - 0.1] * 10).why_undone(COST, error, UNDO_TIMES)
    assert found == f"it read {COST + error + 1:.0f} pages more than default would have"


def test_a_change_is_undone_as_soon_as_its_predicted_saving_is_surely_missed() -> None:
    """It is undone even if all that it may have read again is no loss, before the saving is due."""
    trial = settled([-COST / 10] * 10, promised=380.0)
    kept = 380.0 / UNDO_TIMES
    assert trial.why_undone(COST, kept, UNDO_TIMES) is None
    found = trial.why_undone(COST, kept - 1, UNDO_TIMES)
    assert found == "it should have saved 380 pages, and saved -100"


def test_a_predicted_saving_that_is_due_and_missed_is_undone() -> None:
    due = UNDO_TIMES * COST
    # With an infinite error nothing is certain.
    error = inf
    assert settled([0.0] * 10, due - 1).why_undone(COST, error, UNDO_TIMES) is None
    found = settled([0.0] * 10, due).why_undone(COST, error, UNDO_TIMES)
    assert found == "it should have saved 400 pages, and saved 0"
    kept = due / UNDO_TIMES / 10
    assert settled([kept] * 10, due).why_undone(COST, error, UNDO_TIMES) is None
    assert settled([kept * 0.9] * 10, due).why_undone(COST, error, UNDO_TIMES) is not None


def test_scatter_delays_when_a_predicted_saving_is_due() -> None:
    scattered = [50.0, -50.0] * 5
    assert settled(scattered, UNDO_TIMES * COST).why_undone(COST, inf, UNDO_TIMES) is None
    later = UNDO_TIMES * (COST + settled(scattered).standard_error()) + 0.01
    assert settled(scattered, later).why_undone(COST, inf, UNDO_TIMES) is not None


@given(GAINS, st.floats(0.0, 1e6), st.floats(1.0, 1e6))
def test_a_change_without_gain_is_never_confirmed(
    gains: list[float], promised: float, cost: float
) -> None:
    trial = after(gains, promised)
    error = trial.bound(0.01)
    if trial.gained <= 0:
        assert not trial.is_confirmed(error)
    if trial.gained < -cost - error and trial.intervals >= LEAST_INTERVALS:
        assert trial.why_undone(cost, error, UNDO_TIMES) is not None


def test_a_change_by_which_nothing_can_be_measured_any_more_is_given_up() -> None:
    """A policy saves pages. Before that is certain, all pages fit."""
    world = World({"default": 0.5, "lru": 0.3}, seed=5).learn()
    world.until(Event.TRIAL)
    world.run(2)
    assert world.state.trial is not None and world.state.trial.gained > 0
    world.truth = dict.fromkeys(world.truth, 0.0)
    found = world.run(620)
    assert [one.event for one in found] == [Event.ABANDONED] and world.in_force == "default"
    assert world.state.trial is None and "without misses" in found[0].why
