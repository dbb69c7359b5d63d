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
    """The last intervals of one tenant under `setting`: a policy, and a limit in bytes or 0.

    They are forgotten if nothing was measured for `INTERVALS` intervals after `last_s`, the time of
    the last one. Single intervals do not expire, since a counter that an application publishes may
    give a value only every few intervals.
    """

    setting: tuple[str, int] = ("", 0)
    ops: deque[float] = field(default_factory=lambda: deque(maxlen=INTERVALS))
    last_s: float = 0.0

    def take(
        self,
        setting: tuple[str, int],
        measured_ops: float | None,
        time_s: float,
        interval_s: float,
    ) -> None:
        """Take in the operations per second of an interval that ends at `time_s`.

        They are 0 if the tenant did nothing, and None if they are not known or do not count.
        """
        is_recent = 0 <= time_s - self.last_s <= INTERVALS * interval_s
        if setting != self.setting or not is_recent:
            self.setting = setting
            self.ops.clear()
        if measured_ops is not None:
            self.ops.append(measured_ops)
            self.last_s = time_s

    @property
    def scattered(self) -> Scattered | None:
        """What was measured; None while too few intervals are known.

        A tenant that did nothing in all of them was measured: it has a mean of 0 and no scatter.
        """
        if len(self.ops) < INTERVALS_MIN:
            return None
        mean = fmean(self.ops)
        return Scattered(mean, stdev(self.ops) / mean if mean > 0 else 0.0, len(self.ops))
