# SPDX-License-Identifier: Apache-2.0
"""A curve's fall between two sizes counts at the larger size, unless the curve is convex."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cachepilot.domain.snapshot import Curves, FloatArray
from cachepilot.sense.curves.cliffs import with_cliffs
from cachepilot.sizes import PAGE_BYTES

MIB = 1 << 20
SIZES = np.array([8, 11, 16, 23, 24, 35]) * MIB


def _curves(*rows: list[float], bar: float | None = None, step: float | None = None) -> Curves:
    ratios = np.array(rows)
    bars, steps = (None if one is None else np.full(ratios.shape, one) for one in (bar, step))
    names = tuple(f"policy{row}" for row in range(len(rows)))
    return Curves(names, SIZES[: ratios.shape[1]], ratios, bars, steps)


def _steps(curves: Curves) -> FloatArray:
    assert curves.step_bar is not None
    return curves.step_bar


def _at(curves: Curves, mib: float) -> FloatArray:
    known = np.concatenate(([0], curves.sizes_bytes))
    rows = np.concatenate((np.ones((len(curves.policies), 1)), curves.miss_ratio), axis=1)
    return np.array([np.interp(mib * MIB, known, row) for row in rows])


def test_a_loop_has_no_hits_until_all_of_it_fits() -> None:
    told = _curves([1.0, 1.0, 1.0, 0.0, 0.0, 0.0], bar=0.1)
    found = with_cliffs(told)
    assert _at(told, 22)[0] < 0.2
    assert _at(found, 22)[0] == 1.0
    assert _at(found, 23)[0] == 0.0


def test_a_curve_that_falls_faster_than_before_goes_on_as_before_until_the_end() -> None:
    found = with_cliffs(_curves([0.8, 0.75, 0.7, 0.1, 0.1, 0.1]))
    # Before, it falls by 0.01 per MiB.
    assert np.isclose(_at(found, 22)[0], 0.64)


def test_policies_without_a_cliff_stay_straight_where_others_have_one() -> None:
    loop, convex = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [0.5, 0.4, 0.3, 0.2, 0.19, 0.15]
    told = _curves(loop, convex)
    found = with_cliffs(told)
    assert np.allclose(_at(found, 20)[1], _at(told, 20)[1])


def test_a_fall_within_the_error_is_no_cliff() -> None:
    rows = [0.5, 0.49, 0.48, 0.40, 0.40, 0.38]
    assert with_cliffs(_curves(rows)).sizes_bytes.size > SIZES.size
    assert with_cliffs(_curves(rows, bar=0.05)).sizes_bytes.size == SIZES.size
    # Most of the error of a curve is common to all sizes, so a step is more certain.
    assert with_cliffs(_curves(rows, bar=0.05, step=0.01)).sizes_bytes.size > SIZES.size


def test_sizes_a_page_apart_have_nothing_between_them() -> None:
    sizes = np.array([16 * MIB, 16 * MIB + PAGE_BYTES])
    told = Curves(("default",), sizes, np.array([[1.0, 0.0]]))
    assert with_cliffs(told).sizes_bytes.tolist() == sizes.tolist()


RATIOS = st.lists(st.floats(0, 1, width=32), min_size=SIZES.size, max_size=SIZES.size)


@given(st.lists(RATIOS, min_size=1, max_size=3), st.floats(0, 0.2), st.floats(0, 0.2))
def test_only_sizes_between_are_added_and_the_error_of_a_step_stays(
    rows: list[list[float]], bar: float, step: float
) -> None:
    told = _curves(*rows, bar=bar, step=step)
    found = with_cliffs(told)
    kept = np.isin(found.sizes_bytes, told.sizes_bytes)
    assert np.array_equal(found.miss_ratio[:, kept], told.miss_ratio)
    assert np.isin(found.sizes_bytes[~kept] + PAGE_BYTES, told.sizes_bytes).all()
    for mib in range(1, 40):
        assert (_at(found, mib) >= _at(told, mib) - 1e-9).all()
    before, after = (np.cumsum(np.square(_steps(one)), axis=1) for one in (told, found))
    assert np.allclose(before, after[:, kept])


@given(RATIOS, st.booleans())
def test_convex_curves_stay_as_they_are(rows: list[float], is_exact: bool) -> None:
    lengths = np.diff(SIZES, prepend=0)
    # Steeper falls come first: slopes that sum to at most one.
    slopes = np.sort(np.array(rows) / (lengths * len(rows)))[::-1]
    ratios = np.clip(1 - np.cumsum(slopes * lengths), 0, 1)
    bar = None if is_exact else 1e-9
    told = Curves(
        ("default",), SIZES, ratios[None, :], None if bar is None else np.full((1, 6), bar)
    )
    found = with_cliffs(told)
    for mib in range(1, 40):
        assert np.allclose(_at(found, mib), _at(told, mib), atol=1e-7)
