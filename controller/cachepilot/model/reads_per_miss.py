# SPDX-License-Identifier: Apache-2.0
"""How many device reads a missed page is: what is waited for are reads.

Readahead brings many pages by one read. A policy that keeps the pages of a scan from the page cache
may drop what was read ahead before it is used, and of as many missed pages more are then read one
by one. Curves and counterfactuals know of pages alone. So what a policy misses is counted as the
pages that the kernel's default would miss for as many reads, as that did when it was in force.
"""

from dataclasses import dataclass

from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.sense.counters import Pages

READS_MIN = 100.0
"""Of the default, so that their ratio to its misses is known by a tenth (counts scatter by the root
of their number)."""


@dataclass
class ReadsPerMiss:
    """Device reads and missed pages of the default; they fade while it is in force."""

    reads: float = 0.0
    misses: float = 0.0

    def forget(self) -> None:
        """The workload changed."""
        self.reads = self.misses = 0.0

    def take(self, policy: str, pages: Pages, elapsed_s: float, half_life_s: float) -> None:
        """Takes an interval of a full page cache in."""
        if policy != DEFAULT:
            return
        if pages.reads > pages.misses:
            # Direct I/O, swapped pages, metadata: not all of them are the page cache's.
            return
        keep = 0.5 ** (elapsed_s / half_life_s)
        self.reads = keep * self.reads + pages.reads
        self.misses = keep * self.misses + pages.misses

    @property
    def _is_known(self) -> bool:
        return READS_MIN <= self.reads <= self.misses

    @property
    def of_default(self) -> float:
        """Reads of a page that the default misses; 1 while too few were seen."""
        return self.reads / self.misses if self._is_known else 1.0

    def weight(self, policy: str, pages: Pages) -> float:
        """What a page missed in an interval counts for; 1 under the default, or without reads.

        A missed page is one read at most, whatever else the tenant reads from the device.
        """
        if policy == DEFAULT or not self._is_known or pages.misses <= 0:
            return 1.0
        return min(1.0, pages.reads / pages.misses) / self.of_default
