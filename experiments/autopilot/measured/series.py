# SPDX-License-Identifier: Apache-2.0
"""Rates and windows of samples, independent of where the samples come from."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import fmean

Total = tuple[float, float]
"""A time in seconds, and a total that never falls."""


def total_at(totals: Sequence[Total], time_s: float) -> float:
    """Return the total at a time, linear between two samples. Raises ValueError outside of them."""
    if not totals or not totals[0][0] <= time_s <= totals[-1][0]:
        raise ValueError(f"no samples around {time_s:.1f} s")
    after = bisect_right(totals, time_s, key=lambda one: one[0])
    if after == len(totals):
        return totals[-1][1]
    (t0, v0), (t1, v1) = totals[after - 1], totals[after]
    return v0 + (v1 - v0) * (time_s - t0) / (t1 - t0)


def rate(totals: Sequence[Total], from_s: float, to_s: float) -> float:
    """Return the growth per second between two times."""
    return (total_at(totals, to_s) - total_at(totals, from_s)) / (to_s - from_s)


def rates(totals: Sequence[Total], from_s: float, to_s: float) -> list[float]:
    """Return the growth per second in each interval between two samples within the times."""
    return [
        (v1 - v0) / (t1 - t0)
        for (t0, v0), (t1, v1) in pairwise(totals)
        if from_s <= t0 and t1 <= to_s and t1 > t0
    ]


def mean(samples: Iterable[tuple[float, float | None]], from_s: float, to_s: float) -> float:
    """Return the mean of the known values within the times. Raises ValueError if there are none."""
    inside = [value for at, value in samples if from_s <= at <= to_s and value is not None]
    if not inside:
        raise ValueError(f"no samples from {from_s:.1f} s to {to_s:.1f} s")
    return fmean(inside)


def share_met(values: Sequence[float], target: float) -> float:
    """Return the share of values that are at least the target. Raises ValueError without values."""
    if not values:
        raise ValueError("no windows")
    return fmean(value >= target for value in values)
