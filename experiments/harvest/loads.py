# SPDX-License-Identifier: Apache-2.0
"""The traces that are replayed, and how much memory each may have."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from experiments.autopilot_simulated.tenants import Keys, name_of, of_seed, pages_of, write

from cachepilot import _models

PAGES_MIN = 256
"""A smaller page cache is none that anyone manages."""


@dataclass(frozen=True)
class Load:
    """A trace that is replayed over and over in a page cache of `size_pages`.

    Its operations take `pace` times as long as those of `pinned`.
    """

    name: str
    keys: Keys
    size_pages: int
    pace: float = 1.0

    def chunk(self, start: int, count: int) -> Keys:
        """Requests `start` to `start + count`."""
        return np.take(self.keys, np.arange(start, start + count), mode="wrap")

    def write(self, path: Path) -> None:
        """As a trace of page ids."""
        write(self.keys, path)


def loads(traces: Sequence[Path], memory_share: float, seed: int) -> list[Load]:
    """Those traces of which that share of their distinct pages is a page cache."""
    found = []
    for trace in traces:
        size_pages = int(memory_share * pages_of(trace))
        if size_pages >= PAGES_MIN:
            keys = _models.trace_keys(str(trace))
            found.append(Load(name_of(trace), of_seed(keys, seed), size_pages))
    return found
