# SPDX-License-Identifier: Apache-2.0
"""CLOCK: Corbató, MAC-M-384, 1968, with counts above one as in Smith's GCLOCK, TODS 3(3), 1978."""


class Reference:
    """CLOCK with the face unrolled: the hand points at the first page of the list."""

    def __init__(self, capacity_pages: int, batch: int, max_references: int = 1) -> None:
        self.capacity_pages = capacity_pages
        self.batch = batch
        self.max_references = max_references
        self.pages: list[int] = []
        self.references: dict[int, int] = {}

    def access(self, key: int, task: int = 0) -> bool:
        if key in self.references:
            self.references[key] = min(self.references[key] + 1, self.max_references)
            return True
        if len(self.pages) >= self.capacity_pages:
            for _ in range(self.batch):
                self._evict_one()
        self.pages.append(key)
        self.references[key] = 0
        return False

    def _evict_one(self) -> None:
        while True:
            page = self.pages.pop(0)
            if self.references[page] == 0:
                del self.references[page]
                return
            self.references[page] -= 1
            self.pages.append(page)
