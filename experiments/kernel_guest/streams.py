# SPDX-License-Identifier: Apache-2.0
"""Streams of page numbers, the same on every machine, for eviction policies and for readahead.

No page comes twice in a row: for the kernel, a read that starts where the last one of its
descriptor ended is not a separate access.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Pages = NDArray[np.uint64]
ZIPF_EXPONENT = 0.99
SCAN_RUN_PAGES = 64
STRIDED_RUN_READS = 256
LARGE_READ_PAGES = 8


@dataclass(frozen=True)
class Shape:
    """The length of a stream and its number of pages; the cache has room for a quarter of them."""

    pages: int
    accesses: int
    seed: int = 1

    @property
    def cache_pages(self) -> int:
        """Intended capacity of the cgroup in pages."""
        return self.pages // 4


def _spread_repeats(pages: Pages, shape: Shape) -> Pages:
    """Replace a page that equals the one before it by the next one in the file."""
    for at in np.flatnonzero(pages[1:] == pages[:-1]) + 1:
        following = (int(pages[at - 1]) + 1) % shape.pages
        if at + 1 < len(pages) and following == int(pages[at + 1]):
            following = (following + 1) % shape.pages
        pages[at] = following
    return pages


def _zipf_ranks(count: int, pages: int, random: np.random.Generator) -> Pages:
    weights = 1.0 / np.arange(1, pages + 1) ** ZIPF_EXPONENT
    cumulative = np.cumsum(weights)
    draws = random.random(count) * cumulative[-1]
    ranks: Pages = np.searchsorted(cumulative, draws).astype(np.uint64)
    return ranks


def zipf(shape: Shape) -> Pages:
    """Independent draws with popularity 1 / rank^0.99 over all pages; hot pages are anywhere."""
    random = np.random.default_rng(shape.seed)
    places = random.permutation(shape.pages).astype(np.uint64)
    return _spread_repeats(places[_zipf_ranks(shape.accesses, shape.pages, random)], shape)


def uniform(shape: Shape) -> Pages:
    """Independent draws; all pages are equally popular."""
    random = np.random.default_rng(shape.seed)
    draws = random.integers(0, shape.pages, shape.accesses).astype(np.uint64)
    return _spread_repeats(draws, shape)


def loop(shape: Shape) -> Pages:
    """The same pages in the same order repeatedly, a quarter more than fit."""
    length = shape.cache_pages * 5 // 4
    return (np.arange(shape.accesses) % length).astype(np.uint64)


def scan_zipf(shape: Shape) -> Pages:
    """Zipf draws; every third run of 64 accesses continues a scan through the whole file."""
    mixed = zipf(shape)
    runs = np.arange(shape.accesses) // SCAN_RUN_PAGES
    is_scan = runs % 3 == 2
    mixed[is_scan] = (np.arange(int(is_scan.sum())) % shape.pages).astype(np.uint64)
    return _spread_repeats(mixed, shape)


def phase_change(shape: Shape) -> Pages:
    """Zipf draws whose hot pages are different ones in each third of the stream."""
    random = np.random.default_rng(shape.seed)
    ranks = _zipf_ranks(shape.accesses, shape.pages, random)
    third = -(-shape.accesses // 3)
    parts = [
        random.permutation(shape.pages).astype(np.uint64)[ranks[start : start + third]]
        for start in range(0, shape.accesses, third)
    ]
    return _spread_repeats(np.concatenate(parts), shape)


def sequential(shape: Shape) -> Pages:
    """The whole file in order, repeatedly."""
    return (np.arange(shape.accesses) % shape.pages).astype(np.uint64)


def strided(shape: Shape) -> Pages:
    """Runs of reads at a distance of 2 to 40 pages, in either direction, from random pages."""
    random = np.random.default_rng(shape.seed)
    steps = random.integers(2, 41, shape.accesses) * random.choice([-1, 1], shape.accesses)
    starts = random.integers(0, shape.pages, shape.accesses)
    at = np.arange(shape.accesses)
    runs = at // STRIDED_RUN_READS
    pages = (starts[runs] + steps[runs] * (at % STRIDED_RUN_READS)) % shape.pages
    return _spread_repeats(pages.astype(np.uint64), shape)


def interleaved(shape: Shape) -> Pages:
    """Four streams in turn, each in its quarter of the file: two in order, two at a distance."""
    quarter = shape.pages // 4
    turn = np.arange(shape.accesses)
    stream, read = turn % 4, turn // 4
    step = np.array([1, 7, 1, 13])[stream]
    pages: Pages = (stream * quarter + read * step % quarter).astype(np.uint64)
    return pages


def detours(shape: Shape) -> Pages:
    """Every sixth page of the first half; after each 7 reads a random page of the second half."""
    random = np.random.default_rng(shape.seed)
    half, at = shape.pages // 2, np.arange(shape.accesses)
    ahead = (at - at // 8) * 6 % half
    elsewhere = random.integers(half, shape.pages, shape.accesses)
    pages: Pages = np.where(at % 8 == 7, elsewhere, ahead).astype(np.uint64)
    return pages


def large_reads(shape: Shape) -> Pages:
    """The first pages of reads of 8 pages: Zipf over such blocks, and a scan through them."""
    blocks = Shape(shape.pages // LARGE_READ_PAGES, shape.accesses // LARGE_READ_PAGES, shape.seed)
    return scan_zipf(blocks) * np.uint64(LARGE_READ_PAGES)


STREAMS: dict[str, Callable[[Shape], Pages]] = {
    "zipf": zipf,
    "loop": loop,
    "scan_zipf": scan_zipf,
    "phase_change": phase_change,
}
READAHEAD_STREAMS: dict[str, Callable[[Shape], Pages]] = {
    "sequential": sequential,
    "strided": strided,
    "random": uniform,
    "interleaved": interleaved,
    "detours": detours,
    "large_reads": large_reads,
    "scan_zipf": scan_zipf,
}


def write(name: str, pages: Pages, folder: Path) -> Path:
    """Write the stream as a `.u64` file in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.u64"
    pages.tofile(path)
    return path
