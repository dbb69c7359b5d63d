# SPDX-License-Identifier: Apache-2.0
"""The clock of a node: that of its snapshots, without the times in which none came."""

from dataclasses import dataclass
from typing import NamedTuple

GAP_INTERVALS = 3.0
"""Of a longer time without a snapshot only so many intervals count: nothing was asked meanwhile."""
INTERVAL_GAIN = 0.2


class Passed(NamedTuple):
    """Seconds between two snapshots: those that count, and those that the clock jumped beside.

    `skipped_s` is above 0 over a gap or a step ahead, and below 0 by how much the clock went back.
    """

    counted_s: float
    skipped_s: float

    @property
    def is_gap(self) -> bool:
        """Whether totals of the two snapshots say nothing of an interval."""
        return self.skipped_s != 0


@dataclass
class Clock:
    """When the last snapshot was, and how far they are apart; outlives a restart.

    `interval_s` is what is asked for, and then follows what comes. Without it the first two
    snapshots say how far they are apart.
    """

    last_s: float | None = None
    interval_s: float | None = None

    def advance(self, time_s: float) -> Passed:
        """Takes the time of a snapshot in, in seconds.

        Whoever waits for something waits for snapshots in which it could be seen.
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
