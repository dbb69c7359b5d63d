# SPDX-License-Identifier: Apache-2.0
"""What is certain of a tenant whose curves cannot be trusted: the hits that it has.

Under a smaller limit it loses them at most, whatever the workload is. They are counted over the
last time in which a full page cache was read again once, so that no page of an earlier workload is
left in it. What it had with its first memory is known as far as it was measured.
"""

from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import Curves
from cachepilot.sense.counters import Pages
from cachepilot.sizes import PAGE_BYTES

LEAST_S = 5.0
"""Of what was measured with the first memory: less says little of it."""


@dataclass
class Turnover:
    """Accesses and misses since a page cache was last read again, and of the time before that.

    They are of one policy. A limit may fall meanwhile, which adds no hits.
    """

    policy: str = ""
    limit_bytes: int = 0
    accesses: int = 0
    misses: int = 0
    last: Pages | None = None

    def take(self, policy: str, limit_bytes: int, pages: Pages | None, is_full: bool) -> None:
        """Takes an interval in, whose `pages` are None where they are not known."""
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
        """Of a page cache that is read again once; None while it was not since it was full.

        Those of a time that is not over count as well.
        """
        if self.last is None:
            return None
        return max(one.accesses - one.misses for one in (self.last, self))

    @property
    def miss_ratio(self) -> float | None:
        """At the present limit; None while the page cache was not read again since it was full.

        A time that takes as many accesses as the one before and is not over has more hits.
        """
        if self.last is None or self.last.accesses <= 0:
            return None
        found = self.last.misses / self.last.accesses
        if self.accesses >= self.last.accesses:
            found = min(found, self.misses / self.accesses)
        return found


@dataclass
class AtFirst:
    """Accesses and misses with the first memory, under one policy and in one regime; they fade."""

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
        """Takes an interval in; `pages` are None where they are not those of the first memory.

        `anew` is the miss ratio since the page cache was read again, where it was: it counts alone.
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
        """None while it is not known."""
        is_known = self.seconds >= LEAST_S and self.accesses > 0
        return self.misses / self.accesses if is_known else None


def certain_curves(policy: str, limit_bytes: int, miss_ratio: float) -> Curves:
    """The curve that predicts no gain above a limit, of at least two pages, and no hit below it."""
    sizes = np.array([limit_bytes - PAGE_BYTES, limit_bytes])
    return Curves((policy,), sizes, np.array([[1.0, miss_ratio]]))
