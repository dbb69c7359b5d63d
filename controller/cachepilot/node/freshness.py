# SPDX-License-Identifier: Apache-2.0
"""When what is known of a node is stale: the one place that says so."""

import time
from collections.abc import Callable

from cachepilot.readable import moment
from cachepilot.sense.counters import WINDOW

Clock = Callable[[], float]
NEVER_HEARD = "no snapshot was seen since the controller began"


def stale_after_s(interval_s: float) -> float:
    """So long after its last snapshot a node is stale: once it missed WINDOW control intervals.

    Readings are means over so many, so nothing of them is of the present any more.
    """
    return WINDOW * interval_s


class Freshness:
    """Whether a node is stale, by a clock of this host that no one sets; from any thread."""

    def __init__(self, interval_s: float, clock: Clock = time.monotonic) -> None:
        self._after_s = stale_after_s(interval_s)
        self._clock = clock
        self._heard_at: float | None = None
        self._heard_s = 0.0

    def hear(self, heard_s: float) -> None:
        """A snapshot came, or all that follows from one is done.

        `heard_s`: when it came, seconds since 1970.
        """
        self._heard_at, self._heard_s = self._clock(), heard_s

    @property
    def was_heard(self) -> bool:
        """Whether a snapshot came since the controller began."""
        return self._heard_at is not None

    @property
    def is_stale(self) -> bool:
        """Whether the last snapshot is too long ago, or there is none."""
        heard_at = self._heard_at
        return heard_at is None or self._clock() - heard_at > self._after_s

    @property
    def why(self) -> str:
        """What is told of the node while it is stale; empty while it is not."""
        if not self.is_stale:
            return ""
        if not self.was_heard:
            return NEVER_HEARD
        since = moment(self._heard_s)
        return f"stale: no snapshot since {since}; what was measured is not shown"
