# SPDX-License-Identifier: Apache-2.0
"""Counters of applications of one node: its own, never those of the controller's host.

Such a counter is read at another time than the totals of the agent, and may be published only every
few intervals: that it did not rise in an interval does not say that nothing was done.
"""

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from cachepilot.domain.objectives.indicator_url import NODE, at_node, host_of, is_loopback
from cachepilot.domain.objectives.objective import Indicator
from cachepilot.errors import InputError
from cachepilot.sense.counters import NAN, Sample, Totals

LOOPBACK = "127.0.0.1"


class Scrape(NamedTuple):
    """A value of a counter, and when it was read: seconds of a clock that nobody sets."""

    value: float
    time_s: float


Scraped = Callable[[Indicator], Scrape | None]
"""The last value of an application's counter; None while it is not known."""


class _Risen(NamedTuple):
    """When a counter rose, and the totals of the agent when that was seen."""

    time_s: float
    totals: Totals


class _Rise(NamedTuple):
    """What was done in the time in which a counter rose; `totals` are those of that time."""

    lasts_s: float
    ops: float
    totals: Totals


class ScrapedCounter:
    """The counter of one application: what it rises by was done since it last rose.

    Intervals in which it did not rise and the tenant accessed nothing are left out of that time.
    Of the first rise nobody knows since when it was done.
    """

    def __init__(self) -> None:
        self._rise: _Rise | None = None
        self._last: Totals | None = None
        self._value: float | None = None
        self._risen: _Risen | None = None
        self.forget()

    def forget(self) -> None:
        """The next value cannot be compared with those before."""
        self._rise = self._value = self._risen = None
        self._total = self._rate = self._lasts_s = 0.0
        self._active_s = self._idle_s = 0.0

    @property
    def ops(self) -> float | None:
        """Operations per second since it rose before; None where it did not rise just now."""
        return None if self._rise is None else self._rise.ops

    def sample(self, time_s: float, device_read_us: float | None) -> Sample | None:
        """The time since it rose before, as one interval; None where nothing was accessed in it."""
        rise = self._rise
        if rise is None or rise.totals.accesses <= 0:
            return None
        done, miss_ratio = rise.totals, min(1.0, rise.totals.misses / rise.totals.accesses)
        found = Sample(
            time_s,
            rise.lasts_s,
            rise.ops,
            miss_ratio,
            int(done.accesses),
            None,
            device_read_us,
        )
        calls = done.read_calls
        if calls <= 0:
            return found
        return found._replace(read_us=done.read_time_us / calls, reads_per_call=done.misses / calls)

    def take(self, found: Scrape | None, totals: Totals, elapsed_s: float) -> float:
        """Takes an interval in: operations so far, NaN while they are not known.

        Until it rises again a counter is taken to go on as in its last rise, for as long as that
        lasted: an average over intervals does not depend on how often it is published.
        """
        last, self._last, self._rise = self._last, totals, None
        if last is None or any(now < then for now, then in zip(totals, last, strict=True)):
            self.forget()
        elif totals.accesses > last.accesses:
            self._active_s += elapsed_s
        else:
            self._idle_s += elapsed_s
        if found is None:
            return NAN
        if self._value is None or found.value < self._value:
            self.forget()
            self._value = self._total = found.value
        elif found.value > self._value:
            self._rises(found, found.value - self._value, totals, elapsed_s)
        goes_on_s = min(self._active_s, self._lasts_s)
        self._total = max(self._total, self._value + self._rate * goes_on_s)
        return self._total

    def _rises(self, found: Scrape, by: float, totals: Totals, elapsed_s: float) -> None:
        since, now = self._risen, _Risen(found.time_s, totals)
        if since is not None and now.time_s > since.time_s:
            passed_s = now.time_s - since.time_s
            done = Totals(*(to - of for to, of in zip(totals, since.totals, strict=True)))
            # It rose in the last interval, so that one counts at least. Of an application that
            # accesses no pages at all, accesses do not tell when it did something.
            idle_s = self._idle_s if done.accesses > 0 else 0.0
            lasts_s = min(passed_s, max(elapsed_s, passed_s - idle_s))
            self._rise = _Rise(lasts_s, by / lasts_s, done)
            self._rate, self._lasts_s = by / lasts_s, lasts_s
        self._value, self._risen = found.value, now
        self._active_s = self._idle_s = 0.0


def is_own(address: str) -> bool:
    """Whether an address of the network is one of this host: who has it can listen at it."""
    if is_loopback(address):
        return True
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as found:
            found.bind((address, 0))
    except OSError:
        return False
    return True


class NodeScrape:
    """Looks a counter up for the tenants of one node; None while it is not known.

    `address` is where its agent connects from: what `{node}` stands for in a URL.
    """

    def __init__(self, scraped: Scraped) -> None:
        self._scraped = scraped
        self._address, self._is_here = LOOPBACK, True

    def move(self, address: str) -> None:
        """A session began, from an address of the network."""
        self._address, self._is_here = address, is_own(address)

    def __call__(self, indicator: Indicator) -> Scrape | None:
        """The last value; InputError for a URL that is the controller's host and not the node."""
        if not self._is_here and is_loopback(host_of(indicator.url)):
            raise InputError(
                f"indicator: {indicator.url} is the controller's own host, and the node is at"
                f" {self._address} (allowed: {NODE} as the host, for the tenant's own node)"
            )
        return self._scraped(replace(indicator, url=at_node(indicator.url, self._address)))
