# SPDX-License-Identifier: Apache-2.0
"""Device reads per missed page: tenants wait for reads, while simulation counts pages.

Readahead brings many pages by one read. A policy that protects the page cache from scans may evict
pages that were read ahead before they are used, and as many missed pages then need more reads.
Curves and counterfactuals only know pages. The misses of a policy are therefore counted as the
pages that the kernel's default would miss for the same number of reads, by its ratio when it was in
force. Policies differ from one another less than from the default, so a policy that was never in
force is expected to take as many reads per page as the others that were.
"""

from dataclasses import dataclass, field

from cachepilot.model.calibration import FORGOTTEN_S
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

    def fade(self, keep: float) -> None:
        """Let the sums fade to the share `keep`."""
        self.reads, self.misses = keep * self.reads, keep * self.misses

    def add(self, pages: Pages, keep: float) -> None:
        """Add an interval, after earlier sums have faded to the share `keep`."""
        self.fade(keep)
        self.reads += pages.reads
        self.misses += pages.misses


@dataclass
class ReadsPerMiss(Counted):
    """Sums of the default while it is in force (this object), and of other policies.

    `others` are those of `policy`, the last in force that is not the default, and `earlier` those
    of policies before it. A read in progress at the end of an interval is counted in the next one.
    Ratios are therefore taken of sums and not of single intervals.
    """

    policy: str = ""
    others: Counted = field(default_factory=Counted)
    earlier: Counted = field(default_factory=Counted)

    def forget(self) -> None:
        """Forget all sums, as the workload changed."""
        self.reads = self.misses = 0.0
        self.others, self.earlier = Counted(), Counted()

    def take(self, policy: str, pages: Pages, elapsed_s: float, half_life_s: float) -> None:
        """Take in an interval in which the page cache is full."""
        keep = 0.5 ** (elapsed_s / half_life_s)
        if policy == DEFAULT:
            self.add(pages, keep)
            keep = 0.5 ** (elapsed_s / FORGOTTEN_S)
            self.others.fade(keep)
        else:
            if policy != self.policy:
                self.earlier.reads += self.others.reads
                self.earlier.misses += self.others.misses
                self.policy, self.others = policy, Counted()
            self.others.add(pages, keep)
        self.earlier.fade(keep)

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
        if policy == DEFAULT or not self._is_known:
            return 1.0
        if policy != self.policy:
            return self.weight_of_others
        reads, misses = self.others.reads, self.others.misses
        return min(1.0, reads / misses) / self.of_default if misses > 0 else 1.0

    @property
    def weight_of_others(self) -> float:
        """What a page counts for that a policy misses which was never in force.

        The ratio of the other policies is weighted against `READS_MIN` reads by the default's.
        """
        if not self._is_known:
            return 1.0
        reads = self.others.reads + self.earlier.reads + READS_MIN
        misses = self.others.misses + self.earlier.misses + READS_MIN / self.of_default
        return min(1.0, reads / misses) / self.of_default
