# SPDX-License-Identifier: Apache-2.0
"""SIEVE: Zhang et al., NSDI 2024, algorithm 1: one queue, and a hand that moves inside it."""


class Reference:
    """SIEVE with the queue from the oldest page (the paper's tail) to the newest (its head)."""

    def __init__(self, capacity_pages: int, batch: int) -> None:
        self.capacity_pages = capacity_pages
        self.batch = batch
        self.queue: list[int] = []
        self.visited: dict[int, bool] = {}
        self.hand: int | None = None  # the page at the hand; None: begin at the oldest page

    def access(self, key: int, task: int = 0) -> bool:
        if key in self.visited:
            self.visited[key] = True
            return True
        if len(self.queue) >= self.capacity_pages:
            for _ in range(self.batch):
                self._evict_one()
        self.queue.append(key)
        self.visited[key] = False
        return False

    def _evict_one(self) -> None:
        at = 0 if self.hand is None else self.queue.index(self.hand)
        while self.visited[self.queue[at]]:
            self.visited[self.queue[at]] = False
            at = (at + 1) % len(self.queue)
        del self.visited[self.queue.pop(at)]
        self.hand = self.queue[at] if at < len(self.queue) else None
