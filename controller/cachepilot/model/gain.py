# SPDX-License-Identifier: Apache-2.0
"""The sum of a change's gains over intervals, and the bound that noise alone exceeds by chance."""

from dataclasses import dataclass
from math import inf, log2, pi, sqrt

import numpy as np
from scipy.special import stdtrit

from cachepilot.sense.counterfactuals import Floats

LEAST_INTERVALS = 5
"""Fewer intervals say nothing of how much gains scatter."""
LOOKS = 3.0
"""Independent checks per doubling of the time. A sum of independent gains exceeds its bound at any
check from the fifth interval to the ninth 2.9 times as often as at a single one, and less often
later."""
AUTOCORRELATION_MAX = 0.95


def quantile(chance: float, values: float) -> float:
    """The Student's t quantile that a mean over its estimated standard error exceeds by `chance`.

    The mean is of `values` independent values, which need not be a whole number.
    """
    return float(-stdtrit(max(1.0, values - 1), min(max(chance, 1e-12), 0.5)))


def quantiles(chances: Floats, values: float) -> Floats:
    """`quantile` for each chance, in the shape of `chances`."""
    return np.asarray(-stdtrit(max(1.0, values - 1), np.clip(chances, 1e-12, 0.5)))


def chance_at(alpha: float, intervals: int) -> float:
    """The part of a total error chance of `alpha` that a check after so many intervals may use.

    The chance is divided among the doublings of the time, so that the parts of all doublings add up
    to `alpha` (stitching, Howard et al. 2021). It covers one check per doubling; a caller that
    checks every interval divides `alpha` by `LOOKS`, as `Gain.sure_bound` does.
    """
    doublings = int(log2(max(1.0, intervals / LEAST_INTERVALS)))
    return alpha * 6 / (pi * (1 + doublings)) ** 2


@dataclass
class Gain:
    """A sum of gains in one unit, each a share of a base. Gains may be negative.

    With a base of 1 in every interval, the share is the mean gain. `squares`, `by_base` and
    `base_squares` are the sums of gain x gain, gain x base and base x base. `lagged` are the same
    sums of products of neighbouring intervals, and `before` is the last gain and base.
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
        """Take in the gain and the base of an interval."""
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

    def fade(self, keep: float) -> None:
        """Let the sums fade to the share `keep`; products fade as its square."""
        self.total, self.base = keep * self.total, keep * self.base
        self.squares, self.by_base = keep**2 * self.squares, keep**2 * self.by_base
        self.base_squares *= keep**2
        gains, mixed, bases = self.lagged
        self.lagged = keep**2 * gains, keep**2 * mixed, keep**2 * bases

    def standard_error(self) -> float:
        """The standard error of the sum, from how gains differ from their share of the base.

        It is that of a ratio estimate (Cochran 1977, chapter 6): a gain that is larger because
        there was more to gain is no error. If some bases are far larger than others, fewer
        effective values remain (Kish 1965). The variance of a sum of a first-order autoregressive
        series is (1 + r) / (1 - r) times that of independent values, where r is the autocorrelation
        at lag 1 (Bartlett 1935). The result is inf for fewer than two intervals.
        """
        if self.intervals < 2:
            return inf
        if self.values < 2:
            # Nearly the whole base is of one interval, so no other shows its error. If all gains
            # are 0, the error is unknown.
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
        """The effective number of intervals: of equal bases, as many would be as informative."""
        return self.base**2 / self.base_squares if self.base_squares > 0 else 0.0

    def bound(self, alpha: float) -> float:
        """The bound that noise alone exceeds with a chance of `alpha`, checked once a doubling."""
        chance = chance_at(alpha, self.intervals)
        return quantile(chance, self.values) * self.standard_error()

    def sure_bound(self, alpha: float) -> float:
        """The same bound for checks at every interval: all together exceed it with `alpha`."""
        return self.bound(alpha / LOOKS)
