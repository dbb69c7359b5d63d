# SPDX-License-Identifier: Apache-2.0
"""CAR written from Bansal and Modha, FAST 2004, figure 2, for requests of several pages."""

from __future__ import annotations

from collections import OrderedDict

ONE_PAGE = 1 << 16  # p is kept in fractions of a page


class Reference:
    """A cache of `capacity_pages` that frees `batch` pages when a miss finds it full.

    The hand of a clock points at its first page.
    """

    def __init__(self, capacity_pages: int, batch: int) -> None:
        self.c = capacity_pages
        self.batch = min(batch, max(1, capacity_pages // 16))
        self.p = 0
        self.t1: OrderedDict[int, bool] = OrderedDict()
        self.t2: OrderedDict[int, bool] = OrderedDict()
        self.b1: OrderedDict[int, None] = OrderedDict()
        self.b2: OrderedDict[int, None] = OrderedDict()

    def access(self, key: int, task: int = 0) -> bool:
        """Serves one request; true for a hit."""
        for clock in (self.t1, self.t2):
            if key in clock:
                clock[key] = True
                return True
        was_in_b1 = key in self.b1
        was_in_b2 = key in self.b2
        self.b1.pop(key, None)
        self.b2.pop(key, None)
        if len(self.t1) + len(self.t2) >= self.c:
            self._make_room()
        if was_in_b1:
            self.p = min(self.p + self._delta(self.b1, self.b2), self.c * ONE_PAGE)
            self.t2[key] = False
        elif was_in_b2:
            self.p = max(self.p - self._delta(self.b2, self.b1), 0)
            self.t2[key] = False
        else:
            self.t1[key] = False
            self._bound_ghosts()
        return False

    @staticmethod
    def _delta(own: OrderedDict[int, None], other: OrderedDict[int, None]) -> int:
        # The page that was hit has just left its list and still counts.
        return max(ONE_PAGE, len(other) * ONE_PAGE // (len(own) + 1))

    def _make_room(self) -> None:
        left = self._pass_t1(self.batch, max(1, self.p // ONE_PAGE))
        left = self._pass_t2(left)
        left = self._pass_t1(left, 1)
        self._pass_t2(left)

    def _pass_t1(self, wanted: int, least: int) -> int:
        """Evicts while T1 has `least` pages; returns how many are still wanted."""
        while wanted and len(self.t1) >= least:
            key, referenced = self.t1.popitem(last=False)
            if referenced:
                self.t2[key] = False
            else:
                self._remember(key, self.b1)
                wanted -= 1
        return wanted

    def _pass_t2(self, wanted: int) -> int:
        while wanted and self.t2:
            key, referenced = self.t2.popitem(last=False)
            if referenced:
                self.t2[key] = False
            else:
                self._remember(key, self.b2)
                wanted -= 1
        return wanted

    def _remember(self, key: int, ghosts: OrderedDict[int, None]) -> None:
        ghosts[key] = None
        if len(ghosts) > self.c:
            ghosts.popitem(last=False)

    def _bound_ghosts(self) -> None:
        while self.b1 and len(self.t1) + len(self.b1) > self.c:
            self.b1.popitem(last=False)
        resident = len(self.t1) + len(self.t2)
        while self.b2 and resident + len(self.b1) + len(self.b2) > 2 * self.c:
            self.b2.popitem(last=False)
