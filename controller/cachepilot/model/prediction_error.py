# SPDX-License-Identifier: Apache-2.0
"""By how much the throughput of single intervals was off what was predicted of the setting."""

import math
from collections import deque
from dataclasses import dataclass, field

from cachepilot.model.throughput_error import INTERVALS, INTERVALS_MIN


@dataclass
class PredictionError:
    """The squared relative errors of the last intervals of one tenant.

    They contain everything by which an interval differs from its prediction: the curve, the
    throughput model, and the scatter of intervals.
    """

    squares: deque[float] = field(default_factory=lambda: deque(maxlen=INTERVALS))

    def take(self, measured_ops: float, predicted_ops: float) -> None:
        """Take in the operations per second of an interval, and those that were predicted of it."""
        if predicted_ops > 0:
            self.squares.append((measured_ops / predicted_ops - 1) ** 2)

    @property
    def sigma(self) -> float | None:
        """The root of the mean square; None while too few intervals are known."""
        if len(self.squares) < INTERVALS_MIN:
            return None
        return math.sqrt(sum(self.squares) / len(self.squares))
