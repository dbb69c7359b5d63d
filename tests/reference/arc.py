# SPDX-License-Identifier: Apache-2.0
"""ARC written from Megiddo and Modha, FAST 2003, figure 4, with room made before the rest."""

from __future__ import annotations

from collections import OrderedDict

ONE_PAGE = 1 << 16  # p is kept in fractions of a page


class Reference:
    """A cache of `capacity_pages` that frees `batch` pages when a miss finds it full."""

    def __init__(self, capacity_pages: int, batch: int) -> None:
        self.c = capacity_pages
        self.batch = min(batch, max(1, capacity_pages // 16))
        self.p = 0
        self.t1: OrderedDict[int, None] = OrderedDict()
        self.t2: OrderedDict[int, None] = OrderedDict()
        self.b1: OrderedDict[int, None] = OrderedDict()
        self.b2: OrderedDict[int, None] = OrderedDict()

    def access(self, key: int, task: int = 0) -> bool:
        """Serves one request; true for a hit."""
        for resident in (self.t1, self.t2):
            if key in resident:
                del resident[key]
                self.t2[key] = None
                return True
        was_in_b1 = key in self.b1
        was_in_b2 = key in self.b2
        self.b1.pop(key, None)
        self.b2.pop(key, None)
        if len(self.t1) + len(self.t2) >= self.c:
            for _ in range(self.batch):
                self._replace()
        if was_in_b1:
            self.p = min(self.p + self._delta(self.b1, self.b2), self.c * ONE_PAGE)
            self.t2[key] = None
        elif was_in_b2:
            self.p = max(self.p - self._delta(self.b2, self.b1), 0)
            self.t2[key] = None
        else:
            self.t1[key] = None
            self._bound_ghosts()
        return False

    @staticmethod
    def _delta(own: OrderedDict[int, None], other: OrderedDict[int, None]) -> int:
        # The page that was hit has just left its list and still counts.
        return max(ONE_PAGE, len(other) * ONE_PAGE // (len(own) + 1))

    def _replace(self) -> None:
        if self.t1 and (len(self.t1) * ONE_PAGE > self.p or not self.t2):
            self._demote(self.t1, self.b1)
        else:
            self._demote(self.t2, self.b2)

    def _demote(self, resident: OrderedDict[int, None], ghosts: OrderedDict[int, None]) -> None:
        key, _ = resident.popitem(last=False)
        ghosts[key] = None
        if len(ghosts) > self.c:
            ghosts.popitem(last=False)

    def _bound_ghosts(self) -> None:
        while self.b1 and len(self.t1) + len(self.b1) > self.c:
            self.b1.popitem(last=False)
        resident = len(self.t1) + len(self.t2)
        while self.b2 and resident + len(self.b1) + len(self.b2) > 2 * self.c:
            self.b2.popitem(last=False)
