# SPDX-License-Identifier: Apache-2.0
"""Types of the compiled extension: the Rust crate `models` seen from Python.

Arrays are numpy arrays handed over without a copy, in both directions. Long calls release the
interpreter lock, call `progress(share)` with 0 <= share <= 1 some ten times a second, and stop
with KeyboardInterrupt on Ctrl-C. Bad input raises `ModelsError` (a ValueError) with one line.
"""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import final

import numpy as np
from numpy.typing import NDArray

Progress = Callable[[float], None]
Tunables = Mapping[str, Mapping[str, int]]
Source = str | PathLike[str] | NDArray[np.uint64]
"""A trace file, or page keys that are read where they lie."""

class ModelsError(ValueError): ...

@final
class SimResult:
    """Outcome of one policy at one size over one trace.

    `batch` is what the policy was asked for: never more than a sixteenth of the cache.
    """

    policy: str
    size_pages: int
    batch: int
    requests: int
    misses: int
    evictions: int
    fallbacks: int
    rejected: int
    seconds: float
    bytes_per_page: float
    @property
    def miss_ratio(self) -> float: ...

@final
class PageCache:
    """A page cache whose policy and size may change while it runs; of one thread.

    A policy that is swapped in adopts every resident page, oldest first, as in the kernel.
    Raises ModelsError for a policy that does not exist or a size that is out of range.
    """

    def __init__(self, policy: str, size_pages: int, seed: int = 1) -> None: ...
    def run(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Serves requests, shape (N,); which of them hit."""
    def swap(self, policy: str) -> None: ...
    def resize(self, size_pages: int) -> None: ...
    def resident(self) -> NDArray[np.uint64]:
        """The keys of the pages held now."""

@final
class Curve:
    """Miss ratio as a function of cache size; the three arrays are equally long."""

    policy: str
    method: str
    rate: float
    requests: int
    sampled: int
    seconds: float
    @property
    def sizes_pages(self) -> NDArray[np.uint64]: ...
    @property
    def miss_ratio(self) -> NDArray[np.float64]: ...
    @property
    def stderr(self) -> NDArray[np.float64]: ...
    def error_bar(self) -> NDArray[np.float64]:
        """Half-width of the interval that holds the true miss ratio at 90% of points."""

@final
class ReadaheadResult:
    """What one readahead policy did, over the cache of one eviction policy.

    A miss is a page of a read that was not cached, which its reader waits for, and `waits` is how
    often one did: mostly once for all pages of a read. `disk_reads` are runs of pages that came
    from the disk in one piece. `ahead_pages` were read before they were
    asked for, and each of them was accessed since (`used_pages`), evicted without an access
    (`wasted_pages`), or is cached and waits (`pending_pages`). Those that the policy itself
    decided, and not the model of the kernel to which it left a decision, are `own_...`: the kernel
    counts these.
    """

    policy: str
    eviction: str
    size_pages: int
    reads: int
    writes: int
    misses: int
    waits: int
    disk_reads: int
    disk_pages: int
    ahead_pages: int
    used_pages: int
    wasted_pages: int
    pending_pages: int
    own_ahead_pages: int
    own_used_pages: int
    own_wasted_pages: int
    own_pending_pages: int
    asked: int
    declined: int
    seconds: float
    @property
    def miss_ratio(self) -> float:
        """Misses of all reads."""

@final
class ReadaheadCache:
    """A cache with a readahead policy and an eviction policy; of one thread.

    All files have `file_pages` pages, and `max_window_pages` is the device's readahead. Raises
    ModelsError for a policy that does not exist or a number that is out of range.
    """

    def __init__(
        self,
        policy: str,
        eviction: str,
        size_pages: int,
        file_pages: int,
        max_window_pages: int = 32,
        batch: int = 32,
        seed: int = 1,
        tunables: Mapping[str, int] | None = None,
    ) -> None: ...
    def read(
        self, indices: NDArray[np.uint64], file: int = 1, task: int = 0, pages: int = 1
    ) -> NDArray[np.bool_]:
        """Reads so many pages of a file at a time, from each index; which found all cached."""
    def result(self) -> ReadaheadResult:
        """What was counted so far."""

def version() -> str: ...
def policies_json() -> str:
    """The manifests of every policy folder, as a JSON array."""

def readahead_policies_json() -> str:
    """The manifests of every folder of a readahead policy, as a JSON array."""

def trace_info_json(path: str, column: str | None = None, progress: Progress | None = None) -> str:
    """JSON object: format, requests, distinct_pages, one_hit_ratio, and what the format knows."""

def trace_footprint(
    path: str, column: str | None = None, progress: Progress | None = None
) -> tuple[int, int]:
    """(requests, distinct pages) of a trace; memory of the distinct pages."""

def trace_head_json(path: str, count: int, column: str | None = None) -> str:
    """The first `count` requests as a JSON array of objects."""

def trace_keys(
    path: str, limit: int | None = None, column: str | None = None
) -> NDArray[np.uint64]:
    """The page keys of the first `limit` requests (all, when None) as one array."""

def trace_convert(
    source: str, target: str, column: str | None = None, progress: Progress | None = None
) -> int:
    """Writes `target` in the format of its suffix; returns the requests written."""

def record_dtype() -> np.dtype[np.void]:
    """The record of `docs/trace_format.md`, field by field."""

def write_records(path: str, records: NDArray[np.void]) -> int:
    """Writes a recording with all fields known, `.cptrace[.zst]`; returns its records.

    `records` is a contiguous array of `record_dtype()`.
    """

def read_records(path: str) -> NDArray[np.void]:
    """All records of a `.cptrace[.zst]` file, of `record_dtype()`: 48 bytes of memory each."""

def simulate(
    source: Source,
    policies: Sequence[str],
    sizes_pages: Sequence[int],
    batch: int = 32,
    seed: int = 1,
    tunables: Tunables | None = None,
    column: str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> list[SimResult]:
    """Every policy at every size in one pass over the trace; `threads` 0 means all cores.

    Results are in the order policies x sizes. The policy name `opt` is Belady's OPT.
    """

def simulate_keys(
    keys: NDArray[np.uint64],
    policy: str,
    size_pages: int,
    batch: int = 32,
    seed: int = 1,
    tasks: NDArray[np.uint32] | None = None,
    tunables: Mapping[str, int] | None = None,
) -> SimResult: ...
def simulate_hits(
    keys: NDArray[np.uint64],
    policy: str,
    size_pages: int,
    batch: int = 32,
    seed: int = 1,
    tasks: NDArray[np.uint32] | None = None,
    tunables: Mapping[str, int] | None = None,
    refused_per_million: int = 0,
) -> NDArray[np.bool_]:
    """Per request, whether it hit.

    So many in a million candidates are refused at random, as the kernel refuses pages that
    something else holds at that moment; it asks again for as many.
    """

def simulate_readahead(
    path: str,
    policies: Sequence[str],
    eviction: str,
    size_pages: int,
    max_window_pages: int = 32,
    batch: int = 32,
    seed: int = 1,
    tunables: Tunables | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> list[ReadaheadResult]:
    """Every readahead policy over a recording, each with a cache of its own.

    `path` is a `.cptrace[.zst]` file, which has files, pages and tasks; other traces are refused.
    Neighbouring pages that one task accessed at one time are one read.
    A file ends with its last page that is accessed.
    """

def mrc_exact(
    source: Source,
    sizes_pages: NDArray[np.uint64],
    policies: Sequence[str],
    batch: int = 32,
    seed: int = 1,
    column: str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> list[Curve]:
    """Stack distances for `lru`, next-use sets for `opt`, full simulation for the others."""

def mrc_shards(
    source: Source,
    sizes_pages: NDArray[np.uint64],
    rate: float | None = None,
    smax: int | None = None,
    half_life: float | None = None,
    column: str | None = None,
    progress: Progress | None = None,
) -> Curve:
    """SHARDS curve of LRU at a fixed rate or, with `smax`, a fixed sample size."""

def mrc_minisim(
    source: Source,
    sizes_pages: NDArray[np.uint64],
    policies: Sequence[str],
    rate: float | None = None,
    smax: int | None = None,
    half_life: float | None = None,
    seed: int = 1,
    column: str | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> list[Curve]:
    """Miniature simulation of every policy at every size, one pass over the trace."""

def stack_distances(keys: NDArray[np.uint64]) -> NDArray[np.uint32]:
    """Per access, the size of the smallest LRU cache that hits; 0 for a first access.

    O(log n) each; memory of the distinct pages and of the result.
    """

def size_grid(footprint_pages: int, points: int) -> NDArray[np.uint64]:
    """`points` sizes evenly spaced up to the footprint, each at least one page, strictly rising."""

def search_knapsack(
    weights: NDArray[np.int64],
    losses: NDArray[np.float64],
    ends: NDArray[np.int64],
    capacity: int,
    price: float,
    loss: float,
    resolution: float,
    states: int,
) -> NDArray[np.int64] | None:
    """The option of each class that together are worth most at a `price` of capacity.

    `weights` and `losses` have the options of one class after another, contiguous; class i ends
    before `ends[i]`. A loss is how much less than the best one an option is worth at that price. A
    partial choice is dropped when its losses exceed `loss`, when a lighter one is worth no less to
    within `resolution`, or when more than `states` are left, of which those with the least losses
    stay. None when no choice is left.
    """
