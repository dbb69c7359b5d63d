# SPDX-License-Identifier: Apache-2.0
"""How much memory of a node is free, for how long it has been, and how sure it is to stay.

The least that was free in each of the last minutes is kept. Where minutes are exchangeable, the
next one is below the least of n others with a chance of 1 / (n + 1) at most.
"""

from collections import deque
from dataclasses import dataclass, field

WINDOW_S = 60.0
WINDOWS = 60
"""How many are kept: nothing is told of more than an hour."""
SURE_WINDOWS = 19
"""So many minutes make a confidence of 95%."""


@dataclass(frozen=True)
class Free:
    """`free_bytes` are free now, `sure_bytes` were all the time in the last `for_s` seconds.

    `confidence` is the chance that as much is free all through the next minute; 0 while no minute
    was seen, when nothing is sure.
    """

    free_bytes: int = 0
    sure_bytes: int = 0
    for_s: float = 0.0
    confidence: float = 0.0


@dataclass
class FreeMemory:
    """Of one node: the least bytes of the last whole minutes, newest last, and of the present one.

    It starts again after a gap, and when the controller is restarted.
    """

    windows: deque[int] = field(default_factory=lambda: deque(maxlen=WINDOWS))
    least_bytes: int | None = None
    began_s: float = 0.0
    now_s: float = 0.0
    now_bytes: int = 0

    def take(self, time_s: float, free_bytes: int, is_gap: bool = False) -> None:
        """Takes in what is free at a time of the node, seconds."""
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
        """The least of the last minutes, as many as make 95%, or as were seen."""
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
