# SPDX-License-Identifier: Apache-2.0
"""When the readings of a node are stale. No other module decides this."""

import time
from collections.abc import Callable

from cachepilot.readable import moment
from cachepilot.sense.counters import WINDOW

Clock = Callable[[], float]
NEVER_HEARD = "no snapshot was seen since the controller began"


def stale_after_s(interval_s: float) -> float:
    """Seconds after the last snapshot at which a node is stale: WINDOW control intervals.

    Readings are means over WINDOW intervals, so that nothing in them is of the present after that
    time.
    """
    return WINDOW * interval_s


class Freshness:
    """Whether a node is stale, by a monotonic clock of this host. Any thread may ask."""

    def __init__(self, interval_s: float, clock: Clock = time.monotonic) -> None:
        self._after_s = stale_after_s(interval_s)
        self._clock = clock
        self._heard_at: float | None = None
        self._heard_s = 0.0

    def hear(self, heard_s: float) -> None:
        """Note that a snapshot came, or that the work that follows from it is done.

        `heard_s` is when the snapshot came, in seconds since 1970.
        """
        self._heard_at, self._heard_s = self._clock(), heard_s

    @property
    def was_heard(self) -> bool:
        """Whether a snapshot came since the controller started."""
        return self._heard_at is not None

    @property
    def is_stale(self) -> bool:
        """Whether the last snapshot is too old, or there is none."""
        heard_at = self._heard_at
        return heard_at is None or self._clock() - heard_at > self._after_s

    @property
    def why(self) -> str:
        """What is shown about a stale node; empty while it is not stale."""
        if not self.is_stale:
            return ""
        if not self.was_heard:
            return NEVER_HEARD
        since = moment(self._heard_s)
        return f"stale: no snapshot since {since}; what was measured is not shown"
