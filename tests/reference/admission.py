# SPDX-License-Identifier: Apache-2.0
"""An admission filter by task (Zussman et al.: cache_ext, SOSP 2025) before the kernel's LRU."""

from collections.abc import Sequence

from tests.reference import kernel_lru


class Reference(kernel_lru.Reference):
    """Misses of filtered tasks change nothing. All other requests go to the kernel's LRU."""

    def __init__(
        self, capacity_pages: int, batch: int, filtered_tasks: Sequence[int] | int = ()
    ) -> None:
        super().__init__(capacity_pages, batch)
        tasks = [filtered_tasks] if isinstance(filtered_tasks, int) else filtered_tasks
        self.filtered_tasks = set(tasks) - {0}

    def access(self, key: int, task: int = 0) -> bool:
        """Serve one request; True for a hit."""
        cached = key in self.inactive or key in self.active
        if not cached and task in self.filtered_tasks:
            return False
        return super().access(key, task)
