# SPDX-License-Identifier: Apache-2.0
"""Whether intervals after a change are worse than those before it, beyond noise and tolerance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from cachepilot.control.guard_config import GuardConfig
from cachepilot.domain.decisions import Reading
from cachepilot.sense.counters import Sample

ALIKE_MISS = 0.05
ALIKE_OPS = 0.3
"""By how much intervals of one baseline may differ from the newest: a phase is a jump."""


@dataclass(frozen=True)
class Stats:
    """Mean and variance of some intervals of one tenant."""

    count: int
    ops: float
    ops_variance: float
    miss: float
    miss_variance: float
    read_us: float | None
    device_read_us: float | None
    reads_per_call: float = 1.0

    @property
    def reading(self) -> Reading:
        """The means."""
        return Reading(self.ops, self.miss)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _variance(values: Sequence[float], mean: float) -> float:
    """Of the values themselves; `statistics.pvariance` does it in fractions, 30 times as long."""
    return math.fsum((value - mean) ** 2 for value in values) / len(values)


def stats(samples: Sequence[Sample]) -> Stats:
    """Of at least one interval."""
    ops = [sample.ops for sample in samples]
    miss = [sample.miss_ratio for sample in samples]
    mean_ops, mean_miss = fmean(ops), fmean(miss)
    return Stats(
        len(samples),
        mean_ops,
        _variance(ops, mean_ops),
        mean_miss,
        _variance(miss, mean_miss),
        _mean([sample.read_us for sample in samples]),
        _mean([sample.device_read_us for sample in samples]),
        fmean([sample.reads_per_call for sample in samples]),
    )


def baseline(samples: Sequence[Sample], config: GuardConfig) -> Stats | None:
    """The newest intervals that are alike, the newest last; None while there are fewer than 2.

    What was before a jump belongs to another phase, and is no measure of this one.
    """
    newest = samples[-2:]
    if len(newest) < 2:
        return None
    ops = fmean([sample.ops for sample in newest])
    miss = fmean([sample.miss_ratio for sample in newest])
    alike: list[Sample] = []
    for sample in reversed(samples[-config.baseline_intervals :]):
        same_miss = abs(sample.miss_ratio - miss) <= ALIKE_MISS
        if len(alike) >= 2 and not (same_miss and abs(sample.ops - ops) <= ALIKE_OPS * ops):
            break
        alike.append(sample)
    return stats(alike)


def _noise(before: float, count_before: int, after: float, count_after: int) -> float:
    """The standard error of a difference of means (Welch)."""
    return math.sqrt(before / count_before + after / count_after)


def ops_noise(before: Stats, after: Stats) -> float:
    """Standard error of the difference in operations per second."""
    return _noise(before.ops_variance, before.count, after.ops_variance, after.count)


@dataclass(frozen=True)
class Change:
    """How a tenant changed, in units that count: beyond tolerance and noise."""

    ops_worse: bool
    ops_better: bool
    miss_worse: bool
    slower_calls: bool


def change(before: Stats, after: Stats, config: GuardConfig) -> Change:
    """Compares intervals after a change with its baseline."""
    noise = config.noise_sigmas * ops_noise(before, after)
    margin = before.ops * config.tolerance_pct / 100 + noise
    miss_noise = config.noise_sigmas * _noise(
        before.miss_variance, before.count, after.miss_variance, after.count
    )
    slower = False
    if before.read_us is not None and after.read_us is not None:
        # A call waits for all its reads: a device that became slower delays it once for each.
        waited = (after.device_read_us or 0.0) - (before.device_read_us or 0.0)
        waited *= max(1.0, after.reads_per_call)
        longer = after.read_us - before.read_us
        slower = longer > before.read_us * config.tolerance_pct / 100 + max(0.0, waited)
    return Change(
        ops_worse=after.ops < before.ops - margin,
        ops_better=after.ops > before.ops + margin,
        miss_worse=after.miss > before.miss + config.miss_tolerance + miss_noise,
        slower_calls=slower,
    )
