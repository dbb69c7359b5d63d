# SPDX-License-Identifier: Apache-2.0
"""The traces that are replayed, and how much memory each may have."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from experiments.autopilot_simulated.tenants import name_of, pages_of
from numpy.typing import NDArray

from cachepilot import _models

PAGES_MIN = 256
"""A smaller page cache is none that anyone manages."""

Keys = NDArray[np.uint64]


@dataclass(frozen=True)
class Load:
    """A trace that is replayed over and over in a page cache of `size_pages`."""

    name: str
    keys: Keys
    size_pages: int

    def chunk(self, start: int, count: int) -> Keys:
        """Requests `start` to `start + count`."""
        return np.take(self.keys, np.arange(start, start + count), mode="wrap")

    def write(self, path: Path) -> None:
        """As a trace of page ids."""
        self.keys.astype("<u8").tofile(path)


def _of_seed(keys: Keys, seed: int) -> Keys:
    """The same trace from another start, of pages of other numbers, so that others are sampled."""
    random = np.random.default_rng(seed)
    start = int(random.integers(keys.size))
    offset = np.uint64(random.integers(1 << 40))
    return np.roll(keys, -start) + offset


def loads(traces: Sequence[Path], memory_share: float, seed: int) -> list[Load]:
    """Those traces of which that share of their distinct pages is a page cache."""
    found = []
    for trace in traces:
        size_pages = int(memory_share * pages_of(trace))
        if size_pages >= PAGES_MIN:
            keys = _models.trace_keys(str(trace))
            found.append(Load(name_of(trace), _of_seed(keys, seed), size_pages))
    return found
