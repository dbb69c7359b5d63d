# SPDX-License-Identifier: Apache-2.0
"""The collect step of one node: its snapshots, and the throughput models fitted to them."""

from cachepilot.domain.snapshot import Demand
from cachepilot.model.fitted_demand import FittedDemand
from cachepilot.sense.collect import Collector as Sensing
from cachepilot.sense.collect import not_scraped
from cachepilot.sense.counters import Sample, Window
from cachepilot.sense.node_scrape import Scraped

FITS_PER_CYCLE = 8


class FittedDemands:
    """Implements `cachepilot.sense.collect.Demands` by an online fit per tenant.

    An interval is taken in at once. `refit` fits it later, after the cycle.
    """

    def __init__(self) -> None:
        self._tenants: dict[str, FittedDemand] = {}
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
        """The demand as fitted so far; takes in the interval, which is fitted after the cycle."""
        known = self._tenants.get(cgroup)
        if known is None:
            known = self._tenants[cgroup] = FittedDemand()
        if sample is None or window is None:
            return known.demand
        if known.take(sample, window, miss_cost_us, concurrency, is_filling):
            self._to_fit.setdefault(cgroup)
        return known.demand

    def refit(self) -> None:
        """Fit a few tenants, those that have waited longest first."""
        left = FITS_PER_CYCLE
        while self._to_fit and left > 0:
            cgroup = next(iter(self._to_fit))
            del self._to_fit[cgroup]
            left -= self._tenants[cgroup].refit()


class Collector(Sensing):
    """Collects snapshots, with throughput models of tenants (demands) that are fitted online."""

    def __init__(
        self, node: str, scraped: Scraped = not_scraped, interval_s: float | None = None
    ) -> None:
        self._fitted = FittedDemands()
        super().__init__(node, self._fitted, scraped, interval_s)

    def refit(self) -> None:
        """Fit a few tenants, the longest waiting first. Call it after a cycle."""
        self._fitted.refit()
