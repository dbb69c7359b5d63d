# SPDX-License-Identifier: Apache-2.0
"""The collect step of one node: its snapshots, and the throughput models fitted to them."""

from cachepilot.model.demands import FITS_PER_CYCLE, FittedDemands
from cachepilot.sense.collect import Collector as Sensing
from cachepilot.sense.collect import not_scraped
from cachepilot.sense.node_scrape import Scraped


class Collector(Sensing):
    """Collects snapshots, with throughput models of tenants (demands) that are fitted online."""

    def __init__(
        self, node: str, scraped: Scraped = not_scraped, interval_s: float | None = None
    ) -> None:
        self._fitted = FittedDemands()
        super().__init__(node, self._fitted, scraped, interval_s)

    def refit(self, most: int = FITS_PER_CYCLE) -> None:
        """Fit up to `most` tenants, the longest waiting first. Call it after a cycle."""
        self._fitted.refit(most)
