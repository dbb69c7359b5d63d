# SPDX-License-Identifier: Apache-2.0
"""Time series values in 16 bits, and rows that come and go."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cachepilot.node.series.rings import NAN, Ring, decoded, encoded

POINTS = 300


def _kept(value: float) -> float:
    return float(decoded(encoded(np.array([value])))[0])


@given(st.floats(2.0**-14, 2.0**49))
def test_a_value_is_kept_to_a_twentieth_of_a_percent(value: float) -> None:
    assert math.isclose(_kept(value), value, rel_tol=1 / 2047)


@given(st.floats(0, 2.0**52), st.floats(0, 2.0**52))
def test_the_order_of_values_is_kept(one: float, other: float) -> None:
    assert (_kept(one) <= _kept(other)) or one > other


def test_zero_small_large_and_unknown_values() -> None:
    assert [_kept(value) for value in (0.0, 1e-9, 0.25, 50.0)] == [0, 0, 0.25, 50]
    assert _kept(2.0**60) > 2.0**49 and math.isnan(_kept(NAN))


def _took(ring: Ring, time_s: float, rows: list[int], new: list[int], values: list[float]) -> None:
    columns = np.array(values)[:, None]
    policies = np.zeros(len(rows), np.uint16)
    ring.take(time_s, np.array(rows), np.array(new, dtype=np.int64), policies, columns)


def _points(ring: Ring, row: int) -> tuple[list[float], list[float]]:
    """Return the times and values of a row with one value per point."""
    times, _, codes = ring.segment(row, 0, ring.count)
    return times.tolist(), decoded(codes).ravel().tolist()


def test_a_row_that_is_reused_starts_empty() -> None:
    ring = Ring(1, 1.0, POINTS)
    ring.grow(2)
    _took(ring, 1, [0, 1], [0, 1], [1, 2])
    _took(ring, 2, [0], [], [3])
    _took(ring, 3, [0, 1], [1], [4, 5])
    assert _points(ring, 0) == ([1, 2, 3], [1, 3, 4])
    assert _points(ring, 1) == ([3], [5])


def test_means_are_of_what_is_known_and_points_are_bounded() -> None:
    ring = Ring(1, 1.0, POINTS, 10.0)
    ring.grow(1)
    for time_s in range(20 * POINTS):
        _took(ring, time_s, [0], [0] if time_s == 0 else [], [NAN if time_s % 2 else 8.0])
    times, values = _points(ring, 0)
    assert len(times) == POINTS and set(values) == {8.0}
