# SPDX-License-Identifier: Apache-2.0
"""Application counters of one node's tenants: never those of the controller's own host.

Such a counter is read at other times than the agent's totals, and an application may publish it
only every few intervals. A counter that did not rise in an interval does not mean that the
application did nothing.
"""

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cachepilot.domain.objectives.indicator_url import NODE, at_node, host_of, is_loopback
from cachepilot.domain.objectives.objective import Indicator
from cachepilot.errors import InputError
from cachepilot.sense.counters import NAN, Sample, Totals, samples

LOOPBACK = "127.0.0.1"


class Scrape(NamedTuple):
    """A value of a counter, and the time when it was read, in seconds of a monotonic clock."""

    value: float
    time_s: float


Scraped = Callable[[Indicator], Scrape | None]
"""Returns the last value of an application's counter; None while it is unknown."""


class _Risen(NamedTuple):
    """The time at which a counter rose, and the agent's totals when the rise was seen."""

    time_s: float
    totals: Totals


class _Rise(NamedTuple):
    """One rise: the time since the rise before, and what totals rose by in it, operations too."""

    lasts_s: float
    changed: Totals

    @property
    def ops(self) -> float:
        """Operations per second."""
        return self.changed.ops / self.lasts_s


class ScrapedCounter:
    """The counter of one application. A rise counts operations since the counter last rose.

    Intervals without a rise in which the tenant accessed nothing are left out of that time. The
    first rise gives no rate, because it is unknown when its operations began.
    """

    def __init__(self) -> None:
        self._rise: _Rise | None = None
        self._rose = False
        self._last: Totals | None = None
        self._value: float | None = None
        self._risen: _Risen | None = None
        self.forget()

    def forget(self) -> None:
        """Start again: the next value cannot be compared with earlier ones."""
        self._rise = self._value = self._risen = None
        self._rose = False
        self._total = self._active_s = self._idle_s = 0.0

    @property
    def ops(self) -> float | None:
        """Operations/s since the previous rise; None unless it rose in the last interval."""
        return self._rise.ops if self._rose and self._rise is not None else None

    def sample(self, time_s: float, device_read_us: float | None) -> Sample | None:
        """The time since the previous rise as one interval; None if no page was accessed in it."""
        if not self._rose or self._rise is None:
            return None
        changed, is_known = np.array([self._rise.changed]), np.ones(1, dtype=np.bool_)
        return samples(changed, is_known, time_s, self._rise.lasts_s, device_read_us)[0]

    def take(self, found: Scrape | None, totals: Totals, elapsed_s: float) -> float:
        """Take in an interval; return the operations so far, or NaN while they are unknown.

        Until the counter rises again, the total grows at the rate of the last rise, for no longer
        than that rise took. Averages over intervals then do not depend on how often the counter is
        published.
        """
        last, self._last, self._rose = self._last, totals, False
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
        more, rise = 0.0, self._rise
        if rise is not None:
            more = rise.ops * min(self._active_s, rise.lasts_s)
        self._total = max(self._total, self._value + more)
        return self._total

    def _rises(self, found: Scrape, by: float, totals: Totals, elapsed_s: float) -> None:
        since, now = self._risen, _Risen(found.time_s, totals)
        if since is not None and now.time_s > since.time_s:
            passed_s = now.time_s - since.time_s
            changed = (to - of for to, of in zip(totals, since.totals, strict=True))
            done = Totals(*changed)._replace(ops=by)
            # The last interval counts in any case, because the counter rose in it. If the
            # application accesses no pages at all, accesses do not show when it was idle.
            idle_s = self._idle_s if done.accesses > 0 else 0.0
            lasts_s = min(passed_s, max(elapsed_s, passed_s - idle_s))
            self._rise, self._rose = _Rise(lasts_s, done), True
        self._value, self._risen = found.value, now
        self._active_s = self._idle_s = 0.0


def is_own(address: str) -> bool:
    """Whether a network address is one of this host, tested by binding to it."""
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
    """Looks up counters for the tenants of one node.

    The placeholder `{node}` in a URL stands for the address from which the node's agent connects.
    """

    def __init__(self, scraped: Scraped) -> None:
        self._scraped = scraped
        self._address, self._is_here = LOOPBACK, True

    def move(self, address: str) -> None:
        """Follow the agent: a session began from the network address `address`."""
        self._address, self._is_here = address, is_own(address)

    def __call__(self, indicator: Indicator) -> Scrape | None:
        """The last value, or None if unknown.

        Raises InputError for a URL of the controller's host if the node is another host.
        """
        if not self._is_here and is_loopback(host_of(indicator.url)):
            raise InputError(
                f"indicator: {indicator.url} is the controller's own host, and the node is at"
                f" {self._address} (allowed: {NODE} as the host, for the tenant's own node)"
            )
        return self._scraped(replace(indicator, url=at_node(indicator.url, self._address)))
