# SPDX-License-Identifier: Apache-2.0
"""MRU: Chou, DeWitt, VLDB 1985: the most recently accessed resident page is evicted."""


class Reference:
    """MRU with pages in the order of their last access, oldest first."""

    def __init__(self, capacity_pages: int, batch: int, spared_pages: int = 0) -> None:
        self.capacity_pages = capacity_pages
        self.batch = batch
        self.spared_pages = spared_pages
        self.pages: list[int] = []

    def access(self, key: int, task: int = 0) -> bool:
        hit = key in self.pages
        if hit:
            self.pages.remove(key)
        elif len(self.pages) >= self.capacity_pages:
            self._evict()
        self.pages.append(key)
        return hit

    def _evict(self) -> None:
        spared = min(self.spared_pages, len(self.pages) // 2)
        end = len(self.pages) - spared
        del self.pages[max(0, end - self.batch) : end]
