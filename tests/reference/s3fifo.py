# SPDX-License-Identifier: Apache-2.0
"""S3-FIFO written from Yang et al., SOSP 2023, algorithm 1, one candidate at a time."""

from __future__ import annotations

from collections import OrderedDict

MAX_ACCESSES = 3
GHOST_PCT = 90


class Reference:
    """A cache of `capacity_pages` that frees `batch` pages when a miss finds it full."""

    def __init__(
        self, capacity_pages: int, batch: int, small_pct: int = 10, promote_accesses: int = 2
    ) -> None:
        self.capacity = capacity_pages
        self.batch = min(batch, max(1, capacity_pages // 16))
        self.small_target = max(1, capacity_pages * small_pct // 100)
        self.promote_accesses = promote_accesses
        self.ghost_capacity = max(1, capacity_pages * GHOST_PCT // 100)
        self.small: OrderedDict[int, int] = OrderedDict()
        self.main: OrderedDict[int, int] = OrderedDict()
        self.ghost: OrderedDict[int, None] = OrderedDict()
        self.reclaimed = False

    def access(self, key: int, task: int = 0) -> bool:
        """Serves one request; true for a hit."""
        for queue in (self.small, self.main):
            if key in queue:
                queue[key] = min(queue[key] + 1, MAX_ACCESSES)
                return True
        known = key in self.ghost
        self.ghost.pop(key, None)
        if len(self.small) + len(self.main) >= self.capacity:
            self.reclaimed = True
            for _ in range(self.batch):
                self._evict_one()
        warming_up = not self.reclaimed and len(self.small) >= self.small_target
        (self.main if known or warming_up else self.small)[key] = 0
        return False

    def _evict_one(self) -> None:
        if len(self.small) >= self.small_target and self._evict_from_small():
            return
        if self.main:
            self._evict_from_main()
        else:
            self._evict_from_small()

    def _evict_from_small(self) -> bool:
        while self.small:
            key, accesses = self.small.popitem(last=False)
            if accesses < self.promote_accesses:
                self.ghost[key] = None
                if len(self.ghost) > self.ghost_capacity:
                    self.ghost.popitem(last=False)
                return True
            self.main[key] = 0
        return False

    def _evict_from_main(self) -> None:
        while True:
            key, accesses = self.main.popitem(last=False)
            if not accesses:
                return
            self.main[key] = accesses - 1
