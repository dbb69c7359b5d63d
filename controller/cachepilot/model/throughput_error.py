# SPDX-License-Identifier: Apache-2.0
"""How far the throughput model is off, how far intervals scatter, and whether a target is missed.

A plan that just keeps a target by a prediction that is too high misses it: it is made for the
target over the ratio of measured to predicted throughput. A mean at the target misses it in every
other interval: a plan aims above it by what intervals scatter, as far as there is memory for that.
What is shown and counted stays the target.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log
from statistics import NormalDist, fmean

KEPT_SHARE = 0.99
"""Of intervals that are to meet a target: the mean is aimed above it by that quantile."""
SIGMAS = NormalDist().inv_cdf(KEPT_SHARE)
INTERVALS = 40
"""Of which the scatter is measured, and how many of them there must be at least."""
INTERVALS_MIN = 8
SCATTER_MAX = 0.15
"""Relative to the mean: who scatters more gets no more for it."""
RATIO_MAX = 1.5
"""A model that is further off is not corrected beyond that."""
GAIN = 0.1
"""Of a new ratio, per interval, at least: the first ones are averaged."""
MISSED = 0.02, 0.1
"""Shares of intervals in which a target is missed: that which is let pass, and one that is not."""
STEPS = log(MISSED[1] / MISSED[0]), log((1 - MISSED[1]) / (1 - MISSED[0]))
LIMIT = log(100)
"""Of a cumulative sum of log likelihood ratios of the two (Page 1954; of yes and no, Reynolds and
Stoumbos 1999): three intervals of five that miss, or four of 25."""


def scatter(values: Sequence[float]) -> float:
    """The standard deviation of intervals over their mean; 0 while there are too few.

    Of an interval it counts how far it is off the middle of its neighbours: a mean that rises or
    falls steadily, or that jumps once, is no noise.
    """
    if len(values) < INTERVALS_MIN:
        return 0.0
    triples = zip(values, values[1:], values[2:], strict=False)
    off = sorted(abs(b - (a + c) / 2) for a, b, c in triples)
    # Of normal variables the median of this is 0.6745 times the square root of 1.5.
    deviation = off[len(off) // 2] / 0.826
    return min(deviation / max(fmean(values), 1e-9), SCATTER_MAX)


def margin_of(scattered: float) -> float:
    """The share above a target at which a mean meets it in nearly all intervals.

    Intervals scatter in proportion to their mean m, not to the target: m - SIGMAS s m meets it.
    """
    return 1 / (1 - SIGMAS * scattered) - 1


@dataclass
class TargetError:
    """One target of one tenant.

    `ratio` is measured over predicted at the settings that were in force, of so many intervals
    (`learnt`), `short` the cumulative sum of intervals that missed it. `is_known` says that the
    scatter of intervals was measured.
    """

    setting: tuple[str, int] = ("", 0)
    ratio: float = 1.0
    learnt: int = 0
    scatter: float = 0.0
    short: float = 0.0
    is_known: bool = False
    values: deque[float] = field(default_factory=lambda: deque(maxlen=INTERVALS))

    def take(
        self, setting: tuple[str, int], measured: float, predicted: float, is_met: bool | None
    ) -> None:
        """An interval under a policy and a limit; `predicted` is 0 where nothing is predicted.

        The prediction is by the miss ratio that the calibrated curve tells of the limit. `is_met`
        is None while the page cache still turns over: then nothing is learnt.
        """
        if setting != self.setting:
            self.setting, self.short = setting, 0.0
            self.values.clear()
        if is_met is None:
            return
        self.values.append(measured)
        if len(self.values) >= INTERVALS_MIN:
            self.scatter, self.is_known = scatter(tuple(self.values)), True
        self.short = min(max(0.0, self.short + STEPS[is_met]), 2 * LIMIT)
        if min(measured, predicted) <= 0:
            return
        found = min(max(measured / predicted, 1 / RATIO_MAX), RATIO_MAX)
        # A model that predicts too much costs windows at once: of the first intervals that is
        # believed. That it predicts too little is, once enough is known of a setting.
        is_new = self.learnt < INTERVALS_MIN and found < self.ratio
        if is_new or len(self.values) >= INTERVALS_MIN:
            self.learnt += 1
            self.ratio += max(GAIN, is_new / self.learnt) * (found - self.ratio)

    @property
    def is_short(self) -> bool:
        """Whether the target is missed by more than chance."""
        return self.short >= LIMIT

    @property
    def margin(self) -> float:
        """The share above a target at which a mean meets it in nearly all intervals."""
        return margin_of(self.scatter)

    def half_way(self, target: float) -> float:
        """The share above a target that is half of what measured throughput is above it.

        With less memory intervals scatter more: by so much on the way there it is measured first.
        """
        if not self.values:
            return 0.0
        return max(0.0, fmean(self.values) / target - 1) / 2
