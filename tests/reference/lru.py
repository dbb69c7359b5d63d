# SPDX-License-Identifier: Apache-2.0
"""LRU: Mattson et al., IBM Systems Journal 9(2), 1970, as a stack whose bottom page is evicted."""


class Reference:
    """LRU with pages in the order of their last access, oldest first."""

    def __init__(self, capacity_pages: int, batch: int) -> None:
        self.capacity_pages = capacity_pages
        self.batch = batch
        self.pages: list[int] = []

    def access(self, key: int, task: int = 0) -> bool:
        hit = key in self.pages
        if hit:
            self.pages.remove(key)
        elif len(self.pages) >= self.capacity_pages:
            del self.pages[: self.batch]
        self.pages.append(key)
        return hit
