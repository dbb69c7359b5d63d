# SPDX-License-Identifier: Apache-2.0
"""The throughput of the last intervals at one setting: its mean, and by how much they scatter."""

import math
from collections import deque
from dataclasses import dataclass, field
from statistics import fmean, stdev
from typing import NamedTuple

from cachepilot.model.throughput_error import INTERVALS, INTERVALS_MIN


class Scattered(NamedTuple):
    """Operations per second of `intervals` intervals; `sigma` is the relative deviation of one."""

    mean_ops: float
    sigma: float
    intervals: int

    @property
    def mean_sigma(self) -> float:
        """The relative standard error of the mean."""
        return self.sigma / math.sqrt(self.intervals)


@dataclass
class MeasuredIntervals:
    """The last intervals of one tenant under `setting`: a policy, and a limit in bytes or 0."""

    setting: tuple[str, int] = ("", 0)
    ops: deque[float] = field(default_factory=lambda: deque(maxlen=INTERVALS))

    def take(self, setting: tuple[str, int], measured_ops: float | None) -> None:
        """Take in the operations per second of an interval; None if it does not count."""
        if setting != self.setting:
            self.setting = setting
            self.ops.clear()
        if measured_ops is not None:
            self.ops.append(measured_ops)

    @property
    def scattered(self) -> Scattered | None:
        """What was measured; None while too few intervals are known, or nothing was done."""
        if len(self.ops) < INTERVALS_MIN:
            return None
        mean = fmean(self.ops)
        return Scattered(mean, stdev(self.ops) / mean, len(self.ops)) if mean > 0 else None
