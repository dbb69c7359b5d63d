# SPDX-License-Identifier: Apache-2.0
"""The throughput models of the tenants of one node, fitted a few per cycle."""

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
FITS_PER_CYCLE = 8
FIT_EVERY, FIT_EACH_UNTIL = 4, 16
"""The first 16 intervals are each fitted, then every fourth: a demand hardly changes."""


@dataclass(slots=True)
class _Fitted:
    """The fit of one tenant, kept between snapshots."""

    fit: OnlineFit | None = None
    prior: Demand = UNKNOWN_DEMAND
    taken: int = 0
    reads_per_miss: float = 1.0

    def waits_per_op(self, window: Window) -> float | None:
        """Accesses per operation, counted so that each one that misses waits for a device read.

        Readahead and large blocks bring several pages by one read. If enough is read, the device's
        reads show how many waits a miss causes; the ratio is kept for times in which less is read.
        None means that nothing is known.
        """
        pages = window.accesses_per_op
        reads = window.block_reads
        if reads < READS_MIN or window.miss_ratio < MISS_MIN or window.ops <= 0:
            return None if pages is None else pages * self.reads_per_miss
        waits = reads / window.ops / window.miss_ratio
        if pages is not None:
            self.reads_per_miss = waits / pages
        return waits


class FittedDemands:
    """Implements `cachepilot.sense.collect.Demands` by an online fit per tenant.

    An interval is taken in at once. `refit` fits it later, after the cycle.
    """

    def __init__(self) -> None:
        self._tenants: dict[str, _Fitted] = {}
        self._to_fit: dict[str, None] = {}

    def forget(self, cgroup: str) -> None:
        """Forget a tenant that is gone or was replaced by another of the same name."""
        self._tenants.pop(cgroup, None)
        self._to_fit.pop(cgroup, None)

    def begin_anew(self, cgroup: str) -> None:
        """Restart the fit, as operations are counted differently; until then `prior` stays."""
        known = self._tenants.get(cgroup)
        if known is not None:
            known.fit = None

    def demand(
        self,
        cgroup: str,
        sample: Sample | None,
        window: Window | None,
        miss_cost_us: float,
        concurrency: float,
        is_filling: bool,
    ) -> Demand:
        """The demand as fitted so far; takes in the interval, which is fitted after the cycle.

        The fit begins once the page cache is full. Earlier misses are first accesses, which
        readahead serves, so each waits for a smaller part of a read than a later miss does.

        `miss_cost_us` is that of the device, used if the sample has no read time.
        """
        known = self._tenants.get(cgroup)
        if known is None:
            known = self._tenants[cgroup] = _Fitted()
        if sample is not None and window is not None:
            cost_us = sample.device_read_us or miss_cost_us
            accesses = known.waits_per_op(window) or known.prior.accesses_per_op
            time_us = US_PER_S * concurrency / sample.ops
            wait_us = sample.miss_ratio * cost_us
            known.prior = Demand(*split_time(time_us, accesses, wait_us), concurrency)
            if known.fit is None:
                if is_filling:
                    return known.prior
                known.fit = OnlineFit(known.prior)
            taken = known.fit.take(Observation(sample.ops, sample.miss_ratio, cost_us))
            known.taken += taken
            due = known.taken < FIT_EACH_UNTIL or known.taken % FIT_EVERY == 0
            if taken and due:
                self._to_fit.setdefault(cgroup)
        return known.prior if known.fit is None else known.fit.demand

    def refit(self, most: int = FITS_PER_CYCLE) -> None:
        """Fit up to `most` tenants, those that have waited longest first; called after a cycle."""
        while self._to_fit and most > 0:
            cgroup = next(iter(self._to_fit))
            del self._to_fit[cgroup]
            known = self._tenants[cgroup]
            if known.fit is not None:
                known.fit.refit(known.prior)
                most -= 1
