# SPDX-License-Identifier: Apache-2.0
"""Free memory of a node: how much, for how long, and with what confidence it stays free.

The minimum of each of the last minutes is kept. If minutes are exchangeable, the next one is below
the least of n others with a probability of at most 1 / (n + 1).
"""

from collections import deque
from dataclasses import dataclass, field

WINDOW_S = 60.0
WINDOWS = 60
"""Number of minutes that are kept: one hour."""
SURE_WINDOWS = 19
"""Number of minutes that make a confidence of 95%."""


@dataclass(frozen=True)
class Free:
    """`free_bytes` are free now; `sure_bytes` were free all the time in the last `for_s` seconds.

    `confidence` is the probability that `sure_bytes` stay free throughout the next minute. Before
    the first whole minute it is 0, and so is `sure_bytes`.
    """

    free_bytes: int = 0
    sure_bytes: int = 0
    for_s: float = 0.0
    confidence: float = 0.0


@dataclass
class FreeMemory:
    """Free memory of one node: the minima of the last whole minutes, newest last, and the present.

    The record starts again after a gap, and when the controller restarts.
    """

    windows: deque[int] = field(default_factory=lambda: deque(maxlen=WINDOWS))
    least_bytes: int | None = None
    began_s: float = 0.0
    now_s: float = 0.0
    now_bytes: int = 0

    def take(self, time_s: float, free_bytes: int, is_gap: bool = False) -> None:
        """Take in the free memory at a time of the node's clock, in seconds."""
        if is_gap or self.least_bytes is None or time_s < self.now_s:
            self.windows.clear()
            self.least_bytes, self.began_s = free_bytes, time_s
        self.now_s, self.now_bytes = time_s, free_bytes
        self.least_bytes = min(self.least_bytes, free_bytes)
        if time_s - self.began_s >= WINDOW_S:
            self.windows.append(self.least_bytes)
            self.least_bytes, self.began_s = free_bytes, time_s

    @property
    def told(self) -> Free:
        """The minimum of the last 19 minutes, which make 95%, or of as many as were seen."""
        if self.least_bytes is None or not self.windows:
            return Free(self.now_bytes)
        recent = list(self.windows)[-SURE_WINDOWS:]
        sure = min(*recent, self.least_bytes)
        windows = 0
        for least in reversed(self.windows):
            if least < sure:
                break
            windows += 1
        for_s = windows * WINDOW_S + self.now_s - self.began_s
        return Free(self.now_bytes, sure, for_s, windows / (windows + 1))
