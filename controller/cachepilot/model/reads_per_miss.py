# SPDX-License-Identifier: Apache-2.0
"""How many device reads a missed page is: what is waited for are reads.

Readahead brings many pages by one read. A policy that keeps the pages of a scan from the page cache
may drop what was read ahead before it is used, and of as many missed pages more are then read one
by one. Curves and counterfactuals know of pages alone. So what a policy misses is counted as the
pages that the kernel's default would miss for as many reads, as that did when it was in force.
"""

from dataclasses import dataclass, field

from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.sense.counters import Pages

READS_MIN = 100.0
"""Of the default, so that their ratio to its misses is known by a tenth (counts scatter by the root
of their number)."""


@dataclass
class Counted:
    """Device reads and missed pages, which fade."""

    reads: float = 0.0
    misses: float = 0.0

    def add(self, pages: Pages, keep: float) -> None:
        """Takes an interval in, before which that share is kept."""
        self.reads = keep * self.reads + pages.reads
        self.misses = keep * self.misses + pages.misses


@dataclass
class ReadsPerMiss(Counted):
    """Those of the default, while it is in force, and of the `policy` in force in its place.

    A read that is under way at the end of an interval is counted in the next. So sums are held
    against each other, and not what is counted in one interval.
    """

    policy: str = ""
    others: Counted = field(default_factory=Counted)

    def forget(self) -> None:
        """The workload changed."""
        self.reads = self.misses = 0.0
        self.others = Counted()

    def take(self, policy: str, pages: Pages, elapsed_s: float, half_life_s: float) -> None:
        """Takes an interval of a full page cache in."""
        if policy != self.policy:
            self.policy, self.others = policy, Counted()
        counted = self if policy == DEFAULT else self.others
        counted.add(pages, 0.5 ** (elapsed_s / half_life_s))

    @property
    def _is_known(self) -> bool:
        """Of the default; what reads more than it misses reads by direct I/O, swap or metadata."""
        return READS_MIN <= self.reads <= self.misses

    @property
    def of_default(self) -> float:
        """Reads of a page that the default misses; 1 while too few were seen."""
        return self.reads / self.misses if self._is_known else 1.0

    def weight(self, policy: str) -> float:
        """What a page missed counts for now; 1 under the default, or where nothing is known.

        A missed page is one read at most, whatever else the tenant reads from the device.
        """
        reads, misses = self.others.reads, self.others.misses
        if policy != self.policy or not self._is_known or misses <= 0:
            return 1.0
        return min(1.0, reads / misses) / self.of_default
