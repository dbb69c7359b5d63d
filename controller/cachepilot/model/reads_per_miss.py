# SPDX-License-Identifier: Apache-2.0
"""Device reads per missed page: tenants wait for reads, while simulation counts pages.

Readahead brings many pages by one read. A policy that protects the page cache from scans may evict
pages that were read ahead before they are used, and as many missed pages then need more reads.
Curves and counterfactuals only know pages. The misses of a policy are therefore counted as the
pages that the kernel's default would miss for the same number of reads, by its ratio when it was in
force. Policies differ from one another less than from the default, so a policy that was never in
force is expected to take as many reads per page as the others that were. The ratio of a policy
changes with the mix of operations, so it has an error, and what a change saves must exceed it.
"""

from dataclasses import dataclass, field
from math import hypot, sqrt

from cachepilot.model.calibration import FORGOTTEN_S
from cachepilot.model.gain import Gain
from cachepilot.sense.counterfactuals import DEFAULT
from cachepilot.sense.counters import Pages

READS_MIN = 100.0
"""Reads of the default from which the ratio counts. Counts scatter by the square root of their
number, so the ratio is then known to a tenth."""
BLOCKS_MIN = 2.0
"""With fewer blocks, their scatter is not known."""


@dataclass(slots=True)
class Counted:
    """Sums of device reads and missed pages, which fade."""

    reads: float = 0.0
    misses: float = 0.0

    def fade(self, keep: float) -> None:
        """Let the sums fade to the share `keep`."""
        self.reads, self.misses = keep * self.reads, keep * self.misses

    def take(self, other: "Counted") -> None:
        """Add the sums of another one."""
        self.reads += other.reads
        self.misses += other.misses


@dataclass(slots=True)
class Ratio(Counted):
    """The sums of one policy, and by how much their ratio differs from time to time.

    Readahead serves scans with few reads and other accesses with many, so the ratio follows the mix
    of operations. `series` are the sums over blocks of `READS_MIN` reads or more, and `block` is
    the present one. `scatter` is the relative standard deviation of the ratio of `READS_MIN` reads,
    as last known; 0 if unknown.
    """

    series: Gain = field(default_factory=Gain)
    block: Counted = field(default_factory=Counted)
    scatter: float = 0.0

    def fade(self, keep: float) -> None:
        """Let the sums fade to the share `keep`."""
        Counted.fade(self, keep)
        self.series.fade(keep)

    def add(self, pages: Pages, keep: float) -> None:
        """Add an interval, after earlier sums have faded to the share `keep`."""
        now = Counted(pages.reads, pages.misses)
        self.fade(keep)
        self.take(now)
        self.block.take(now)
        if self.block.reads < READS_MIN:
            return
        self.series.take(self.block.reads, self.block.misses)
        self.block = Counted()
        if self.series.values >= BLOCKS_MIN:
            reads = self.series.total
            self.scatter = self.series.standard_error() / reads * sqrt(reads / READS_MIN)


@dataclass(slots=True)
class ReadsPerMiss(Ratio):
    """The ratio of the default while it is in force (this object), and of other policies.

    `others` is that of `policy`, the last in force that is not the default, and `earlier` are sums
    of policies before it. The default's ratio `is_old` if the workload changed since it was last in
    force. A read in progress at the end of an interval is counted in the next one. Ratios are
    therefore taken of sums and not of single intervals.
    """

    policy: str = ""
    others: Ratio = field(default_factory=Ratio)
    earlier: Counted = field(default_factory=Counted)
    is_old: bool = False

    def forget_all_but(self, policy: str) -> None:
        """Forget policies but the default and `policy`, which is in force: the workload changed.

        The default's ratio cannot be measured while another policy is in force. Without it that
        policy would count as no worse than the default, whatever it reads. With that of before it
        may count as better only because of the change, so until the default is in force again, that
        ratio only counts against it.
        """
        self.earlier = Counted()
        self.is_old = policy != DEFAULT
        if policy != self.policy:
            self.others = Ratio()

    def follow(self, policy: str, pages: Pages, elapsed_s: float, half_life_s: float) -> None:
        """Take in an interval under `policy` in which the page cache is full."""
        keep = 0.5 ** (elapsed_s / half_life_s)
        if policy == DEFAULT:
            if self.is_old:
                self.reads = self.misses = self.scatter = 0.0
                self.series, self.block, self.is_old = Gain(), Counted(), False
            self.add(pages, keep)
            keep = 0.5 ** (elapsed_s / FORGOTTEN_S)
            self.others.fade(keep)
        else:
            if policy != self.policy:
                self.earlier.take(self.others)
                self.policy, self.others = policy, Ratio()
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
        return self._against_default(self.others.reads, self.others.misses)

    def _against_default(self, reads: float, misses: float) -> float:
        """What a page counts for that is missed at such a ratio, of at most one read per page."""
        found = min(1.0, reads / misses) / self.of_default if misses > 0 else 1.0
        return max(1.0, found) if self.is_old else found

    @property
    def weight_of_others(self) -> float:
        """What a page counts for that a policy misses which was never in force.

        The ratio of the other policies is weighted against `READS_MIN` reads by the default's.
        """
        if not self._is_known:
            return 1.0
        reads = self.others.reads + self.earlier.reads + READS_MIN
        misses = self.others.misses + self.earlier.misses + READS_MIN / self.of_default
        return self._against_default(reads, misses)

    def weight_error(self, policy: str) -> float:
        """The relative standard error of weights while `policy` is in force; 0 if unknown.

        It is that of the default's ratio, and of the policy's own. While the policy's own does not
        show its scatter, that of the default counts.
        """
        if not self._is_known:
            return 0.0
        found = self.scatter / sqrt(self.reads / READS_MIN)
        if policy in (DEFAULT, ""):
            return found
        reads = self.others.reads if policy == self.policy else 0.0
        scatter = self.others.scatter or self.scatter
        return hypot(found, scatter / sqrt(max(1.0, reads / READS_MIN)))
