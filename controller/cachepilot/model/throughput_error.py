# SPDX-License-Identifier: Apache-2.0
"""Error of the throughput model, scatter of intervals, and whether a target is missed.

If the model predicts too much, a plan that just meets a target in prediction misses it. The plan is
therefore made for the target divided by the ratio of measured to predicted throughput. If the mean
is at the target, every other interval misses it. The plan therefore aims above it by as much as
intervals scatter, if there is enough memory. The target itself is what is shown and counted.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log, pi, sqrt
from statistics import NormalDist, fmean

KEPT_SHARE = 0.99
"""Share of intervals that are to meet a target; the mean is aimed above it by that quantile."""
SIGMAS = NormalDist().inv_cdf(KEPT_SHARE)
ABSOLUTE_TO_SD = sqrt(pi / 2)
"""The standard deviation of a normal distribution over its mean absolute deviation."""
INTERVALS = 40
"""Number of intervals of which the scatter is measured; `INTERVALS_MIN` is the least number."""
INTERVALS_MIN = 8
SCATTER_MAX = 0.15
"""Largest scatter, relative to the mean, that raises an aim."""
RATIO_MAX = 1.5
"""Largest correction of the model, as a ratio in either direction."""
GAIN = 0.1
"""Least weight of a new ratio per interval; the first ratios are averaged."""
MISSED = 0.02, 0.1
"""Shares of intervals that miss a target: one that is tolerated, and one that is not."""
STEPS = log(MISSED[1] / MISSED[0]), log((1 - MISSED[1]) / (1 - MISSED[0]))
LIMIT = log(100)
"""Bound of a cumulative sum of log likelihood ratios of the two shares (Page 1954; for binary
outcomes, Reynolds and Stoumbos 1999). Three misses in five intervals reach it, or four in 25."""


def scatter(values: Sequence[float]) -> float:
    """The standard deviation of intervals over their mean; 0 while there are too few.

    Each interval is compared with the mean of its neighbours, so that a steady rise or fall of the
    mean, or a single jump, is no noise.
    """
    if len(values) < INTERVALS_MIN:
        return 0.0
    triples = zip(values, values[1:], values[2:], strict=False)
    off = sorted(abs(b - (a + c) / 2) for a, b, c in triples)
    # The median of this is 0.6745 x sqrt(1.5) standard deviations of a normal distribution.
    deviation = off[len(off) // 2] / 0.826
    return min(deviation / max(fmean(values), 1e-9), SCATTER_MAX)


def margin_of(scattered: float) -> float:
    """The share above a target at which a mean meets it in nearly all intervals.

    Intervals scatter in proportion to their mean m, not to the target: m - SIGMAS s m must be at
    the target, where s is the relative scatter.
    """
    return 1 / (1 - SIGMAS * scattered) - 1


@dataclass
class TargetError:
    """Measurements against one target of one tenant.

    `ratio` is measured over predicted throughput at the settings in force, learned in `learnt`
    intervals. `short` is the cumulative sum of intervals that missed the target. `is_known` says
    that the scatter of intervals was measured.
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
        """Take in an interval under a policy and a limit; `predicted` is 0 if nothing is predicted.

        The prediction is by the calibrated curve's miss ratio at the limit. `is_met` is None while
        the page cache turns over; then nothing is learned.
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
        # A prediction that is too high misses windows at once, so the first intervals are enough to
        # lower the ratio. It is raised only once a setting has been measured for long enough.
        is_new = self.learnt < INTERVALS_MIN and found < self.ratio
        if is_new or len(self.values) >= INTERVALS_MIN:
            self.learnt += 1
            self.ratio += max(GAIN, is_new / self.learnt) * (found - self.ratio)

    @property
    def is_short(self) -> bool:
        """Whether the target is missed beyond chance."""
        return self.short >= LIMIT

    @property
    def margin(self) -> float:
        """The share above the target at which a mean meets it in nearly all intervals."""
        return margin_of(self.scatter)

    def half_way(self, target: float) -> float:
        """Half of the share by which measured throughput exceeds `target`; 0 if it does not.

        With less memory intervals scatter more. This intermediate aim lets the scatter be measured
        on the way to less memory.
        """
        if not self.values:
            return 0.0
        return max(0.0, fmean(self.values) / target - 1) / 2
