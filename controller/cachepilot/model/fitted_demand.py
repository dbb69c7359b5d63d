# SPDX-License-Identifier: Apache-2.0
"""The throughput model of one tenant, and the intervals to which it is fitted."""

from dataclasses import dataclass

from cachepilot.domain.snapshot import Demand
from cachepilot.domain.units import US_PER_S
from cachepilot.model.fitting import Observation, OnlineFit, split_time
from cachepilot.sense.counters import Sample, Window

UNKNOWN_DEMAND = Demand(service_us=100.0, accesses_per_op=1.0)
"""The demand of a tenant that has done nothing yet."""
READS_MIN = 5.0
MISS_MIN = 0.02
"""Least device reads per second and least miss ratio to compare misses with device reads."""
FIT_EVERY, FIT_EACH_UNTIL = 4, 16
"""The first 16 intervals are each fitted, then every fourth: a demand hardly changes."""


@dataclass(slots=True)
class FittedDemand:
    """The demand of one tenant, kept between snapshots. It is `prior` until a fit begins.

    How much of the time of an operation is spent on waits for reads is fitted. How many reads it
    causes is measured: a fit that takes some of them for service would make the device of all
    tenants seem faster than it is. `pages` are the page accesses of an operation, and
    `reads_per_miss` of those that miss are reads.
    """

    fit: OnlineFit | None = None
    prior: Demand = UNKNOWN_DEMAND
    taken: int = 0
    reads_per_miss: float = 1.0
    pages: float | None = None

    @property
    def demand(self) -> Demand:
        """The demand as fitted so far."""
        one, reads = self.prior if self.fit is None else self.fit.demand, None
        if self.pages is not None:
            # A missed page is at most one read. Others are of direct I/O, swap or metadata, and
            # count as far as operations seem to wait for them.
            most = max(self.pages, one.accesses_per_op)
            reads = min(self.pages * self.reads_per_miss, most)
        return Demand(one.service_us, one.accesses_per_op, one.concurrency, one.error_pct, reads)

    def take(
        self,
        sample: Sample,
        window: Window,
        miss_cost_us: float,
        concurrency: float,
        is_filling: bool,
    ) -> bool:
        """Take in an interval; return whether `refit` is due.

        The fit begins once the page cache is full. Earlier misses are first accesses, which
        readahead serves, so each waits for a smaller part of a read than a later miss does.

        `miss_cost_us` is that of the device, used if the sample has no read time.
        """
        cost_us = sample.device_read_us or miss_cost_us
        accesses = self._waits_per_op(window) or self.prior.accesses_per_op
        time_us = US_PER_S * concurrency / sample.ops
        wait_us = sample.miss_ratio * cost_us
        self.prior = Demand(*split_time(time_us, accesses, wait_us), concurrency)
        if self.fit is None:
            if is_filling:
                return False
            self.fit = OnlineFit(self.prior)
        taken = self.fit.take(Observation(sample.ops, sample.miss_ratio, cost_us))
        self.taken += taken
        return taken and (self.taken < FIT_EACH_UNTIL or self.taken % FIT_EVERY == 0)

    def refit(self) -> bool:
        """Fit all intervals so far; return False if there is nothing to fit."""
        if self.fit is None:
            return False
        self.fit.refit(self.prior)
        return True

    def _waits_per_op(self, window: Window) -> float | None:
        """Accesses per operation, counted so that each one that misses waits for a device read.

        Readahead and large blocks bring several pages by one read. If enough is read, the device's
        reads show how many waits a miss causes; the ratio is kept for times in which less is read.
        None means that nothing is known.
        """
        self.pages = pages = window.accesses_per_op
        reads = window.block_reads
        if reads < READS_MIN or window.miss_ratio < MISS_MIN or window.ops <= 0:
            return None if pages is None else pages * self.reads_per_miss
        waits = reads / window.ops / window.miss_ratio
        if pages is not None:
            self.reads_per_miss = waits / pages
        return waits
