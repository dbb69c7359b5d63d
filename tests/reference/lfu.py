# SPDX-License-Identifier: Apache-2.0
"""LFU by batch scoring (Zussman et al.: cache_ext, SOSP 2025), written for clarity."""

MAX_SCAN_PAGES = 512


class Reference:
    """One list; a request scores the pages at its head and evicts those used least."""

    def __init__(self, capacity_pages: int, batch: int, pages_per_candidate: int = 16) -> None:
        self.capacity_pages = capacity_pages
        self.batch = min(batch, max(1, capacity_pages // 16))
        self.pages_per_candidate = pages_per_candidate
        self.pages: list[int] = []
        self.accesses: dict[int, int] = {}

    def access(self, key: int, task: int = 0) -> bool:
        """Serve one request; True for a hit."""
        if key in self.accesses:
            self.accesses[key] += 1
            return True
        if len(self.pages) >= self.capacity_pages:
            self._evict()
        self.pages.append(key)
        self.accesses[key] = 1
        return False

    def _evict(self) -> None:
        share = len(self.pages) // 4
        wanted = max(self.batch, min(self.batch * self.pages_per_candidate, share))
        scored = self.pages[: min(wanted, MAX_SCAN_PAGES)]
        # sorted() is stable: of pages with equal counts, those nearer to the head leave.
        victims = sorted(scored, key=lambda key: self.accesses[key])[: self.batch]
        rest = self.pages[len(scored) :]
        self.pages = rest + [key for key in scored if key not in victims]
        for key in victims:
            del self.accesses[key]
