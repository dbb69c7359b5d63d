# SPDX-License-Identifier: Apache-2.0
"""What is certain of a tenant whose curves have low confidence: the hits that it has.

With a smaller limit it loses these hits at most, whatever the workload is. They are counted over
the last time in which a full page cache was read again once, so that no page of an earlier workload
is left in it. What the tenant had with its first memory (the limit it had when it was first seen)
is known if it was measured.
"""

from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import Curves
from cachepilot.sense.counters import Pages
from cachepilot.sizes import PAGE_BYTES

LEAST_S = 5.0
"""Least seconds of measurement with the first memory; less says little."""


@dataclass
class Turnover:
    """Accesses and misses since the page cache was last read again; `last` is the time before that.

    A page cache has been read again once the misses amount to its size. All counts are under one
    policy. The limit may fall meanwhile, because that adds no hits.
    """

    policy: str = ""
    limit_bytes: int = 0
    accesses: int = 0
    misses: int = 0
    last: Pages | None = None

    def take(self, policy: str, limit_bytes: int, pages: Pages | None, is_full: bool) -> None:
        """Take in an interval; `pages` is None if accesses and misses are unknown."""
        rose = limit_bytes >= self.limit_bytes + PAGE_BYTES
        if policy != self.policy or rose or not is_full or pages is None:
            self.accesses, self.misses, self.last = 0, 0, None
        elif self.misses * PAGE_BYTES >= limit_bytes:
            self.accesses, self.misses, self.last = 0, 0, Pages(self.accesses, self.misses)
        self.policy, self.limit_bytes = policy, limit_bytes
        if is_full and pages is not None:
            self.accesses += pages.accesses
            self.misses += min(pages.misses, pages.accesses)

    @property
    def hits(self) -> int | None:
        """Hits while the page cache is read again once; None if it was not since it was full.

        The hits of the present, unfinished time count if they are more.
        """
        if self.last is None:
            return None
        return max(one.accesses - one.misses for one in (self.last, self))

    @property
    def miss_ratio(self) -> float | None:
        """The miss ratio at the present limit; None if the page cache was not read again yet.

        If the present time already has as many accesses as the last one, it has more hits, and its
        miss ratio counts.
        """
        if self.last is None or self.last.accesses <= 0:
            return None
        found = self.last.misses / self.last.accesses
        if self.accesses >= self.last.accesses:
            found = min(found, self.misses / self.accesses)
        return found


@dataclass
class AtFirst:
    """Accesses and misses with the first memory, under one policy in one regime; they fade."""

    policy: str = ""
    regime: int = 0
    accesses: float = 0.0
    misses: float = 0.0
    seconds: float = 0.0

    def take(
        self,
        policy: str,
        regime: int,
        pages: Pages | None,
        anew: float | None,
        elapsed_s: float,
        half_life_s: float,
    ) -> None:
        """Take in an interval; `pages` is None if it was not at the first memory.

        `anew` is the miss ratio while the page cache was read again once. If it is known, it
        replaces the measured misses.
        """
        if (policy, regime) != (self.policy, self.regime):
            self.policy, self.regime = policy, regime
            self.accesses = self.misses = self.seconds = 0.0
        if pages is None:
            return
        keep = 0.5 ** (elapsed_s / half_life_s)
        self.accesses = keep * self.accesses + pages.accesses
        self.misses = keep * self.misses + min(pages.misses, pages.accesses)
        self.seconds = keep * self.seconds + elapsed_s
        if anew is not None:
            self.misses = anew * self.accesses

    @property
    def miss_ratio(self) -> float | None:
        """The miss ratio with the first memory; None while it is unknown."""
        is_known = self.seconds >= LEAST_S and self.accesses > 0
        return self.misses / self.accesses if is_known else None


def certain_curves(policy: str, limit_bytes: int, miss_ratio: float) -> Curves:
    """A curve with no gain above the limit and no hits below it; the limit is two pages or more."""
    sizes = np.array([limit_bytes - PAGE_BYTES, limit_bytes])
    return Curves((policy,), sizes, np.array([[1.0, miss_ratio]]))
