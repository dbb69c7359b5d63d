# SPDX-License-Identifier: Apache-2.0
"""LIRS written from Jiang and Zhang, SIGMETRICS 2002, with an explicit stack S."""

from __future__ import annotations

from collections import OrderedDict

GHOST_PCT = 95


class Reference:
    """A cache of `capacity_pages` that frees `batch` pages when a miss finds it full.

    Stack S is pruned, and LIR pages beyond their share become HIR, when room is made and not on
    a hit.
    """

    def __init__(self, capacity_pages: int, batch: int, queue_pct: int = 1) -> None:
        self.capacity = capacity_pages
        self.batch = min(batch, max(1, capacity_pages // 16))
        self.queue_target = max(1, capacity_pages * queue_pct // 100)
        self.ghost_capacity = max(1, capacity_pages * GHOST_PCT // 100)
        self.stack: OrderedDict[int, None] = OrderedDict()  # S, its bottom first
        self.lir: set[int] = set()
        self.queue: OrderedDict[int, None] = OrderedDict()  # Q: resident HIR pages
        self.ghosts: OrderedDict[int, None] = OrderedDict()  # evicted HIR pages that are still in S

    def access(self, key: int, task: int = 0) -> bool:
        """Serves one request; true for a hit."""
        if key in self.lir:
            self._push(key)
            return True
        if key in self.queue:
            del self.queue[key]
            (self._become_lir if key in self.stack else self._become_hir)(key)
            return True
        known = key in self.ghosts
        self.ghosts.pop(key, None)
        if len(self.lir) + len(self.queue) >= self.capacity:
            self._make_room()
        lir_has_room = len(self.lir) < self.capacity - self.queue_target
        if lir_has_room or (known and key in self.stack):
            self._become_lir(key)
        else:
            self._become_hir(key)
        return False

    def _push(self, key: int) -> None:
        self.stack[key] = None
        self.stack.move_to_end(key)

    def _become_lir(self, key: int) -> None:
        self._push(key)
        self.lir.add(key)

    def _become_hir(self, key: int) -> None:
        self._push(key)
        self.queue[key] = None

    def _make_room(self) -> None:
        self.queue_target = max(self.queue_target, self.batch)
        self._prune()
        while len(self.lir) > max(0, self.capacity - self.queue_target):
            bottom, _ = self.stack.popitem(last=False)
            self.lir.remove(bottom)
            self.queue[bottom] = None
            self._prune()
        for _ in range(self.batch):
            self._evict_one()

    def _prune(self) -> None:
        while self.stack and next(iter(self.stack)) not in self.lir:
            self.stack.popitem(last=False)

    def _evict_one(self) -> None:
        if not self.queue:
            oldest = next(key for key in self.stack if key in self.lir)
            self.lir.remove(oldest)
            del self.stack[oldest]
            return
        key, _ = self.queue.popitem(last=False)
        if key not in self.stack:
            return
        self.ghosts[key] = None
        if len(self.ghosts) > self.ghost_capacity:
            forgotten, _ = self.ghosts.popitem(last=False)
            self.stack.pop(forgotten, None)
