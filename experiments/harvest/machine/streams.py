# SPDX-License-Identifier: Apache-2.0
"""The recorded streams as the virtual machine can play them: of fewer pages, as page numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from experiments.autopilot_simulated.tenants import name_of
from experiments.kernel_guest import streams
from numpy.typing import NDArray

from cachepilot import _models

LIMIT_PAGES = 512
"""What every tenant may hold, 2 MiB: of less, what a cgroup needs itself is a large part."""
PAGES_MAX = 5 * LIMIT_PAGES
SEED = 1

Pages = NDArray[np.uint64]


@dataclass(frozen=True)
class Stream:
    """Page numbers from 0 to `file_pages` - 1, in the order in which they were recorded."""

    name: str
    pages: Pages
    file_pages: int

    def write(self, folder: Path) -> Path:
        """As a file for the player."""
        return streams.write(self.name, self.pages, folder)


def thinned(keys: Pages, pages_max: int) -> Pages:
    """All requests for `pages_max` of the distinct pages, chosen at random; numbered from 0.

    Which pages are kept does not depend on how often they are requested, so the miss ratio of a
    cache that is smaller by the same factor is about what it was (Waldspurger et al. 2015). A
    request for the page of the one before it is left out: to the kernel, a read that goes on where
    the last one of its descriptor ended is no access.
    """
    _, numbers = np.unique(keys, return_inverse=True)
    many = int(numbers.max()) + 1
    ranks = np.random.default_rng(SEED).permutation(many)[numbers]
    kept = ranks[ranks < pages_max]
    # The last request is followed by the first one of the next pass.
    pages: Pages = kept[kept != np.roll(kept, 1)].astype(np.uint64)
    return pages


def load(traces: Sequence[Path], pages_max: int = PAGES_MAX) -> list[Stream]:
    """The traces as streams, in their order."""
    found = []
    for trace in traces:
        pages = thinned(_models.trace_keys(str(trace)), pages_max)
        found.append(Stream(name_of(trace), pages, int(pages.max()) + 1))
    return found
