# SPDX-License-Identifier: Apache-2.0
"""The rollout of one change of policy: live until it is confirmed or undone."""

from dataclasses import dataclass, field, replace
from math import hypot, inf, sqrt

import numpy as np

from cachepilot.decide.gain import LEAST_INTERVALS, LOOKS, Gain, chance_at, quantile
from cachepilot.sense.counterfactuals import Floats

READ_ANEW = 2
"""In so many intervals most of what a change reads again is read: that is no scatter."""


@dataclass
class Trial:
    """A policy in force that is not confirmed. Gains are pages that need not be read.

    `factor` and `origin_factor` are the calibration of `to_policy` and `from_policy` when the
    change was made: what is learnt since, of the one in force, moves neither what was predicted nor
    what it is compared with. None is as it is when the first interval is judged; `origin_error` is
    the standard error of `origin_factor`, as a share of it. `would_cost` are
    the misses of `from_policy`, `groups` the same by group of pages, `profile` those that its
    calibration is of, and `unseen` the share of pages that is not sampled; `raw` are misses of
    `to_policy` as predicted, not calibrated. `baseline` and `predicted` are operations per second
    and miss ratio; `reread` pages may have been read again because of the change.
    CPU time of programs counts as the pages that could be read in it: `to_policy` was expected to
    cost `cpu_us` microseconds per access more than `from_policy`, and cost `cpu` pages more so far.
    For `idle_s` seconds neither missed anything, or nothing was told. The tenant had read `excess`
    pages more than the default would have when it began, or less by what it saved of earlier
    workloads, and `left` of its budget; by it may read `may_lose` more in any case. None is as
    known when the first interval is judged. Going back may read `rollback` pages again, and no more
    than were `displaced` since `from_policy` was in force, which is None where that is not known.
    `series` are gains after `READ_ANEW` intervals, of what `from_policy` would have missed. It is
    expected to end at `ends_s`.
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

    def take(
        self,
        would_cost: Floats,
        misses: float,
        raw: float,
        rate: float,
        cpu: tuple[float, float] = (0.0, 0.0),
        elapsed_s: float = 1.0,
    ) -> None:
        """Takes an interval in: misses of `from_policy` by group, those measured and predicted.

        `cpu` is the CPU time beyond that of `from_policy`, as pages: measured, and as expected.
        """
        total = float(would_cost.sum())
        gained = total - misses - cpu[0]
        self.idle_s = self.idle_s + elapsed_s if total + misses + abs(cpu[0]) < 1.0 else 0.0
        self.cpu += cpu[0]
        before = self.groups if len(self.groups) == len(would_cost) else np.zeros(len(would_cost))
        self.groups = (before + would_cost).tolist()
        # What fewer pages told of earlier intervals is no better known by those of later ones.
        self.unseen = max(self.unseen, 1.0 - rate)
        self.intervals += 1
        if self.intervals > READ_ANEW:
            self.series.take(gained, total)
        self.gained += gained
        self.expected += total - self.factor * raw - cpu[1]
        self.would_cost += total
        self.raw += raw

    def at_most_displaced(self, pages: float) -> float:
        """So many pages, or as many as were read since: nothing else left the page cache."""
        return pages if self.displaced is None else min(pages, self.displaced)

    def standard_error(self) -> float:
        """Of the sum of gains: the larger of `errors`."""
        return max(self.errors())

    def errors(self) -> tuple[float, float]:
        """Standard errors of the sum of gains: by the sample, and by its values over time."""
        return self._of_sample(), self._over_time()

    def _of_sample(self) -> float:
        """Of the sample of `from_policy`: what it is off by now, and was not when calibrated.

        Groups of pages are independent samples of that, however long errors last.
        """
        now, then = np.array(self.groups), np.array(self.profile)
        count = len(now)
        if count < 2 or now.sum() <= 0:
            return 0.0
        is_known = len(then) == count and then.sum() > 0
        off = now / now.sum() - (then / then.sum() if is_known else 1.0 / count)
        return self.would_cost * sqrt(count / (count - 1) * float(off @ off) * self.unseen)

    def _over_time(self) -> float:
        """Of what is measured."""
        count = self.series.intervals
        return self.series.standard_error() * sqrt(self.intervals / count) if count else inf

    def bound(self, alpha: float, errors: tuple[float, float] | None = None) -> float:
        """What noise alone makes of the sum of gains with a chance of `alpha`: see `chance_at`.

        `errors` are those of now, where they are known.
        """
        sample, series = self.errors() if errors is None else errors
        chance = chance_at(alpha, self.intervals)
        by_sample = quantile(chance, len(self.groups)) * sample
        return max(by_sample, quantile(chance, self.series.values) * series)

    def sure_bound(self, alpha: float, errors: tuple[float, float] | None = None) -> float:
        """The same at any time, and with the error of the calibration of `from_policy`."""
        alpha /= LOOKS
        calibrated = quantile(chance_at(alpha, self.intervals), inf) * self.origin_error
        return hypot(self.bound(alpha, errors), calibrated * self.would_cost)

    def is_confirmed(self, error: float) -> bool:
        """Whether it gained beyond error, all that it read again included."""
        return self.intervals >= LEAST_INTERVALS and self.gained > error

    def why_undone(self, cost: float, error: float, undo_times: float) -> str | None:
        """Why it is to be undone, None when it is not; `cost` are the pages that it read again."""
        if self.intervals < LEAST_INTERVALS:
            return None
        if self.gained + cost + error < 0:
            more = f"{-self.gained:.0f} pages more than {self.from_policy} would have"
            return f"it {'cost' if self.cpu else 'read'} {more}{self.told_cpu()}"
        kept = self.expected / undo_times
        is_sure = self.gained + cost + error < kept
        is_due = self.gained < kept and kept >= cost + self.standard_error()
        if is_sure or is_due:
            told = f"it was to save {self.expected:.0f} pages, and saved {self.gained:.0f}"
            return told + self.told_cpu()
        return None

    def saved_nothing(self, cost: float, error: float, undo_times: float) -> bool:
        """Whether a change that is undone would be, too, for its misses alone."""
        if not self.cpu:
            return True
        of_misses = replace(self, gained=self.gained + self.cpu, cpu=0.0)
        return of_misses.why_undone(cost, error, undo_times) is not None

    def told_cpu(self) -> str:
        """How much of what it gained or lost is CPU time; empty where that is none."""
        return f", CPU time counted as {self.cpu:.0f}" if self.cpu else ""
