# SPDX-License-Identifier: Apache-2.0
"""The rollout of one change of policy: live until it is confirmed or undone."""

from dataclasses import dataclass
from math import sqrt

LEAST_INTERVALS = 5
"""Fewer say nothing of how much a gain scatters."""
AUTOCORRELATION_MAX = 0.95


@dataclass
class Trial:
    """A policy in force that is not confirmed. Gains are pages that need not be read.

    `factor` and `origin_factor` are the calibration of `to_policy` and `from_policy` when the
    change was made: what is learnt since, of the one in force, moves neither what it promised nor
    what it is held against. None is as it is when the first interval is judged. `would_cost` are
    the misses of `from_policy`, `raw` those of `to_policy` as predicted, not calibrated. `baseline`
    and `predicted` are operations per second and miss ratio; of `misses` since, `reread` may be
    pages that the change has to read anew. It is expected to end at `ends_s`.
    """

    from_policy: str
    to_policy: str
    started_s: float
    limit_bytes: int
    factor: float
    baseline: tuple[float, float]
    predicted: tuple[float, float]
    origin_factor: float | None = None
    is_live: bool = False
    intervals: int = 0
    gained: float = 0.0
    squares: float = 0.0
    products: float = 0.0
    last: float = 0.0
    promised: float = 0.0
    would_cost: float = 0.0
    raw: float = 0.0
    misses: float = 0.0
    reread: float = 0.0
    ends_s: float = 0.0

    def take(self, would_cost: float, misses: float, raw: float) -> None:
        """Takes an interval in: misses of `from_policy`, those measured, and those predicted."""
        gained = would_cost - misses
        self.misses += misses
        if self.intervals:
            self.products += gained * self.last
        self.intervals += 1
        self.gained += gained
        self.squares += gained * gained
        self.last = gained
        self.promised += max(0.0, would_cost - self.factor * raw)
        self.would_cost += would_cost
        self.raw += raw

    def standard_error(self) -> float:
        """Of the sum of gains; intervals that follow each other are alike.

        The variance of a sum of a first-order autoregressive series is (1 + r) / (1 - r) times that
        of independent values, r the autocorrelation at lag 1 (Bartlett 1935).
        """
        n = self.intervals
        if n < 2:
            return float("inf")
        mean = self.gained / n
        variance = max(0.0, self.squares / n - mean * mean)
        if variance == 0:
            return 0.0
        lagged = self.products / (n - 1) - mean * mean
        r = min(AUTOCORRELATION_MAX, max(0.0, lagged / variance))
        return sqrt(n * variance * (1 + r) / (1 - r))

    def is_confirmed(self, cost: float, sigmas: float, undo_times: float) -> bool:
        """Whether it measurably gained, or saved as much of what it promised as keeps it."""
        if self.intervals < LEAST_INTERVALS:
            return False
        has_gained = self.gained - sigmas * self.standard_error() > 0
        is_due = self.promised >= 2 * undo_times * cost
        return has_gained or (is_due and self.gained >= self.promised / undo_times)

    def why_undone(self, cost: float, undo_times: float) -> str | None:
        """Why it is to be undone, None when it is not; `cost` are the pages that it read anew."""
        if self.intervals < LEAST_INTERVALS:
            return None
        if self.gained < -2 * cost:
            return f"it read {-self.gained:.0f} pages more than {self.from_policy} would have"
        due = self.promised >= undo_times * (cost + self.standard_error())
        if due and self.gained < self.promised / undo_times:
            return f"it was to save {self.promised:.0f} pages, and saved {self.gained:.0f}"
        return None
