# SPDX-License-Identifier: Apache-2.0
"""The traces that are replayed, and the size of the page cache of each."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from experiments.autopilot_simulated.tenants import Keys, name_of, of_seed, pages_of, write

from cachepilot import _models

PAGES_MIN = 256
"""Smaller page caches are not worth managing."""


@dataclass(frozen=True)
class Load:
    """A trace that is replayed repeatedly in a page cache of `size_pages`.

    Its operations take `pace` times as long as those of `pinned`.
    """

    name: str
    keys: Keys
    size_pages: int
    pace: float = 1.0

    def chunk(self, start: int, count: int) -> Keys:
        """Return requests `start` to `start + count`. The trace repeats."""
        return np.take(self.keys, np.arange(start, start + count), mode="wrap")

    def write(self, path: Path) -> None:
        """Write the load as a trace of page ids."""
        write(self.keys, path)


def loads(traces: Sequence[Path], memory_share: float, seed: int) -> list[Load]:
    """Return the loads that get this share of their pages as page cache.

    Traces for which it is smaller than `PAGES_MIN` are left out.
    """
    found = []
    for trace in traces:
        size_pages = int(memory_share * pages_of(trace))
        if size_pages >= PAGES_MIN:
            keys = _models.trace_keys(str(trace))
            found.append(Load(name_of(trace), of_seed(keys, seed), size_pages))
    return found
