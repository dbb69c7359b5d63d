# SPDX-License-Identifier: Apache-2.0
"""The windows of one SLO by the hour, for a week, and the target that they were judged by."""

import numpy as np

from cachepilot.domain.past.budget import Counted
from cachepilot.domain.slos import HOURS

HOUR_S = 3600


class SloHours:
    """Counts of the last hours, 1.3 KiB."""

    def __init__(self, target: float, since_s: float) -> None:
        self.target, self.since_s = target, since_s
        self._hour = int(since_s // HOUR_S)
        """The newest hour in which anything was counted."""
        self._counts = np.zeros((HOURS, 2), np.int32)

    def add(self, hour: int, windows: int, met: int) -> None:
        """Count windows of an hour. Hours more than a week older than the newest are forgotten."""
        if hour > self._hour:
            first = max(self._hour + 1, hour - HOURS + 1)
            self._counts[np.arange(first, hour + 1) % HOURS] = 0
            self._hour = hour
        elif hour <= self._hour - HOURS:
            return
        self._counts[hour % HOURS] += (windows, met)

    def of(self, hour: int) -> Counted:
        """What was counted in one hour of the last week."""
        return Counted(*self._counts[hour % HOURS].tolist())

    def last(self, hours: int, now_s: float) -> Counted:
        """What was counted in the last `hours` hours, that of `now_s` among them."""
        newest = int(now_s // HOUR_S)
        first = max(newest - hours, self._hour - HOURS) + 1
        known = np.arange(first, min(newest, self._hour) + 1) % HOURS
        return Counted(*self._counts[known].sum(axis=0).tolist())
