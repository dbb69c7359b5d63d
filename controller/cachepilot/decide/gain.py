# SPDX-License-Identifier: Apache-2.0
"""The sum of what a change gained, interval by interval, and what noise alone makes of it."""

from dataclasses import dataclass
from math import inf, log2, pi, sqrt

import numpy as np
from scipy.special import stdtrit

from cachepilot.sense.counterfactuals import Floats

LEAST_INTERVALS = 5
"""Fewer say nothing of how much a gain scatters."""
LOOKS = 3.0
"""Independent ones in a doubling of the time: a sum of independent gains is beyond its bound 2.9
times as often at any look from the fifth interval to the ninth as at one, less often later."""
AUTOCORRELATION_MAX = 0.95
IDLE_S = 600.0
"""A change of which nothing could be measured for so long is given up."""


def quantile(chance: float, values: float) -> float:
    """What a mean of so many independent values, over its estimated error, exceeds by chance.

    Student's t.
    """
    return float(-stdtrit(max(1.0, values - 1), min(max(chance, 1e-12), 0.5)))


def quantiles(chances: Floats, values: float) -> Floats:
    """`quantile` of each chance."""
    return np.asarray(-stdtrit(max(1.0, values - 1), np.clip(chances, 1e-12, 0.5)))


def chance_at(alpha: float, intervals: int) -> float:
    """The part of a chance of `alpha` at any time that a look after so many intervals may use.

    It is shared out among the doublings of the time (stitching, Howard et al. 2021), within which
    there are `LOOKS`.
    """
    doublings = int(log2(max(1.0, intervals / LEAST_INTERVALS)))
    return alpha * 6 / (pi * (1 + doublings)) ** 2


@dataclass
class Gain:
    """A sum of gains in one unit, which may be below 0, each a share of a base.

    With a base of 1 in every interval that share is the mean. `lagged` are products of neighbours:
    of two gains, of a gain and a base, of two bases; `before` are the gain and the base of the last
    interval.
    """

    intervals: int = 0
    total: float = 0.0
    base: float = 0.0
    squares: float = 0.0
    by_base: float = 0.0
    base_squares: float = 0.0
    lagged: tuple[float, float, float] = (0.0, 0.0, 0.0)
    before: tuple[float, float] = (0.0, 0.0)

    def take(self, gained: float, base: float = 1.0) -> None:
        """Takes an interval in."""
        if self.intervals:
            (gain, of), (gains, mixed, bases) = self.before, self.lagged
            self.lagged = (
                gains + gained * gain,
                mixed + gained * of + base * gain,
                bases + base * of,
            )
        self.intervals += 1
        self.total += gained
        self.base += base
        self.squares += gained * gained
        self.by_base += gained * base
        self.base_squares += base * base
        self.before = gained, base

    def standard_error(self) -> float:
        """Of the sum, by how much gains are off their share of the base; inf for less than two.

        That of a ratio estimate (Cochran 1977, chapter 6): what gains scatter because there was
        more or less to gain is no error. It is known by fewer values where some bases exceed the
        others by far (Kish 1965). The variance of a sum of a first-order autoregressive
        series is (1 + r) / (1 - r) times that of independent values, r the autocorrelation at lag 1
        (Bartlett 1935).
        """
        if self.intervals < 2:
            return inf
        if self.values < 2:
            # One interval is nearly all there is, and no other tells how far off it is; or none is.
            return sqrt(self.squares) or inf
        share = self.total / self.base
        off = self.squares - 2 * share * self.by_base + share**2 * self.base_squares
        if off <= 1e-12 * self.squares:
            return 0.0
        gains, mixed, bases = self.lagged
        neighbours = gains - share * mixed + share**2 * bases
        r = neighbours / off * self.intervals / (self.intervals - 1)
        r = min(AUTOCORRELATION_MAX, max(0.0, r))
        off *= self.values / (self.values - 1)
        return sqrt(off * (1 + r) / (1 - r))

    @property
    def values(self) -> float:
        """Intervals of the same base that would tell as much of the share."""
        return self.base**2 / self.base_squares if self.base_squares > 0 else 0.0

    def bound(self, alpha: float) -> float:
        """What noise alone makes of the sum with a chance of `alpha`: see `chance_at`."""
        chance = chance_at(alpha, self.intervals)
        return quantile(chance, self.values) * self.standard_error()

    def sure_bound(self, alpha: float) -> float:
        """The same with a chance of `alpha` at any time, however often it is looked at."""
        return self.bound(alpha / LOOKS)
