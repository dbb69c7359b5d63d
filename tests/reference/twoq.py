# SPDX-License-Identifier: Apache-2.0
"""2Q, full version: Johnson, Shasha, VLDB 1994, section 3, in the paper's names."""


class Reference:
    """2Q; every list runs from the oldest page to the newest."""

    def __init__(self, capacity_pages: int, batch: int, incoming_pct: int = 25) -> None:
        self.capacity_pages = capacity_pages
        self.batch = batch
        self.kin = capacity_pages * incoming_pct // 100
        self.kout = max(1, capacity_pages * 50 // 100)
        self.a1in: list[int] = []
        self.a1out: list[int] = []
        self.am: list[int] = []

    def access(self, key: int, task: int = 0) -> bool:
        if key in self.am:
            self.am.remove(key)
            self.am.append(key)
            return True
        if key in self.a1in:
            return True
        known = key in self.a1out
        if known:
            self.a1out.remove(key)
        if len(self.a1in) + len(self.am) >= self.capacity_pages:
            for _ in range(self.batch):
                self._reclaim_for_one()
        (self.am if known else self.a1in).append(key)
        return False

    def _reclaim_for_one(self) -> None:
        if len(self.a1in) > self.kin or not self.am:
            self.a1out.append(self.a1in.pop(0))
            del self.a1out[: max(0, len(self.a1out) - self.kout)]
        else:
            self.am.pop(0)
