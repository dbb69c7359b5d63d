# SPDX-License-Identifier: Apache-2.0
"""Types of the compiled extension: the Rust crate `models` seen from Python.

Arrays that come back are not copied. Those given are copied piece by piece while a call runs: one
that is written meanwhile is read as it is at that moment. Long calls release the interpreter lock,
call `progress(share)` with 0 <= share <= 1 some ten times a second, and stop
with KeyboardInterrupt on Ctrl-C. Bad input raises `ModelsError` (a ValueError) with one line.
"""

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import final

import numpy as np
from numpy.typing import NDArray

Progress = Callable[[float], None]
Tunables = Mapping[str, Mapping[str, int]]
Floats = NDArray[np.float64]
Pair = tuple[float, float]
Source = str | PathLike[str] | NDArray[np.uint64]
"""A trace file, or page keys."""

class ModelsError(ValueError): ...

@final
class TraceOptions:
    """How to read a trace file, `docs/reference/trace_format.md`.

    `format` names the format when the suffix does not; `column`, `offset` and `length` are columns
    of a CSV file. Byte ranges become requests for the pages of `page_bytes` that they touch, or one
    request each with `whole_requests`. What does not fit the format is refused when it is read.
    """

    def __init__(
        self,
        format: str | None = None,
        column: str | None = None,
        offset: str | None = None,
        length: str | None = None,
        page_bytes: int | None = None,
        whole_requests: bool = False,
    ) -> None: ...

@final
class SimResult:
    """Outcome of one policy at one size over what was measured of a trace.

    `batch` is what the policy was asked for: never more than a sixteenth of the cache. `seconds`
    are of the whole simulation, warm-up included.
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
    def window_requests(self) -> NDArray[np.uint64]:
        """Requests of each window, in order; empty when none were asked for."""
    def window_misses(self) -> NDArray[np.uint64]:
        """Of these, how many missed."""

@final
class CacheStats:
    """What a `Cache` counted, and what it holds: pages, ghosts, and bytes of memory."""

    requests: int
    misses: int
    evictions: int
    refused: int
    fallbacks: int
    rejected: int
    resident_pages: int
    ghosts: int
    bytes: int
    @property
    def hits(self) -> int: ...
    @property
    def miss_ratio(self) -> float:
        """0 to 1; 0 before the first request."""

@final
class Cache:
    """A page cache that is driven request by request; of one thread.

    `policy` is `NAME` or `NAME:VARIANT`. One that is swapped in adopts every resident page, oldest
    first, as in the kernel. Up to `batch` pages are asked for per eviction: 1 is the textbook
    algorithm, 32 the kernel's. Tunables are given by name; `name.3` is element 3 of an array. `page
    in cache` looks without touching; `len(cache)` is the pages held. Raises ModelsError for a
    policy that does not exist and for numbers that are out of range.
    """

    def __init__(
        self,
        policy: str,
        size_pages: int,
        seed: int = 1,
        batch: int = 32,
        tunables: Mapping[str, int] | None = None,
    ) -> None: ...
    @property
    def policy(self) -> str: ...
    @property
    def size_pages(self) -> int: ...
    @property
    def tunables(self) -> dict[str, int | list[int]]:
        """Every tunable in force; an array as a list."""
    def access(self, key: int, task: int = 0) -> bool:
        """Serves one request for a page, 0 <= key < 2^64; whether it hit."""
    def run(
        self, keys: NDArray[np.uint64], tasks: NDArray[np.uint32] | None = None
    ) -> NDArray[np.bool_]:
        """Serves requests, shape (N,); which of them hit."""
    def forget(self, key: int) -> None:
        """Drops a page as truncation does, and its ghost."""
    def swap(self, policy: str, tunables: Mapping[str, int] | None = None) -> None: ...
    def resize(self, size_pages: int) -> None: ...
    def set_tunables(self, tunables: Mapping[str, int]) -> None: ...
    def stats(self) -> CacheStats:
        """Counts since the start or the last `reset_stats`, over all policies."""
    def reset_stats(self) -> None: ...
    def resident(self) -> NDArray[np.uint64]:
        """The keys of the pages held now."""
    def __contains__(self, key: int) -> bool: ...
    def __len__(self) -> int: ...

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
        """Half-width of the interval that nominally holds the true miss ratio at 95% of points."""

@final
class ReadaheadResult:
    """What one readahead policy did, over the cache of one eviction policy.

    A miss is a page of a read that was not cached, which its reader waits for, and `waits` is how
    often one did: mostly once for all pages of a read. `disk_reads` are runs of pages that came
    from the disk in one piece. `ahead_pages` were read before they were asked for, and each of them
    was accessed since (`used_pages`), evicted without an access (`wasted_pages`), or is cached and
    waits (`pending_pages`). Those that the policy itself decided, and not the model of the kernel
    to which it left a decision, are `own_...`: the kernel counts these.
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

def trace_info_json(
    path: str, options: TraceOptions | None = None, progress: Progress | None = None
) -> str:
    """JSON object: format, requests, distinct_pages, one_hit_ratio, and what the format knows."""

def trace_footprint(
    path: str, options: TraceOptions | None = None, progress: Progress | None = None
) -> tuple[int, int]:
    """(requests, distinct pages) of a trace; memory of the distinct pages."""

def trace_head_json(path: str, count: int, options: TraceOptions | None = None) -> str:
    """The first `count` requests as a JSON array of objects."""

def trace_keys(
    path: str, limit: int | None = None, options: TraceOptions | None = None
) -> NDArray[np.uint64]:
    """The page keys of the first `limit` requests (all, when None) as one array."""

def trace_convert(
    source: str, target: str, options: TraceOptions | None = None, progress: Progress | None = None
) -> int:
    """Writes `target` in the format of its suffix; returns the requests written."""

def trace_generate(
    target: str, mix: Sequence[str], requests: int, seed: int = 1, progress: Progress | None = None
) -> int:
    """Writes the first `requests` of a mixture of at most 64 patterns; returns them.

    Patterns are texts, `docs/reference/trace_format.md`. The keys of pattern i begin at i * 2^56.
    """

def synthetic_keys(mix: Sequence[str], requests: int, seed: int = 1) -> NDArray[np.uint64]:
    """The same as page keys, shape (requests,)."""

def record_dtype() -> np.dtype[np.void]:
    """The record of `docs/reference/trace_format.md`, field by field."""

def write_records(path: str, records: NDArray[np.void]) -> int:
    """Writes a contiguous array of `record_dtype()` to a `.cptrace[.zst]`; returns its records."""

def read_records(path: str) -> NDArray[np.void]:
    """All records of a `.cptrace[.zst]` file, of `record_dtype()`: 48 bytes of memory each."""

def simulate(
    source: Source,
    policies: Sequence[str],
    sizes_pages: Sequence[int],
    batch: int = 32,
    seed: int = 1,
    tunables: Tunables | None = None,
    options: TraceOptions | None = None,
    warmup_requests: int = 0,
    window_requests: int | None = None,
    threads: int = 0,
    progress: Progress | None = None,
) -> list[SimResult]:
    """Every policy at every size in one pass over the trace; `threads` 0 means all cores.

    Results are in the order policies x sizes. The policy name `opt` is Belady's OPT. The first
    `warmup_requests` fill the caches and count nowhere; behind them, misses are also counted per
    window of `window_requests` (the last may be shorter; a million at most).
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
    options: TraceOptions | None = None,
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
    options: TraceOptions | None = None,
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
    options: TraceOptions | None = None,
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
    within `resolution`, or when `states` are left that lose less. None when no choice is left.
    """

def fit_split(
    seen: Floats, waits: Floats, weights: Floats, prior: Pair, start: Pair, low: Pair, high: Pair
) -> Pair:
    """Service time, us, and accesses per operation that make up the times of operations best.

    Of intervals the logarithm of that time, us, the wait per access, us, and what residuals weigh,
    contiguous. `prior` are accesses as believed, and what their logarithm weighs.
    """
