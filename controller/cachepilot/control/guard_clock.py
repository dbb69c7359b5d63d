# SPDX-License-Identifier: Apache-2.0
"""The guard's clock: that of the snapshots, without the times in which none came."""

from dataclasses import dataclass

GAP_INTERVALS = 3.0
"""Of a longer time without a snapshot only so many intervals count: nothing was asked meanwhile."""
INTERVAL_GAIN = 0.2


@dataclass
class Clock:
    """When the last snapshot was, and how far they are apart; outlives a restart."""

    last_s: float | None = None
    interval_s: float | None = None

    def advance(self, time_s: float) -> float:
        """Takes the time of a snapshot in; what it counts for, or below 0 by how much it went back.

        Whoever waits for something waits for snapshots in which it could be seen.
        """
        last_s, self.last_s = self.last_s, time_s
        if last_s is None:
            return 0.0
        if time_s < last_s:
            return time_s - last_s
        passed_s = time_s - last_s
        if self.interval_s is None:
            self.interval_s = passed_s
        counted_s = min(passed_s, GAP_INTERVALS * self.interval_s)
        self.interval_s += INTERVAL_GAIN * (counted_s - self.interval_s)
        return counted_s
