# SPDX-License-Identifier: Apache-2.0
"""What a tenant did before the autopilot first changed its setting, as it is stored."""

from dataclasses import dataclass
from math import sqrt

BASELINE_S = 300.0
"""The most seconds that are measured."""


@dataclass
class Baseline:
    """Sums over measured intervals, and the setting in them.

    It is `closed` after the first change, or after BASELINE_S of measurements. `cgroup_id` is a
    text, since it may exceed the integers of a database.
    """

    cgroup: str
    cgroup_id: str
    policy: str
    limit_bytes: int
    since_s: float
    until_s: float
    seconds: float = 0.0
    intervals: int = 0
    operations: float = 0.0
    ops_squares: float = 0.0
    accesses: int = 0
    misses: float = 0.0
    closed: bool = False

    @property
    def ops(self) -> float | None:
        """Operations per second; None if nothing was measured."""
        return self.operations / self.seconds if self.seconds > 0 else None

    @property
    def miss_ratio(self) -> float | None:
        """Misses per access; None if nothing was accessed."""
        return self.misses / self.accesses if self.accesses > 0 else None

    @property
    def scatter(self) -> float:
        """The standard deviation of the throughput of intervals, as a share of the mean.

        1 with fewer than two intervals or without operations.
        """
        mean = self.ops
        if not mean or self.intervals < 2:
            return 1.0
        variance = self.ops_squares / self.intervals - mean * mean
        return sqrt(max(0.0, variance) * self.intervals / (self.intervals - 1)) / mean

    def take(self, elapsed_s: float, ops: float, accesses: int, miss_ratio: float) -> None:
        """Add an interval."""
        self.seconds += elapsed_s
        self.intervals += 1
        self.operations += ops * elapsed_s
        self.ops_squares += ops * ops
        self.accesses += accesses
        self.misses += accesses * miss_ratio
