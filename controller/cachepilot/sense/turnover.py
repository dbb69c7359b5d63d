# SPDX-License-Identifier: Apache-2.0
"""What is certain of a tenant whose curves cannot be trusted: the hits that it has.

Under a smaller limit it loses them at most, whatever the workload is. They are counted over the
last time in which a full page cache was read anew once, so that no page of an earlier workload is
left in it. With a greater limit it has the hits that it had there, if that was measured.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import Curves
from cachepilot.sense.counters import Pages
from cachepilot.sizes import PAGE_BYTES


@dataclass
class Turnover:
    """Accesses and misses since a page cache was last read anew, and of the time before that.

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
    def miss_ratio(self) -> float | None:
        """At the present limit; None while the page cache was not read anew since it was full.

        A time that takes as many accesses as the one before and is not over has more hits.
        """
        if self.last is None or self.last.accesses <= 0:
            return None
        found = self.last.misses / self.last.accesses
        if self.accesses >= self.last.accesses:
            found = min(found, self.misses / self.accesses)
        return found


def certain_curves(
    policy: str, limit_bytes: int, miss_ratio: float, known: Iterable[tuple[int, float]] = ()
) -> Curves:
    """The curve that promises nothing that was not measured.

    At a limit, of at least two pages, a tenant misses `miss_ratio`; `known` are what it missed at
    other limits. From each of them to the next greater one nothing is gained, and below the least
    nothing hits.
    """
    sizes, ratios, below = list[int](), list[float](), 1.0
    for size, told in sorted({**dict(known), limit_bytes: miss_ratio}.items()):
        # More memory misses no more: what was measured here, at the present time, decides.
        miss = (max if size <= limit_bytes else min)(told, miss_ratio)
        is_gain = miss < below
        if size < 2 * PAGE_BYTES or not (is_gain or size == limit_bytes):
            continue
        if not sizes or (is_gain and size - PAGE_BYTES > sizes[-1]):
            sizes.append(size - PAGE_BYTES)
            ratios.append(below)
        below = min(miss, below)
        sizes.append(size)
        ratios.append(below)
    return Curves((policy,), np.array(sizes), np.array([ratios]))
