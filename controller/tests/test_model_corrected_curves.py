# SPDX-License-Identifier: Apache-2.0
"""Curves that are corrected by measurements at a few limits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachepilot.domain.snapshot import Curves, FloatArray, IntArray
from cachepilot.model.corrected_curves import Corrections
from cachepilot.model.limit_calibration import corrected

SIZES = st.sets(st.integers(1, 1 << 40), min_size=1, max_size=20)
SHIFTS = st.dictionaries(st.integers(1, 1 << 41), st.floats(-1.0, 1.0), min_size=1, max_size=6)


def read(known: IntArray, row: FloatArray, start: float, sizes: IntArray) -> FloatArray:
    """Return one row by `numpy.interp`, as the referee."""
    found: FloatArray = np.interp(sizes, [0, *known], [start, *row])
    return found


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@given(SIZES, SHIFTS, st.integers(0, 1 << 32))
def test_every_row_is_read_between_its_points_and_shifted(
    kind: type[np.float64], some: set[int], told: dict[int, float], seed: int
) -> None:
    known = np.array(sorted(some))
    rows, bars, steps = np.random.default_rng(seed).random((3, 3, known.size)).astype(kind)
    curves = Curves(("a", "b", "c"), known, rows, bars, steps)
    shifts = tuple(sorted(told.items()))
    found = Corrections().of(curves, shifts)
    if not any(told.values()):
        assert found is curves
        return
    assert found.sizes_bytes.tolist() == sorted(some | told.keys())
    assert found.error_bar is not None
    for row, bar, new, new_bar in zip(
        curves.miss_ratio, bars, found.miss_ratio, found.error_bar, strict=True
    ):
        misses = read(known, row, 1.0, found.sizes_bytes).tolist()
        expected = [
            corrected(miss, size, shifts)
            for miss, size in zip(misses, found.sizes_bytes.tolist(), strict=True)
        ]
        assert new == pytest.approx(expected, abs=1e-6)
        assert new_bar == pytest.approx(read(known, bar, 0.0, found.sizes_bytes), abs=1e-6)
    assert found.step_bar is not None
    for of, new in zip(steps.astype(np.float64), found.step_bar, strict=True):
        squares = read(known, np.cumsum(of * of), 0.0, found.sizes_bytes)
        assert np.cumsum(new * new) == pytest.approx(squares, abs=1e-5)


@given(SIZES, SHIFTS, SHIFTS, st.integers(0, 1 << 32))
def test_earlier_corrections_do_not_change_later_ones(
    some: set[int], told: dict[int, float], others: dict[int, float], seed: int
) -> None:
    random, known = np.random.default_rng(seed), np.array(sorted(some))
    curves, new = (
        Curves(("a", "b", "c"), known, *random.random((3, 3, known.size))) for _ in range(2)
    )
    shifts, elsewhere = tuple(sorted(told.items())), tuple(sorted(others.items()))
    halved, kept = tuple((limit, shift / 2) for limit, shift in shifts), Corrections()
    for one, by in ((curves, shifts), (curves, halved), (curves, elsewhere), (new, elsewhere)):
        assert kept.of(one, by) == Corrections().of(one, by)
        assert kept.of(one, by) is kept.of(one, by)
