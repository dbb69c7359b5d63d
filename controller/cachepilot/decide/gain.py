# SPDX-License-Identifier: Apache-2.0
"""The sum of what a change gained, interval by interval, and what noise alone makes of it."""

from dataclasses import dataclass
from math import exp, log2, pi, sqrt
from statistics import NormalDist

LEAST_INTERVALS = 5
"""Fewer say nothing of how much a gain scatters."""
AUTOCORRELATION_MAX = 0.95


def quantile(chance: float, values: int) -> float:
    """What a mean of so many independent values, over its estimated error, exceeds by chance.

    Student's t, from the normal quantile (Wallace 1959).
    """
    degrees = max(1, values - 1)
    normal = max(0.0, -NormalDist().inv_cdf(min(0.5, max(chance, 1e-12))))
    normal *= (8 * degrees + 3) / (8 * degrees + 1)
    return sqrt(degrees * (exp(min(normal * normal / degrees, 500.0)) - 1))


def chance_at(alpha: float, intervals: int) -> float:
    """The part of a chance of `alpha` at any time that a look after so many intervals may use.

    It is shared out among the doublings of the time (stitching, Howard et al. 2021).
    """
    doublings = int(log2(max(1.0, intervals / LEAST_INTERVALS)))
    return alpha * 6 / (pi * (1 + doublings)) ** 2


def course_error(values: int, total: float, squares: float, products: float) -> float:
    """Standard error of a sum of values that follow each other; inf for fewer than two.

    The variance of a sum of a first-order autoregressive series is (1 + r) / (1 - r) times that of
    independent values, r the autocorrelation at lag 1 (Bartlett 1935).
    """
    if values < 2:
        return float("inf")
    mean = total / values
    variance = max(0.0, squares / values - mean * mean)
    if variance == 0:
        return 0.0
    lagged = products / (values - 1) - mean * mean
    r = min(AUTOCORRELATION_MAX, max(0.0, lagged / variance))
    return sqrt(values * variance * (1 + r) / (1 - r))


@dataclass
class Gain:
    """A sum of gains in one unit, which may be below 0."""

    intervals: int = 0
    total: float = 0.0
    squares: float = 0.0
    products: float = 0.0
    last: float = 0.0

    def take(self, gained: float) -> None:
        """Takes an interval in."""
        if self.intervals:
            self.products += gained * self.last
        self.intervals += 1
        self.total += gained
        self.squares += gained * gained
        self.last = gained

    def bound(self, alpha: float) -> float:
        """What noise alone makes of the sum with a chance of `alpha` at any time."""
        error = course_error(self.intervals, self.total, self.squares, self.products)
        return quantile(chance_at(alpha, self.intervals), self.intervals) * error
