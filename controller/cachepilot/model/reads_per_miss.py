# SPDX-License-Identifier: Apache-2.0
"""Device reads per missed page: tenants wait for reads, while simulation counts pages.

Readahead brings many pages by one read. A policy that protects the page cache from scans may evict
pages that were read ahead before they are used, and as many missed pages then need more reads.
Curves and counterfactuals only know pages. The misses of a policy are therefore counted as the
pages that the kernel's default would miss for the same number of reads, by its ratio when it was in
force.
"""

from dataclasses import dataclass, field

from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.sense.counters import Pages

READS_MIN = 100.0
"""Reads of the default from which the ratio counts. Counts scatter by the square root of their
number, so the ratio is then known to a tenth."""


@dataclass
class Counted:
    """Sums of device reads and missed pages, which fade."""

    reads: float = 0.0
    misses: float = 0.0

    def add(self, pages: Pages, keep: float) -> None:
        """Add an interval, after earlier sums have faded to the share `keep`."""
        self.reads = keep * self.reads + pages.reads
        self.misses = keep * self.misses + pages.misses


@dataclass
class ReadsPerMiss(Counted):
    """Sums of the default while it is in force (this object), and of another `policy` (`others`).

    A read in progress at the end of an interval is counted in the next one. Ratios are therefore
    taken of sums and not of single intervals.
    """

    policy: str = ""
    others: Counted = field(default_factory=Counted)

    def forget(self) -> None:
        """Forget all sums, as the workload changed."""
        self.reads = self.misses = 0.0
        self.others = Counted()

    def take(self, policy: str, pages: Pages, elapsed_s: float, half_life_s: float) -> None:
        """Take in an interval in which the page cache is full."""
        if policy != self.policy:
            self.policy, self.others = policy, Counted()
        counted = self if policy == DEFAULT else self.others
        counted.add(pages, 0.5 ** (elapsed_s / half_life_s))

    @property
    def _is_known(self) -> bool:
        """Whether the default's ratio is known; with more reads than misses it is not.

        Such reads are of direct I/O, swap or metadata.
        """
        return READS_MIN <= self.reads <= self.misses

    @property
    def of_default(self) -> float:
        """Reads per page that the default misses; 1 while that is not known."""
        return self.reads / self.misses if self._is_known else 1.0

    def weight(self, policy: str) -> float:
        """What a missed page counts for; 1 under the default, or where nothing is known.

        A missed page counts as at most one read: the tenant may also read for other reasons.
        """
        reads, misses = self.others.reads, self.others.misses
        if policy != self.policy or not self._is_known or misses <= 0:
            return 1.0
        return min(1.0, reads / misses) / self.of_default
