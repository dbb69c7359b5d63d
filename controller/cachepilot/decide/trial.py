# SPDX-License-Identifier: Apache-2.0
"""The trial of one change of policy: live until it is confirmed or undone."""

from dataclasses import dataclass, field, replace
from math import hypot, inf, sqrt

import numpy as np

from cachepilot.model.gain import LEAST_INTERVALS, LOOKS, Gain, chance_at, quantile
from cachepilot.sense.counterfactuals import Floats

READ_ANEW = 2
"""In so many intervals a change reads most of what it reads again; they are not part of scatter."""


@dataclass
class Trial:
    """A policy in force that is not confirmed. Gains are pages that need not be read.

    `factor` and `origin_factor` are the calibrations of `to_policy` and `from_policy` when the
    change was made. What is learned of the policy in force since then changes neither the
    prediction nor what it is compared with. `origin_factor` may be None until the first interval is
    judged; its relative standard error is `origin_error`, and that of weights (see `Interval`) in
    the last interval is `weight_error`. `would_cost` are the misses that
    `from_policy` would have had, `groups` the same by group of pages, and `profile` those of its
    calibration. `unseen` is the share of pages that is not sampled. `raw` are predicted misses of
    `to_policy`, not calibrated. `baseline` and `predicted` are operations per second and miss
    ratio. `reread` pages may have been read again because of the change.

    CPU time of BPF programs counts as the pages that could be read in it. `to_policy` was expected
    to use `cpu_us` microseconds per access more than `from_policy`, and used `cpu` pages more. For
    `idle_s` seconds neither policy missed anything, or nothing was reported. When the change began
    the tenant had read `excess` pages more than the default would have; a later regime may lower
    this by what was saved before it. `left` was its budget then, and `may_lose` is what the change
    may lose in any case; both may be None until the first interval is judged. A rollback may read
    `rollback` pages again, and no more than were `displaced` since `from_policy` was in force (None
    if unknown). `expected` is the predicted sum of gains and `gained` the measured one. `series`
    are the gains after the first `READ_ANEW` intervals, with the misses of `from_policy` as base.
    The trial `is_live` once `to_policy` is in force, and is expected to end at `ends_s`.
    """

    from_policy: str
    to_policy: str
    started_s: float
    limit_bytes: int
    factor: float
    baseline: tuple[float, float]
    predicted: tuple[float, float]
    origin_factor: float | None = None
    profile: list[float] = field(default_factory=list)
    groups: list[float] = field(default_factory=list)
    unseen: float = 0.0
    is_live: bool = False
    intervals: int = 0
    gained: float = 0.0
    series: Gain = field(default_factory=Gain)
    expected: float = 0.0
    would_cost: float = 0.0
    raw: float = 0.0
    reread: float = 0.0
    rollback: float = 0.0
    ends_s: float = 0.0
    cpu_us: float = 0.0
    cpu: float = 0.0
    idle_s: float = 0.0
    excess: float = 0.0
    left: float | None = None
    may_lose: float | None = None
    displaced: float | None = 0.0
    origin_error: float = 0.0
    weight_error: float = 0.0

    def take(
        self,
        would_cost: Floats,
        misses: float,
        raw: float,
        rate: float,
        cpu: tuple[float, float] = (0.0, 0.0),
        elapsed_s: float = 1.0,
    ) -> None:
        """Take in an interval; `would_cost` are the misses of `from_policy` by group of pages.

        `misses` were measured, and `raw` were predicted for `to_policy` without calibration; `rate`
        is the share of sampled pages. `cpu` is the CPU time beyond that of `from_policy`, in pages:
        measured, and expected.
        """
        total = float(would_cost.sum())
        gained = total - misses - cpu[0]
        self.idle_s = self.idle_s + elapsed_s if total + misses + abs(cpu[0]) < 1.0 else 0.0
        self.cpu += cpu[0]
        before = self.groups if len(self.groups) == len(would_cost) else np.zeros(len(would_cost))
        self.groups = (before + would_cost).tolist()
        # The largest unsampled share applies: later samples do not improve earlier ones.
        self.unseen = max(self.unseen, 1.0 - rate)
        self.intervals += 1
        if self.intervals > READ_ANEW:
            self.series.take(gained, total)
        self.gained += gained
        self.expected += total - self.factor * raw - cpu[1]
        self.would_cost += total
        self.raw += raw

    def at_most_displaced(self, pages: float) -> float:
        """`pages`, but no more than were read since `from_policy`: nothing else was evicted."""
        return pages if self.displaced is None else min(pages, self.displaced)

    def standard_error(self) -> float:
        """The standard error of the sum of gains: the larger of `errors`."""
        return max(self.errors())

    def errors(self) -> tuple[float, float]:
        """Standard errors of the sum of gains: from the sample, and from its values over time."""
        return self._of_sample(), self._over_time()

    def _of_sample(self) -> float:
        """The sampling error of `from_policy`: by how much groups now differ from calibration.

        Groups of pages are independent samples, however long errors last.
        """
        now, then = np.array(self.groups), np.array(self.profile)
        count = len(now)
        if count < 2 or now.sum() <= 0:
            return 0.0
        is_known = len(then) == count and then.sum() > 0
        off = now / now.sum() - (then / then.sum() if is_known else 1.0 / count)
        return self.would_cost * sqrt(count / (count - 1) * float(off @ off) * self.unseen)

    def _over_time(self) -> float:
        """The error of the measured series, extended to all intervals; inf without values."""
        count = self.series.intervals
        return self.series.standard_error() * sqrt(self.intervals / count) if count else inf

    def bound(self, alpha: float, errors: tuple[float, float] | None = None) -> float:
        """What noise alone adds to the sum of gains with a chance of `alpha`: see `chance_at`.

        `errors` are the present standard errors, if the caller has computed them.
        """
        sample, series = self.errors() if errors is None else errors
        chance = chance_at(alpha, self.intervals)
        by_sample = quantile(chance, len(self.groups)) * sample
        return max(by_sample, quantile(chance, self.series.values) * series)

    def sure_bound(self, alpha: float, errors: tuple[float, float] | None = None) -> float:
        """`bound` for checks at every interval, with the errors of what `from_policy` would cost.

        These are its calibration error and the error of weights.
        """
        alpha /= LOOKS
        relative = hypot(self.origin_error, self.weight_error)
        calibrated = quantile(chance_at(alpha, self.intervals), inf) * relative
        return hypot(self.bound(alpha, errors), calibrated * self.would_cost)

    def is_confirmed(self, error: float) -> bool:
        """Whether the gain exceeds `error`, with all pages that were read again counted."""
        return self.intervals >= LEAST_INTERVALS and self.gained > error

    def why_undone(self, cost: float, error: float, undo_times: float) -> str | None:
        """Why the change is to be undone, or None; `cost` are the pages that it read again."""
        if self.intervals < LEAST_INTERVALS:
            return None
        if self.gained + cost + error < 0:
            more = f"{-self.gained:.0f} pages more than {self.from_policy} would have"
            return f"it {'cost' if self.cpu else 'read'} {more}{self.told_cpu()}"
        kept = self.expected / undo_times
        is_sure = self.gained + cost + error < kept
        is_due = self.gained < kept and kept >= cost + self.standard_error()
        if is_sure or is_due:
            told = f"it should have saved {self.expected:.0f} pages, and saved {self.gained:.0f}"
            return told + self.told_cpu()
        return None

    def saved_nothing(self, cost: float, error: float, undo_times: float) -> bool:
        """Whether the change would also be undone for its misses alone, without CPU time."""
        if not self.cpu:
            return True
        of_misses = replace(self, gained=self.gained + self.cpu, cpu=0.0)
        return of_misses.why_undone(cost, error, undo_times) is not None

    def told_cpu(self) -> str:
        """The part of gain or loss that is CPU time, for messages; empty if there is none."""
        return f", CPU time counted as {self.cpu:.0f}" if self.cpu else ""
