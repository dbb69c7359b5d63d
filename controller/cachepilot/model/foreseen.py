# SPDX-License-Identifier: Apache-2.0
"""The throughput of an interval that is foreseen of a setting, with the bounds of 95% of intervals.

At the present setting it is the mean that was measured. At another one it is that mean times the
ratio of what the model predicts of both. Six errors count:

- by how much single intervals scatter, and the error of their mean;
- the error of the curve between both settings;
- the error of its calibration: of the level, which both settings share, and of the difference;
- the error of how long a device read waits, by the miss ratios of all tenants;
- the error of the throughput model, for the part of an operation's time that changes.

All but the first are 0 if no tenant's setting changes. While too few intervals are measured, the
prediction is the model's, and the model's error takes the place of the first.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

from cachepilot.model.limit_calibration import TIME_ERROR, UNCALIBRATED, CalibrationError
from cachepilot.model.measured_intervals import Scattered
from cachepilot.model.throughput_error import ABSOLUTE_TO_SD
from cachepilot.sense.curves.wire_curves import Measured

BAR_SIGMAS = 1.96
"""Standard errors in an error bar of 95%."""
Place = tuple[str, int]
"""A policy and a limit in bytes."""


def miss_error(
    measured: Measured | None, here: Place, there: Place, calibration: CalibrationError
) -> float:
    """The half-width of the error bar of the miss ratio `there`, given the measured one `here`.

    Only the step between the limits has an error, by the sample and by the calibration, and the
    levels of both curves if the policy is another one. Without measured curves it is 1.
    """
    if measured is None:
        return 1.0
    (before, from_bytes), (policy, to_bytes) = here, there
    apart = BAR_SIGMAS * calibration.between(from_bytes, to_bytes)
    step = math.hypot(measured.error_between(policy, from_bytes, to_bytes), apart)
    if policy == before:
        return step
    levels = (measured.error_at(one, from_bytes) for one in (policy, before))
    return math.hypot(*levels, step)


@dataclass(frozen=True)
class Known:
    """What was measured of a tenant: its intervals, None if too few, and its calibration."""

    intervals: Scattered | None = None
    calibration: CalibrationError = UNCALIBRATED

    def error(self, measured: Measured | None, here: Place, there: Place) -> float:
        """The half-width of the error bar of the miss ratio `there`, given the measured one `here`.

        It contains the error of the level, too, unless both settings are the same.
        """
        step = miss_error(measured, here, there, self.calibration)
        return math.hypot(step, BAR_SIGMAS * self.calibration.level) if step else 0.0


@dataclass(frozen=True)
class Foreseen:
    """Operations per second of an interval, and by how much 95% are below and above at most.

    `below` may exceed `ops`, since it is also the standard error: `low_ops` is bounded.
    """

    ops: float
    below: float
    above: float

    @property
    def low_ops(self) -> float:
        """The lower bound of 95% of intervals; at least 0."""
        return max(0.0, self.ops - self.below)

    def chance_of(self, least_ops: float) -> float:
        """The probability of at least so many; errors are assumed to be normal on either side."""
        bar = self.below if least_ops < self.ops else self.above
        if bar <= 0:
            return 1.0 if self.ops >= least_ops else 0.0
        return NormalDist(least_ops, bar / BAR_SIGMAS).cdf(self.ops)


@dataclass(frozen=True)
class Predicted:
    """The model's view of the present and of another setting.

    `ops_here` and `ops_there` map a miss ratio to operations per second, and `here` and `there` are
    the miss ratios of the two. `step` is the half-width of the error bar of `there`, given `here`.
    `by_wait` is how many fewer and more operations the error of the device's wait makes.
    `error_pct` is that of the throughput model, as in `Demand`.
    """

    ops_here: Callable[[float], float]
    ops_there: Callable[[float], float]
    here: float
    there: float
    step: float
    by_wait: tuple[float, float]
    error_pct: float | None

    def ratio(self, known: Known) -> float:
        """Measured over predicted throughput at the present setting; 1 if nothing is measured."""
        told = self.ops_here(self.here)
        return 1.0 if known.intervals is None or told <= 0 else known.intervals.mean_ops / told

    def foreseen(self, known: Known) -> Foreseen:
        """The throughput of an interval in the other setting."""
        told = self.ops_there(self.there)
        ops = told * self.ratio(known)
        off = [self.by_wait[0], told - self.ops_there(self.there + self.step)]
        up = [self.by_wait[1], self.ops_there(self.there - self.step) - told]
        levels = [self._by_level(BAR_SIGMAS * one * known.calibration.level) for one in (-1, 1)]
        off.append(max(0.0, *(told - one for one in levels)))
        up.append(max(0.0, *(one - told for one in levels)))
        by_interval = BAR_SIGMAS * self._sigma(known) * ops
        scale = self.ratio(known)
        below, above = (
            math.hypot(*(scale * one for one in bars), by_interval) for bars in (off, up)
        )
        return Foreseen(ops, below, above)

    def _by_level(self, off: float) -> float:
        """Operations per second there if both miss ratios were off, but what is measured is not."""
        here = self.ops_here(self.here)
        return self.ops_there(self.there + off) * here / self.ops_here(self.here + off)

    def _sigma(self, known: Known) -> float:
        """The relative standard error by intervals and by the throughput model.

        The errors of the model beyond the scatter of intervals, and that of the measured mean, are
        of the time that an operation takes now. The part of it that changes is known to these.
        """
        told = TIME_ERROR if self.error_pct is None else self.error_pct / 100 * ABSOLUTE_TO_SD
        if known.intervals is None:
            return told
        _, scatter, _ = known.intervals
        model = math.hypot(math.sqrt(max(0.0, told**2 - scatter**2)), known.intervals.mean_sigma)
        changes = abs(self.ops_there(self.there) / self.ops_here(self.here) - 1)
        return math.hypot(scatter, known.intervals.mean_sigma, model * changes)
