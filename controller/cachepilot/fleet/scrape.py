# SPDX-License-Identifier: Apache-2.0
"""Counters that applications export in Prometheus' text format, scraped once per interval."""

import asyncio
import logging
import math
import re
import time
from collections.abc import Callable, Iterable

import httpx
from prometheus_client.parser import text_string_to_metric_families

from cachepilot.domain.objectives.indicator_url import NODE
from cachepilot.domain.objectives.objective import Counter, Indicator, Objectives
from cachepilot.sense.node_scrape import Scrape

LOG = logging.getLogger(__name__)
TIMEOUT_S = 2.0
BODY_MAX = 4 << 20
URLS_MAX = 256
STALE_INTERVALS = 5
"""A counter counts as unknown after more than this many rounds without a value."""
_SERIES = re.compile(r"(?P<name>[^{\s]+)\s*(?:\{(?P<labels>.*)\})?\s*")
_LABEL = re.compile(r'\s*([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')


def series_value(body: str, metric: str) -> float | None:
    """Return the sum of the series of a metric that have the given labels, or None if none has.

    `metric` is a name, with labels as `name{label="x"}`. None is also returned for a name that is
    not of this form and for a sum that is not finite. Raises ValueError for a body that is not in
    the text format.
    """
    match = _SERIES.fullmatch(metric)
    if match is None:
        return None
    labels = dict(_LABEL.findall(match["labels"] or ""))
    try:
        found = [
            sample.value
            for family in text_string_to_metric_families(body)
            for sample in family.samples
            if sample.name == match["name"] and labels.items() <= sample.labels.items()
        ]
    except LookupError as error:
        # The parser reads beyond the end of some lines that are not in the format.
        raise ValueError(f"not in the text format: {error}") from None
    total = math.fsum(found)
    return total if found and math.isfinite(total) else None


class Scraper:
    """The last values of the counters that objectives name; call the instance to look one up.

    Some URLs contain a placeholder for the tenant's own node. Such a counter is scraped only while
    it is looked up, because only the node with the tenant knows the address to insert.
    """

    def __init__(self, objectives: Callable[[], Objectives], interval_s: float) -> None:
        self._objectives, self._interval_s = objectives, interval_s
        self._values: dict[Indicator, tuple[Scrape, int]] = {}
        self._asked: dict[Indicator, int] = {}
        self._round = 0
        self._left_out = 0
        self.failures_total = 0

    def __call__(self, indicator: Indicator) -> Scrape | None:
        """Return the last value, or None if no value arrived in the last STALE_INTERVALS rounds.

        Thread-safe.
        """
        self._asked[indicator] = self._round
        found = self._values.get(indicator)
        if found is None or self._round - found[1] > STALE_INTERVALS:
            return None
        return found[0]

    def _wanted(self) -> dict[str, set[Indicator]]:
        wanted: dict[str, set[Indicator]] = {}
        stated = {one.indicator for one in self._objectives().tenants}
        templates = {one.metric for one in stated if NODE in one.url}
        for indicator, asked in list(self._asked.items()):
            if self._round - asked > STALE_INTERVALS:
                self._asked.pop(indicator, None)
            elif indicator.metric in templates:
                stated.add(indicator)
        for indicator in sorted(stated, key=lambda one: (one.url, one.metric)):
            if indicator.counter is Counter.PROMETHEUS and NODE not in indicator.url:
                wanted.setdefault(indicator.url, set()).add(indicator)
        self._tell_left_out(max(0, len(wanted) - URLS_MAX))
        return dict(list(wanted.items())[:URLS_MAX])

    def _tell_left_out(self, urls: int) -> None:
        """Add URLs above the maximum to the failures; log their number when it changes."""
        self.failures_total += urls
        if urls != self._left_out:
            self._left_out = urls
            LOG.warning("%d URLs are not scraped (allowed: %d in all)", urls, URLS_MAX)

    async def run(self) -> None:
        """Scrape once per interval until cancelled."""
        # One connection per URL: a slow application must not delay the others.
        limits = httpx.Limits(max_connections=URLS_MAX)
        async with httpx.AsyncClient(timeout=TIMEOUT_S, limits=limits) as client:
            while True:
                await self.scrape(client)
                await asyncio.sleep(self._interval_s)

    async def scrape(self, client: httpx.AsyncClient) -> None:
        """Scrape all applications once, concurrently."""
        self._round += 1
        wanted = self._wanted()
        for gone in self._values.keys() - set().union(*wanted.values()):
            del self._values[gone]
        await asyncio.gather(*(self._one(client, *pair) for pair in wanted.items()))

    async def _one(
        self, client: httpx.AsyncClient, url: str, indicators: Iterable[Indicator]
    ) -> None:
        try:
            # The client's time-out applies to each single read, so a body that trickles would never
            # end.
            async with asyncio.timeout(TIMEOUT_S):
                body = await _body(client, url)
            time_s = time.monotonic()
            for indicator in indicators:
                value = series_value(body, indicator.metric)
                if value is not None:
                    self._values[indicator] = (Scrape(value, time_s), self._round)
        except TimeoutError:
            self._failed(url, f"no answer within {TIMEOUT_S:g} s")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            self._failed(url, str(error) or type(error).__name__)

    def _failed(self, url: str, reason: str) -> None:
        self.failures_total += 1
        LOG.warning("%s: cannot be scraped: %s", url, " ".join(reason.split()))


async def _body(client: httpx.AsyncClient, url: str) -> str:
    """Return the body behind `url`; raise ValueError if it has more than BODY_MAX bytes."""
    body = bytearray()
    async with client.stream("GET", url) as response:
        response.raise_for_status()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > BODY_MAX:
                raise ValueError(f"more than {BODY_MAX} bytes")
    return body.decode()
