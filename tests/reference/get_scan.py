# SPDX-License-Identifier: Apache-2.0
"""GET-SCAN (Zussman et al.: cache_ext, SOSP 2025): two LFU lists, scans evicted first."""

from collections.abc import Sequence

MAX_SCAN_PAGES = 512


class Reference:
    """A list of pages that scans brought in, and one of all others."""

    def __init__(
        self,
        capacity_pages: int,
        batch: int,
        scan_tasks: Sequence[int] | int = (),
        pages_per_candidate: int = 16,
    ) -> None:
        self.capacity_pages = capacity_pages
        self.batch = min(batch, max(1, capacity_pages // 16))
        tasks = [scan_tasks] if isinstance(scan_tasks, int) else scan_tasks
        self.scan_tasks = set(tasks) - {0}
        self.pages_per_candidate = pages_per_candidate
        self.get: list[int] = []
        self.scan: list[int] = []
        self.accesses: dict[int, int] = {}

    def access(self, key: int, task: int = 0) -> bool:
        """Serve one request; True for a hit."""
        if key in self.accesses:
            self.accesses[key] += 1
            return True
        if len(self.accesses) >= self.capacity_pages:
            missing = self.batch - self._evict(self.scan, self.batch)
            self._evict(self.get, missing)
        (self.scan if task in self.scan_tasks else self.get).append(key)
        self.accesses[key] = 1
        return False

    def _evict(self, pages: list[int], missing: int) -> int:
        """Evict at most `missing` pages of one list and return how many they were."""
        wanted = max(missing, min(missing * self.pages_per_candidate, len(pages) // 4))
        scored = pages[: min(wanted, MAX_SCAN_PAGES)]
        victims = sorted(scored, key=lambda key: self.accesses[key])[:missing]
        pages[:] = pages[len(scored) :] + [key for key in scored if key not in victims]
        for key in victims:
            del self.accesses[key]
        return len(victims)
