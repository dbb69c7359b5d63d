# SPDX-License-Identifier: Apache-2.0
"""The recorded streams in a form that the virtual machine can play.

They have fewer pages, as page numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from experiments.autopilot_simulated.tenants import name_of
from experiments.kernel_guest import streams
from numpy.typing import NDArray

from cachepilot import _models

LIMIT_PAGES = 512
"""Limit of every tenant, 2 MiB. With a smaller limit, the cgroup's own overhead would be a large
part of it.
"""
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
        """Write the stream as a file for the player."""
        return streams.write(self.name, self.pages, folder)


def thinned(keys: Pages, pages_max: int) -> Pages:
    """Return all requests for `pages_max` random ones of the distinct pages, numbered from 0.

    Which pages are kept does not depend on how often they are requested, so a cache that is smaller
    by the same factor has about the same miss ratio (Waldspurger et al. 2015). Repeated requests
    for the same page are dropped: for the kernel, a read that continues where the last one of its
    descriptor ended is not an access.
    """
    _, numbers = np.unique(keys, return_inverse=True)
    many = int(numbers.max()) + 1
    ranks = np.random.default_rng(SEED).permutation(many)[numbers]
    kept = ranks[ranks < pages_max]
    # The last request is followed by the first one of the next pass.
    pages: Pages = kept[kept != np.roll(kept, 1)].astype(np.uint64)
    return pages


def load(traces: Sequence[Path], pages_max: int = PAGES_MAX) -> list[Stream]:
    """Return the traces as streams, in their order."""
    found = []
    for trace in traces:
        pages = thinned(_models.trace_keys(str(trace)), pages_max)
        found.append(Stream(name_of(trace), pages, int(pages.max()) + 1))
    return found
