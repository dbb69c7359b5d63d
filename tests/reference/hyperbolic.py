# SPDX-License-Identifier: Apache-2.0
"""Hyperbolic caching (Blankstein, Sen, Freedman, USENIX ATC 2017) by batch scoring."""

from dataclasses import dataclass

MAX_SCAN_PAGES = 512


@dataclass
class Page:
    """The accesses since the page was added, and the clock at that time."""

    accesses: int
    added: int


class Reference:
    """One list; a request scores the pages at its head by accesses per pages added since."""

    def __init__(self, capacity_pages: int, batch: int, pages_per_candidate: int = 16) -> None:
        self.capacity_pages = capacity_pages
        self.batch = min(batch, max(1, capacity_pages // 16))
        self.pages_per_candidate = pages_per_candidate
        self.order: list[int] = []
        self.pages: dict[int, Page] = {}
        self.now = 0

    def access(self, key: int, task: int = 0) -> bool:
        """Serve one request; True for a hit."""
        if key in self.pages:
            self.pages[key].accesses += 1
            return True
        if len(self.order) >= self.capacity_pages:
            self._evict()
        self.now += 1
        self.order.append(key)
        self.pages[key] = Page(accesses=1, added=self.now)
        return False

    def _rate(self, key: int) -> int:
        """Accesses per time in fixed point: 30 fractional bits."""
        page = self.pages[key]
        return page.accesses * 2**30 // (self.now - page.added + 1)

    def _evict(self) -> None:
        share = len(self.order) // 4
        wanted = max(self.batch, min(self.batch * self.pages_per_candidate, share))
        scored = self.order[: min(wanted, MAX_SCAN_PAGES)]
        victims = sorted(scored, key=self._rate)[: self.batch]
        rest = self.order[len(scored) :]
        self.order = rest + [key for key in scored if key not in victims]
        for key in victims:
            del self.pages[key]
