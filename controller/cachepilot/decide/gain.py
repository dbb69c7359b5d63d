# SPDX-License-Identifier: Apache-2.0
"""The sum of what a change gained, interval by interval, and how far it scatters."""

from dataclasses import dataclass
from math import sqrt

LEAST_INTERVALS = 5
"""Fewer say nothing of how much a gain scatters."""
AUTOCORRELATION_MAX = 0.95


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

    def standard_error(self) -> float:
        """Of the sum; intervals that follow each other are alike.

        The variance of a sum of a first-order autoregressive series is (1 + r) / (1 - r) times that
        of independent values, r the autocorrelation at lag 1 (Bartlett 1935).
        """
        n = self.intervals
        if n < 2:
            return float("inf")
        mean = self.total / n
        variance = max(0.0, self.squares / n - mean * mean)
        if variance == 0:
            return 0.0
        lagged = self.products / (n - 1) - mean * mean
        r = min(AUTOCORRELATION_MAX, max(0.0, lagged / variance))
        return sqrt(n * variance * (1 + r) / (1 - r))
