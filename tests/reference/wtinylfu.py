# SPDX-License-Identifier: Apache-2.0
"""W-TinyLFU written from Einziger, Friedman and Manes, ACM ToS 2017, all counts halved at once."""

from __future__ import annotations

from collections import OrderedDict

MASK_64 = (1 << 64) - 1
MAX_COUNT = 15
BLOCK_COUNTERS = 128
ROW_COUNTERS = 32
ROWS = 4
SAMPLE_ACCESSES = 8


def page_key(key: int) -> int:
    """Return the hash of a page that the simulated page cache gives to the policy."""
    x = key ^ 0x5851F42D4C957F2D
    x = (x ^ (x >> 33)) * 0xFF51AFD7ED558CCD & MASK_64
    x = (x ^ (x >> 33)) * 0xC4CEB9FE1A85EC53 & MASK_64
    return x ^ (x >> 33)


class Sketch:
    """Count-min sketch in which a page's counters lie in one block, one in each row."""

    def __init__(self, pages: int) -> None:
        blocks = 1
        while blocks * 8 < pages:
            blocks *= 2
        self.blocks = blocks
        self.counts = [0] * (blocks * BLOCK_COUNTERS)
        self.sample = pages * SAMPLE_ACCESSES
        self.accesses = 0

    def _counters(self, key: int) -> list[int]:
        hashed = page_key(key)
        block = (hashed >> 32) % self.blocks
        rows = []
        for row in range(ROWS):
            bits = hashed >> (5 * row) & 31
            column = (bits & 1) * 16 + (bits >> 1)
            rows.append(block * BLOCK_COUNTERS + row * ROW_COUNTERS + column)
        return rows

    def estimate(self, key: int) -> int:
        """Return an upper bound of the page's accesses."""
        return min(self.counts[counter] for counter in self._counters(key))

    def add(self, key: int) -> None:
        """Count an access. At the end of a sample, halve all counts."""
        for counter in self._counters(key):
            self.counts[counter] = min(self.counts[counter] + 1, MAX_COUNT)
        self.accesses += 1
        if self.accesses == self.sample:
            self.accesses = 0
            self.counts = [count // 2 for count in self.counts]


class Reference:
    """A cache of `capacity_pages` that frees `batch` pages when a miss finds it full."""

    def __init__(
        self,
        capacity_pages: int,
        batch: int,
        window_pct: int = 5,
        protected_pct: int = 80,
        sketch_pages: int = 262_144,
    ) -> None:
        self.capacity = capacity_pages
        self.batch = min(batch, max(1, capacity_pages // 16))
        self.window_target = max(1, capacity_pages * window_pct // 100)
        self.protected_target = (capacity_pages - self.window_target) * protected_pct // 100
        self.sketch = Sketch(min(capacity_pages, sketch_pages))
        self.window: OrderedDict[int, None] = OrderedDict()
        self.probation: OrderedDict[int, None] = OrderedDict()
        self.protected: OrderedDict[int, None] = OrderedDict()
        self.reclaimed = False

    def access(self, key: int, task: int = 0) -> bool:
        """Serves one request; true for a hit."""
        hit = True
        if key in self.window:
            self.window.move_to_end(key)
        elif key in self.probation or key in self.protected:
            self.probation.pop(key, None)
            self.protected.pop(key, None)
            self.protected[key] = None
        else:
            hit = False
            self._add(key)
        self.sketch.add(key)
        return hit

    def _add(self, key: int) -> None:
        if len(self.window) + len(self.probation) + len(self.protected) >= self.capacity:
            self._make_room()
        warming_up = not self.reclaimed and len(self.window) >= self.window_target
        (self.probation if warming_up else self.window)[key] = None

    def _make_room(self) -> None:
        self.reclaimed = True
        while len(self.protected) > self.protected_target:
            self.probation[self.protected.popitem(last=False)[0]] = None
        leaving = max(0, len(self.window) + self.batch - self.window_target)
        leaving = min(leaving, len(self.window), self.batch)
        candidates = [self.window.popitem(last=False)[0] for _ in range(leaving)]
        admitted = [key for key in candidates if self._admit(key)]
        for _ in range(self.batch - leaving):
            self._evict_main(admitted)
        for key in admitted:
            self.probation[key] = None

    def _admit(self, candidate: int) -> bool:
        """Return whether the candidate replaces the next victim. If so, the victim is evicted."""
        segment = self.probation or self.protected
        if not segment:
            return False
        victim = next(iter(segment))
        if self.sketch.estimate(candidate) <= self.sketch.estimate(victim):
            return False
        del segment[victim]
        return True

    def _evict_main(self, admitted: list[int]) -> None:
        if self.probation or self.protected:
            (self.probation or self.protected).popitem(last=False)
        elif admitted:
            admitted.pop(0)
        else:
            self.window.popitem(last=False)
