# SPDX-License-Identifier: Apache-2.0
"""Naive reference implementations, one module per policy folder, written from the papers.

A module defines a class `Reference` that satisfies `ReferencePolicy`. It favours the words of the
paper over speed, keeps the order of events of the page cache (room is made before the page is
added) and the deviations that the policy's README lists.
"""

from collections.abc import Sequence
from typing import Protocol


class ReferencePolicy(Protocol):
    """A cache of `capacity_pages` that frees `batch` pages when a miss finds it full.

    `batch` is what one eviction request asks for, already limited to what the simulator allows at
    this capacity. Tunables that are not given have the defaults of the policy's manifest; an array
    is given whole, as a sequence.
    """

    def __init__(
        self, capacity_pages: int, batch: int, **tunables: int | Sequence[int]
    ) -> None: ...

    def access(self, key: int, task: int = 0) -> bool:
        """Serve one request of a thread. Return whether it is a hit."""
        ...
