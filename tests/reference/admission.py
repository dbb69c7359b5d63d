# SPDX-License-Identifier: Apache-2.0
"""LRU behind an admission filter by task (Zussman et al.: cache_ext, SOSP 2025)."""

from collections.abc import Sequence


class Reference:
    """Pages in order of their last access; misses of filtered tasks change nothing."""

    def __init__(
        self, capacity_pages: int, batch: int, filtered_tasks: Sequence[int] | int = ()
    ) -> None:
        self.capacity_pages = capacity_pages
        self.batch = min(batch, max(1, capacity_pages // 16))
        tasks = [filtered_tasks] if isinstance(filtered_tasks, int) else filtered_tasks
        self.filtered_tasks = set(tasks) - {0}
        self.pages: list[int] = []

    def access(self, key: int, task: int = 0) -> bool:
        """Serve one request; True for a hit."""
        if key in self.pages:
            self.pages.remove(key)
            self.pages.append(key)
            return True
        if task in self.filtered_tasks:
            return False
        if len(self.pages) >= self.capacity_pages:
            del self.pages[: self.batch]
        self.pages.append(key)
        return False
