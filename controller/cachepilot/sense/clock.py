# SPDX-License-Identifier: Apache-2.0
"""The clock of a node: the time of its snapshots, without times in which none came."""

from dataclasses import dataclass
from typing import NamedTuple

GAP_INTERVALS = 3.0
"""Most intervals that a time without snapshots counts for, since nothing was sent in it."""
INTERVAL_GAIN = 0.2


class Passed(NamedTuple):
    """Seconds between two snapshots: those that count, and those that the clock skipped.

    `skipped_s` is positive over a gap or a step of the clock ahead. If the clock went back, it is
    negative, by that amount.
    """

    counted_s: float
    skipped_s: float

    @property
    def is_gap(self) -> bool:
        """Whether the difference of totals of the two snapshots is not that of one interval."""
        return self.skipped_s != 0


@dataclass
class Clock:
    """The time of the last snapshot and the interval between snapshots; outlives a restart.

    `interval_s` begins as configured and then follows the measured interval. If it is None, it
    begins as the time between the first two snapshots.
    """

    last_s: float | None = None
    interval_s: float | None = None

    def advance(self, time_s: float) -> Passed:
        """Take in the time of a snapshot, in seconds, and return the time that passed.

        Timeouts count only time in which snapshots could have shown what they wait for.
        """
        last_s, self.last_s = self.last_s, time_s
        if last_s is None:
            return Passed(0.0, 0.0)
        passed_s = time_s - last_s
        if passed_s < 0:
            return Passed(0.0, passed_s)
        if self.interval_s is None:
            self.interval_s = passed_s
        counted_s = min(passed_s, GAP_INTERVALS * self.interval_s)
        self.interval_s += INTERVAL_GAIN * (counted_s - self.interval_s)
        return Passed(counted_s, passed_s - counted_s)
