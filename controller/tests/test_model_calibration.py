# SPDX-License-Identifier: Apache-2.0
"""Calibration: measured over predicted misses of each policy. The first is the default."""

from collections.abc import Sequence
from copy import deepcopy
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from cachepilot.model.calibration import (
    ACCESSES,
    FORGOTTEN_S,
    MEASURED,
    PREDICTED,
    PRIOR_S,
    RATE,
    RATE_HALF_LIFE_S,
    SECONDS,
    SHOWN_S,
    Calibration,
    Calibrations,
)

POLICIES = 3
HALF_LIFE_S = 40.0
AMOUNT = st.floats(0.0, 1e9)


def three(amount: st.SearchStrategy[float]) -> st.SearchStrategy[list[float]]:
    return st.lists(amount, min_size=POLICIES, max_size=POLICIES)


KNOWN = st.lists(three(AMOUNT), min_size=RATE + 1, max_size=RATE + 1).map(
    lambda rows: calibration(*rows)
)
INDEX = st.integers(0, POLICIES - 1)


def calibration(*rows: list[float]) -> Calibration:
    """Return a calibration with these rows."""
    return Calibration(np.array(rows))


def unknown(policies: int = POLICIES) -> Calibration:
    return Calibration(np.zeros((RATE + 1, policies)))


def take(
    found: Calibration,
    index: int,
    measured: float,
    predicted: float,
    elapsed_s: float,
    half_life_s: float = HALF_LIFE_S,
    scatter: float = 0.0,
    accesses: float = 1000.0,
) -> None:
    """Take an interval under the policy `index`."""
    now = Calibrations.of([found])
    pages, told = np.array([measured]), np.array([predicted])
    rest = np.array([scatter]), np.array([accesses])
    now.take(np.array([index]), pages, told, *rest, elapsed_s, half_life_s)
    now.store([found])


def pass_time(found: Calibration, misses: list[float], elapsed_s: float) -> None:
    """Take an interval's predicted misses of all policies."""
    now = Calibrations.of([found])
    now.pass_time(np.array([misses]), elapsed_s)
    now.store([found])


def known_for(index: int, ratio: float, seconds: int, found: Calibration) -> Calibration:
    """Return `found` after so many seconds under a policy with this ratio of misses."""
    for _ in range(seconds):
        take(found, index, 100 * ratio, 100.0, 1.0)
    return found


def expected(
    found: Calibration, index: int, predicted: float, accesses: float = 1000.0
) -> list[float]:
    """Return the expected misses of each policy, if as many are predicted of each.

    The policy `index` is in force.
    """
    now, at = Calibrations.of([found]), np.array([index])
    pages: list[float] = (now.factors(at) * predicted + now.offsets(at) * accesses)[0].tolist()
    return pages


@pytest.mark.parametrize("index", range(POLICIES))
def test_without_knowledge_predictions_are_taken_as_they_are(index: int) -> None:
    assert unknown().factors(index).tolist() == [1.0] * POLICIES


def test_time_in_which_nothing_was_predicted_says_nothing() -> None:
    found = calibration([50.0, 50.0, 0.0], [0.0] * 3, [60.0, 60.0, 0.0], [0.0] * 3, [0.0] * 3)
    for index in range(POLICIES):
        assert found.factors(index).tolist() == [1.0] * POLICIES


def test_a_policy_that_was_never_in_force_is_as_far_off_as_the_default() -> None:
    found = known_for(0, 1.5, 200, unknown())
    assert found.factors(0) == pytest.approx([1.5, 1.5, 1.5])


def test_while_little_is_known_of_the_default_the_policy_in_force_stands_for_it() -> None:
    assert known_for(1, 2.0, 3, unknown()).factors(1) == pytest.approx([2.0, 2.0, 2.0])
    both = known_for(1, 2.0, 100, known_for(0, 1.0, 2, unknown()))
    default, in_force, other = both.factors(1)
    assert 1.2 < default < other < in_force < 2.0


def test_the_policy_in_force_says_little_of_a_default_that_is_known() -> None:
    found = known_for(1, 2.0, 200, known_for(0, 1.0, 300, unknown()))
    default, in_force, _ = found.factors(1)
    assert default == pytest.approx(1.0, abs=0.1)
    assert in_force == pytest.approx(2.0, abs=0.1)


def test_measurements_as_long_as_the_prior_count_half() -> None:
    found = calibration(
        [100.0, 300.0, 0.0], [100.0, 100.0, 0.0], [1e9, PRIOR_S, 0.0], [0.0] * 3, [0.0] * 3
    )
    assert found.factors(0)[:2] == pytest.approx([1.0, 2.0])


def tried(ratios: Sequence[float], pages: float = 1e9) -> Calibration:
    """The default missed as predicted, and tried policies so many times as much; one is untried."""
    known = [1.0, *ratios]
    return calibration(
        [*(pages * one for one in known), 0.0],
        [*(pages for _ in known), 0.0],
        [*(1e9 for _ in known), 0.0],
        [0.0] * (len(known) + 1),
        [0.0] * (len(known) + 1),
    )


@pytest.mark.parametrize(
    ("ratios", "expected"), [([], 1.0), ([2.0], 1.5), ([2.0, 2.0], 1 + 2 / 3), ([0.5, 2.0], 7 / 6)]
)
def test_untried_policies_are_expected_to_be_as_wrong_as_those_that_were_tried(
    ratios: list[float], expected: float
) -> None:
    assert tried(ratios).factors(0)[-1] == pytest.approx(expected)


def test_few_pages_and_misplaced_cliffs_tell_nothing_of_other_policies() -> None:
    assert tried([2.0], pages=1.0).factors(0)[-1] == pytest.approx(1.0, abs=0.02)
    assert tried([40.0]).factors(0)[-1] == pytest.approx(1.0)


def test_what_others_missed_does_not_come_back_as_an_error_of_the_policy_in_force() -> None:
    """Otherwise a policy that failed seems better than the one in force, and is tried again."""
    found = calibration(
        [100.0, 100.0, 200.0], [100.0, 100.0, 100.0], [1e9, 40.0, 60.0], [0.0] * 3, [0.0] * 3
    )
    assert found.factors(1)[1] < 1.01


@given(st.floats(0.05, 20.0), INDEX)
def test_the_factor_of_the_policy_in_force_converges_to_the_true_ratio(
    ratio: float, index: int
) -> None:
    found = known_for(0, 1.0, 300, unknown())
    errors = []
    for _ in range(6):
        known_for(index, ratio, 60, found)
        errors.append(abs(expected(found, index, 100.0)[index] / (100 * ratio) - 1))
    assert all(later <= earlier + 1e-9 for earlier, later in pairwise(errors))
    left = PRIOR_S / (HALF_LIFE_S / np.log(2)) * abs(1 / ratio - 1) * 1.1
    assert errors[-1] <= left + 0.01


def test_misses_that_no_factor_explains_count_by_access() -> None:
    """The sample of a loop is a little small: no miss is predicted, and every access misses.

    A policy without measurements is assumed to be off as much.
    """
    found = unknown()
    for _ in range(60):
        take(found, 1, 40.0, 50.0, 1.0)
    for _ in range(20):
        take(found, 0, 1000.0, 0.0, 1.0)
    default, lirs, other = expected(found, 0, 0.0)
    assert (
        default == pytest.approx(1000.0, rel=1e-3)
        and lirs < 120.0
        and other == pytest.approx(default)
    )
    assert expected(found, 0, 0.0, 10.0)[0] == pytest.approx(10.0, rel=1e-3)
    take(found, 0, 0.0, 0.0, 1e4)
    assert expected(found, 0, 0.0)[0] == pytest.approx(0.0, abs=1e-6)


def test_another_ratio_is_followed_within_a_few_half_lives() -> None:
    found = known_for(0, 3.0, 400, known_for(0, 1.0, 400, unknown()))
    assert found.factors(0)[0] == pytest.approx(3.0, rel=0.01)
    half = known_for(0, 3.0, int(HALF_LIFE_S), known_for(0, 1.0, 4000, unknown()))
    assert half.factors(0)[0] == pytest.approx(2.0, rel=0.01)


def test_calibrations_of_policies_not_in_force_fade_slowly() -> None:
    found = known_for(1, 2.0, 60, unknown())
    before = deepcopy(found)
    take(found, 0, 0.0, 0.0, FORGOTTEN_S)
    assert found.values[:RATE, 1] == pytest.approx(before.values[:RATE, 1] / 2)


def test_predicted_rates_are_averaged_over_their_half_life() -> None:
    found = unknown(2)
    pass_time(found, [50.0, 0.0], 0.5)
    assert found.values[RATE].tolist() == [100.0, 0.0]
    pass_time(found, [0.0, 30.0 * RATE_HALF_LIFE_S], RATE_HALF_LIFE_S)
    assert found.values[RATE] == pytest.approx([50.0, 30.0])


def test_after_a_change_of_workload_only_the_default_and_the_policy_in_force_are_known() -> None:
    found = calibration(
        [1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [1.0] * 3, [5.0] * 3, [1.0, 2.0, 3.0]
    )
    found.forget_all_but(2)
    kept = [[1.0, 0.0, 3.0], [4.0, 0.0, 6.0], [7.0, 0.0, 9.0], [1.0, 0.0, 1.0], [5.0, 0.0, 5.0]]
    assert found.values.tolist() == [*kept, [1.0, 2.0, 3.0]]


def test_another_sample_keeps_a_share_of_the_calibrations_of_others() -> None:
    found = calibration([1.0, 1.0, 2.0], [1.0] * 3, [20.0, 20.0, 20.0], [0.0] * 3)
    before = found.factors(1)
    now = Calibrations.of([found])
    now.thin(np.array([1]), np.array([0.25]))
    now.store([found])
    assert found.values[SECONDS].tolist() == [5.0, 20.0, 5.0]
    assert found.factors(1)[2] < before[2]


def test_other_candidates_keep_the_calibrations_of_the_remaining_ones() -> None:
    rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0], [9.0, 1.0], [2.0, 3.0]]
    found = calibration(*rows)
    found.aligned(("default", "lru"), ("default", "mru", "lru"))
    assert found == calibration(*([first, 0.0, second] for first, second in rows))
    found.aligned(("default", "mru", "lru"), ("default", "lru"))
    assert found == calibration(*rows)


def test_a_raised_calibration_factor_stays() -> None:
    found = known_for(1, 0.5, 5, known_for(0, 1.0, 300, unknown()))
    found.raise_to(1, 2.0)
    assert found.factors(1)[1] == pytest.approx(2.0, rel=0.02)
    assert found.values[SECONDS, 1] == SHOWN_S
    assert found.factors(0)[1] == pytest.approx(2.0, rel=0.02)


def test_policies_that_were_never_in_force_are_expected_at_their_weight() -> None:
    weight = np.array([2.0])
    for index, factor in ((0, 1.5), (1, 3.0)):
        now = Calibrations.of([known_for(index, factor, 300, unknown())], weight)
        assert now.factors(np.array([index]))[0] == pytest.approx([1.5, 3.0, 3.0])
    assert Calibrations.of([unknown()], weight).factors(np.array([2]))[0].tolist() == [1, 2, 2]


def test_a_raised_factor_holds_whatever_is_expected_of_policies_never_in_force() -> None:
    for weight in (0.5, 1.0, 2.0):
        found = known_for(1, 0.5, 5, known_for(0, 1.0, 300, unknown()))
        found.raise_to(1, 2.0, weight=weight)
        now = Calibrations.of([found], np.array([weight]))
        assert now.factors(np.array([0]))[0, 1] == pytest.approx(2.0, rel=0.02)


def test_a_larger_or_unknown_factor_is_not_raised() -> None:
    for found, factor in ((known_for(1, 3.0, 300, unknown()), 2.0), (unknown(), 9.0)):
        before = deepcopy(found)
        found.raise_to(1, factor)
        assert found == before


@given(KNOWN, INDEX)
def test_factors_are_finite_and_not_negative(found: Calibration, index: int) -> None:
    factors = found.factors(index)
    assert factors.shape == (POLICIES,)
    assert np.isfinite(factors).all() and (factors >= 0).all()


@given(KNOWN, INDEX)
def test_factors_lie_between_what_is_measured_and_what_is_expected(
    found: Calibration, index: int
) -> None:
    ratios = found.values[MEASURED] / np.maximum(found.values[PREDICTED], 1.0)
    most, least = max(1.0, ratios.max()), min(1.0, ratios.min())
    factors = found.factors(index)
    # Values far below a page round to nothing on the way.
    assert (factors <= most * (1 + 1e-9)).all() and (factors >= least * (1 - 1e-9) - 1e-12).all()


@given(KNOWN, st.integers(1, POLICIES - 1), st.integers(0, POLICIES - 1), st.floats(0.0, 100.0))
def test_a_raised_factor_holds_and_never_lowers_another(
    found: Calibration, index: int, then: int, factor: float
) -> None:
    assume(index != then)
    predicted, accesses = found.values[[PREDICTED, ACCESSES], index]
    assume(accesses > 1e-9)
    before = expected(found, then, predicted, accesses)[index]
    found.raise_to(index, factor, then)
    after = expected(found, then, predicted, accesses)
    assert np.isfinite(after).all() and min(after) >= 0
    # For less than a page no ratio is known.
    shown = factor * predicted if predicted >= 1 else 0.0
    assert after[index] >= max(before, shown) * (1 - 1e-9)


@given(
    st.lists(
        st.tuples(INDEX, AMOUNT, AMOUNT, st.floats(0.01, 3600.0), st.floats(1.0, 3600.0)),
        max_size=30,
    )
)
def test_factors_stay_finite_for_any_intervals(
    course: list[tuple[int, float, float, float, float]],
) -> None:
    found = unknown()
    for index, measured, predicted, elapsed_s, half_life_s in course:
        pass_time(found, [predicted] * POLICIES, elapsed_s)
        take(found, index, measured, predicted, elapsed_s, half_life_s)
        factors = found.factors(index)
        assert np.isfinite(factors).all() and (factors >= 0).all()
    assert np.isfinite(found.values[RATE]).all() and (found.values[SECONDS] >= 0).all()


def test_sums_of_the_default_fade_and_its_ratio_does_not() -> None:
    """After two days under another policy both sums are far below a page."""
    found = known_for(0, 1.2, 60, unknown())
    for _ in range(48 * 120):
        take(found, 1, 80.0, 80.0, 30.0)
    assert found.values[PREDICTED, 0] < 1e-9
    assert found.of_default_alone() == pytest.approx(1.2)


def test_the_error_of_a_factor_is_that_of_what_was_measured_and_is_kept_with_it() -> None:
    found, random = unknown(), np.random.default_rng(2)
    for _ in range(2000):
        take(found, 1, 100 + 10 * random.standard_normal(), 100.0, 1.0, scatter=100.0)
    # Weights that fall by half in 40 s count as 115 intervals.
    assert found.error_of(1) == pytest.approx(0.1 / np.sqrt(115), rel=0.05)
    known = found.error_of(1)
    for _ in range(600):
        take(found, 0, 100.0, 100.0, 1.0)
    assert found.error_of(1) == pytest.approx(known) and found.error_of(0) == 0.0
