# SPDX-License-Identifier: Apache-2.0
"""FIFO: a queue, evicted in the order of arrival."""


class Reference:
    """FIFO with pages in the order of arrival, oldest first."""

    def __init__(self, capacity_pages: int, batch: int) -> None:
        self.capacity_pages = capacity_pages
        self.batch = batch
        self.pages: list[int] = []

    def access(self, key: int, task: int = 0) -> bool:
        if key in self.pages:
            return True
        if len(self.pages) >= self.capacity_pages:
            del self.pages[: self.batch]
        self.pages.append(key)
        return False
