# SPDX-License-Identifier: Apache-2.0
"""Naive active/inactive LRU of Linux 6.12 (mm/vmscan.c, mm/swap.c, mm/workingset.c).

It serves buffered reads of clean file pages, with the simplifications that
bpf/policies/kernel_lru/README.md lists.
"""

import math

DEF_PRIORITY = 12
SWAP_CLUSTER_MAX = 32
GIGABYTE_PAGES = 1 << 18
AGE_STEPS = 1 << 13
AGE_RANGE = 1 << 16


class Reference:
    """The lists hold keys, oldest first."""

    def __init__(
        self,
        capacity_pages: int,
        batch: int,
        gigabyte_pages: int = GIGABYTE_PAGES,
        stats_interval: int = 0,
    ) -> None:
        self.capacity = capacity_pages
        self.batch = min(batch, max(capacity_pages // 16, 1))
        self.gigabyte_pages = gigabyte_pages
        self.stats_interval = stats_interval
        self.inactive: list[int] = []
        self.active: list[int] = []
        self.referenced: set[int] = set()
        self.shadows: dict[int, int] = {}  # key: non-resident age at eviction
        self.age_pages = 0
        self.credit = 0
        self.refaults = 0
        self.snapshot = 0
        self.accesses = 0
        self.seen_at = 0
        self.seen = (0, 0, 0)  # inactive and active pages, refaults

    def access(self, key: int, task: int = 0) -> bool:
        """Serve one request. Return whether it is a hit."""
        hit = key in self.inactive or key in self.active
        if not hit:
            self._miss(key)
        self.accesses += 1
        if key not in self.referenced:
            self.referenced.add(key)
        elif key in self.inactive:
            self.inactive.remove(key)
            self.active.append(key)
            self.referenced.remove(key)
            self.age_pages += 1
        return hit

    def _miss(self, key: int) -> None:
        shadow = self.shadows.pop(key, None)
        if len(self.inactive) + len(self.active) >= self.capacity:
            for victim in self._evict_folios():
                self._remove(victim)
        if shadow is not None and self._is_near(shadow):
            self.active.append(key)
            self.refaults += 1
            self.age_pages += 1
        else:
            self.inactive.append(key)

    def _remove(self, key: int) -> None:
        self.inactive.remove(key)
        self.referenced.discard(key)
        self.shadows[key] = self._age()
        self.age_pages += 1
        if len(self.shadows) > self.capacity:
            del self.shadows[next(iter(self.shadows))]

    def _age(self) -> int:
        return self.age_pages // max(self.capacity // AGE_STEPS, 1) % AGE_RANGE

    def _is_near(self, shadow: int) -> bool:
        steps = (self._age() - shadow) % AGE_RANGE
        return steps * max(self.capacity // AGE_STEPS, 1) <= self._statistics()[1]

    def _statistics(self) -> tuple[int, int, int]:
        if self.accesses - self.seen_at >= self.stats_interval:
            self.seen_at = self.accesses
            self.seen = (len(self.inactive), len(self.active), self.refaults)
        return self.seen

    def _inactive_is_low(self) -> bool:
        inactive, active, _ = self.seen
        gigabytes = (inactive + active) // self.gigabyte_pages
        return inactive * max(math.isqrt(10 * gigabytes), 1) < active

    def _evict_folios(self) -> list[int]:
        refaults = self._statistics()[2]
        if refaults != self.snapshot or self._inactive_is_low():
            self._deactivate(self._active_scan())
        if not self.inactive:
            self._deactivate(self.batch)
        self.snapshot = refaults
        return self.inactive[: self.batch]

    def _deactivate(self, pages: int) -> None:
        self.inactive += self.active[:pages]
        del self.active[:pages]

    def _active_scan(self) -> int:
        """Return the number of active pages scanned per batch.

        As in the kernel, the scanned shares of both lists double until 32 pages are
        reclaimed.
        """
        inactive = len(self.inactive) * GIGABYTE_PAGES // self.gigabyte_pages
        active = len(self.active) * GIGABYTE_PAGES // self.gigabyte_pages
        inactive_scanned = active_scanned = 0
        for priority in range(DEF_PRIORITY, -1, -1):
            if inactive_scanned >= SWAP_CLUSTER_MAX:
                break
            share, active_share = inactive >> priority, active >> priority
            enough = share >= SWAP_CLUSTER_MAX
            inactive_scanned += SWAP_CLUSTER_MAX if enough else share
            active_scanned += min(active_share, SWAP_CLUSTER_MAX) if enough else active_share
            if enough:
                break
        if not inactive_scanned:
            return self.batch
        self.credit += (self.batch * active_scanned << 10) // inactive_scanned
        pages = self.credit >> 10
        self.credit -= pages << 10
        return pages
