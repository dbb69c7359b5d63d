# SPDX-License-Identifier: Apache-2.0
"""What a tenant did before the autopilot changed anything of it, as it is stored."""

from dataclasses import dataclass
from math import sqrt

BASELINE_S = 300.0
"""So long is measured at most."""


@dataclass
class Baseline:
    """Sums over intervals in which something was measured, and the setting that was found.

    It is `closed` once something changed, or BASELINE_S were measured. `cgroup_id` is a text: it
    may be more than a database counts.
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
        """Operations per second; None where nothing was measured."""
        return self.operations / self.seconds if self.seconds > 0 else None

    @property
    def miss_ratio(self) -> float | None:
        """None where nothing was accessed."""
        return self.misses / self.accesses if self.accesses > 0 else None

    @property
    def scatter(self) -> float:
        """The standard deviation of the throughput of an interval, as a share of the mean."""
        mean = self.ops
        if not mean or self.intervals < 2:
            return 1.0
        variance = self.ops_squares / self.intervals - mean * mean
        return sqrt(max(0.0, variance) * self.intervals / (self.intervals - 1)) / mean

    def take(self, elapsed_s: float, ops: float, accesses: int, miss_ratio: float) -> None:
        """Adds an interval."""
        self.seconds += elapsed_s
        self.intervals += 1
        self.operations += ops * elapsed_s
        self.ops_squares += ops * ops
        self.accesses += accesses
        self.misses += accesses * miss_ratio
