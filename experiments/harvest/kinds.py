# SPDX-License-Identifier: Apache-2.0
"""Kinds of workloads, and the workloads that a seed draws.

A kind of workload is a function of `Drawn`, whose parameters are drawn too. Each trace lasts about
`SECONDS`, and is then replayed from the start.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from experiments.autopilot_simulated.tenants import Keys
from experiments.harvest.loads import Load
from experiments.harvest.patterns import (
    Ints,
    mixture,
    ranges,
    reused,
    shares,
    walked,
    woven,
    zipf,
)
from experiments.harvest.pinned import ops_per_second

SECONDS = 300.0
MISS_RATIO = 0.35
"""Miss ratio that is assumed to estimate the time per request."""


def about(random: np.random.Generator, low: float, high: float) -> float:
    """Draw a number that is uniform in the logarithm."""
    return float(np.exp(random.uniform(np.log(low), np.log(high))))


@dataclass(frozen=True)
class Drawn:
    """Parameters of a workload: about `pages` pages, and `per_s` requests a second."""

    random: np.random.Generator
    pages: int
    per_s: float

    @property
    def requests(self) -> int:
        """Number of requests of the trace."""
        return int(SECONDS * self.per_s)

    def between(self, low: float, high: float) -> float:
        """Draw a uniform number."""
        return float(self.random.uniform(low, high))

    def about(self, low: float, high: float) -> float:
        """Draw a number that is uniform in the logarithm."""
        return about(self.random, low, high)

    def part(self, low: float, high: float) -> int:
        """Draw a number of pages, as a share of all pages."""
        return max(1, int(self.about(low, high) * self.pages))

    def any_mixture(self, requests: int) -> Keys:
        """Return a mixture of two or three patterns."""
        kinds = (
            f"zipf,pages={self.part(0.2, 1)},alpha={self.between(0.5, 1.2):.2f}",
            f"loop,pages={self.part(0.02, 0.6)}",
            f"uniform,pages={self.part(0.01, 0.3)}",
            "scan",
            f"shifting,pages={self.part(0.02, 0.4)},every={1 + requests // 40},"
            f"by={self.part(0.002, 0.05)},alpha={self.between(0, 1.1):.2f}",
        )
        chosen = self.random.permutation(kinds)[: self.random.integers(2, 4)]
        return mixture(
            self.random, requests, *(f"{one},weight={self.about(0.1, 1):.2f}" for one in chosen)
        )

    def turns(self, lengths_s: Iterator[float]) -> Ints:
        """Return which of two parts each request belongs to.

        The parts alternate after these times.
        """
        ends = np.cumsum([next(lengths_s) for _ in range(200)]) * self.per_s
        return np.searchsorted(ends, np.arange(self.requests), side="right") % 2


def _drifting(of: Drawn) -> Keys:
    moves = int(of.about(10, 300))
    by = max(1, int(of.about(0.3, 3) * of.pages / moves))
    return mixture(
        of.random,
        of.requests,
        f"shifting,pages={of.part(0.2, 0.6)},every={of.requests // moves},by={by},"
        f"alpha={of.between(0.6, 1.1):.2f}",
        f"zipf,pages={of.part(0.2, 0.6)},weight={of.about(0.1, 1):.2f}",
    )


def _looping(of: Drawn) -> Keys:
    return mixture(
        of.random,
        of.requests,
        f"loop,pages={of.part(0.05, 0.6)},weight={of.about(0.3, 3):.2f}",
        f"zipf,pages={of.part(0.2, 0.8)},alpha={of.between(0.7, 1.2):.2f}",
    )


def _backed_up(of: Drawn) -> Keys:
    """A hot set; at intervals all pages are read once."""
    every, lasts = of.about(20, 120), of.about(4, 15)
    in_scan = (np.arange(of.requests) / of.per_s) % every < lasts
    which = (in_scan & (of.random.random(of.requests) < of.between(0.4, 0.9))).astype(np.int64)
    hot = zipf(of.random, of.requests, of.part(0.2, 0.6), of.between(0.6, 1.1))
    return woven((hot.astype(np.uint64), np.arange(of.pages, dtype=np.uint64)), which)


def _compacted(of: Drawn) -> Keys:
    """Point reads of tables. At intervals some tables are read and rewritten as new tables."""
    tables, merged = int(of.about(8, 40)), int(of.random.integers(2, 5))
    size, rounds = max(8, of.pages // tables), int(of.about(10, 80))
    live, fresh = np.arange(tables), tables
    reads = max(1, of.requests // rounds - 2 * merged * size)
    alpha, newest, found = of.between(0.5, 1.0), of.between(0.3, 1.0), []
    for _ in range(rounds):
        table = live[::-1][zipf(of.random, reads, tables, newest)]
        found.append(table * size + zipf(of.random, reads, size, alpha))
        taken = of.random.choice(live, merged, replace=False)
        made = np.arange(fresh, fresh + merged)
        rewritten = ranges(np.concatenate((taken, made)) * size, np.full(2 * merged, size))
        found.append(rewritten.astype(np.int64))
        live, fresh = np.append(live[~np.isin(live, taken)], made), fresh + merged
    return np.concatenate(found).astype(np.uint64)


def _alternating(of: Drawn) -> Keys:
    """Two mixtures that alternate: every 30 s, every 2 min, or at random times."""
    mean_s = float(of.random.choice((30.0, 120.0, of.about(15, 120))))
    varies = bool(of.random.integers(2))
    lengths = iter(lambda: of.random.exponential(mean_s) if varies else mean_s, None)
    parts = (of.any_mixture(of.requests), of.any_mixture(of.requests))
    return woven(parts, of.turns(lengths))


def _changing_once(of: Drawn) -> Keys:
    parts = (of.any_mixture(of.requests), of.any_mixture(of.requests))
    return woven(parts, of.turns(iter((of.between(20, 150), *([1e9] * 200)))))


def _one_hit(of: Drawn) -> Keys:
    """At least half of the requests are for pages that are requested in one burst only."""
    share, burst = of.between(0.5, 0.8), int(of.random.integers(1, 5))
    fresh = np.arange(int(of.requests * share) // burst + 1, dtype=np.uint64)
    hot = zipf(of.random, of.requests, of.part(0.3, 1), of.between(0.6, 1.1)).astype(np.uint64)
    return woven((hot, np.repeat(fresh, burst)), shares(of.random, of.requests, share))


def _queued(of: Drawn) -> Keys:
    """Each page is written, and read once when the consumer reaches it; there is also an index."""
    half, lag = of.requests // 2, of.part(0.02, 0.5)
    sway = 1 + 0.5 * np.sin(np.arange(half) / of.per_s / of.about(3, 30))
    written = np.arange(half) + 2 * lag
    queue = np.stack((written, np.maximum(0, written - (lag * sway).astype(np.int64))), axis=1)
    index = zipf(of.random, of.requests, of.part(0.05, 0.5), of.between(0.6, 1.2))
    which = shares(of.random, of.requests, of.between(0.2, 0.8))
    return woven((queue.reshape(-1).astype(np.uint64), index.astype(np.uint64)), which)


def _indexed(of: Drawn) -> Keys:
    """Row lookups by a B-tree: an inner page, a leaf, a page of the heap.

    Some read a range of rows.
    """
    rows_per_page, fanout = int(of.about(5, 40)), int(of.about(50, 300))
    rows, lookups = int(0.8 * of.pages * rows_per_page), of.requests // 3
    row = of.random.permutation(rows)[zipf(of.random, lookups, rows, of.between(0.6, 1.1))]
    at, is_next = np.arange(lookups), of.random.random(lookups) < of.between(0.0, 0.5)
    first = np.maximum.accumulate(np.where(is_next, 0, at))
    row = (row[first] + at - first) % rows
    heap = row // rows_per_page + (2 << 40)
    path = np.stack((row // fanout**2, row // fanout + (1 << 40), heap), axis=1)
    return path.reshape(-1).astype(np.uint64)


def _walking(of: Drawn) -> Keys:
    return walked(of.random, of.requests, of.pages, of.about(0.01, 0.3))


def _recent(of: Drawn) -> Keys:
    """Reuse that depends on recency only, which suits the kernel's order of pages."""
    return reused(of.random, of.requests, of.part(0.02, 0.3), of.about(0.01, 0.1))


def _moved(of: Drawn) -> Keys:
    """Reuse by recency and by popularity, with a working set that is sometimes replaced at once."""
    stays = np.cumsum(of.random.exponential(of.about(20, 150), 100)) * of.per_s
    set_of = np.searchsorted(stays, np.arange(of.requests)).astype(np.uint64)
    zipfs = zipf(of.random, of.requests, of.part(0.1, 0.5), of.between(0.3, 1.0))
    near = reused(of.random, of.requests, of.part(0.02, 0.2), of.about(0.01, 0.05))
    keys = woven((zipfs.astype(np.uint64), near), shares(of.random, of.requests, 0.5))
    return keys + (set_of << np.uint64(40))


def _latest(of: Drawn) -> Keys:
    """The newer a page, the more often it is requested."""
    newest = of.pages // 2 + (np.arange(of.requests) * (of.pages / of.requests)).astype(np.int64)
    back = zipf(of.random, of.requests, of.pages // 2, of.between(0.5, 1.1))
    return (newest - back).astype(np.uint64)


def _files(of: Drawn) -> Keys:
    """Whole files in order, with the popularity of a web server's files; some files are new."""
    mean = of.about(4, 64)
    count = max(16, int(of.pages / mean))
    lengths = np.maximum(1, of.random.lognormal(np.log(mean) - 0.5, 1.0, count)).astype(np.int64)
    starts = np.cumsum(lengths) - lengths
    reads = int(2 * of.requests / lengths.mean())
    drawn = zipf(of.random, reads, count, of.between(0.5, 1.0))
    drawn = (drawn + (np.arange(reads) * (of.between(0, 0.5) * count / reads)).astype(int)) % count
    drawn = of.random.permutation(count)[drawn]
    return ranges(starts[drawn], lengths[drawn])[: of.requests]


def _joined(of: Drawn) -> Keys:
    """Tables are read repeatedly, one after the other, beside a hot set they are joined with."""
    found, left = [], of.requests
    while left > 0:
        size, start = of.part(0.02, 0.5), int(of.random.integers(of.pages))
        times = int(of.about(1, 12))
        found.append(ranges(np.full(times, start), np.full(times, size)))
        left -= times * size
    hot = zipf(of.random, of.requests, of.part(0.02, 0.4), of.between(0.4, 1.1)).astype(np.uint64)
    which = shares(of.random, of.requests, of.between(0.2, 0.7))
    return woven((np.concatenate(found), hot), which)


def _mixed(of: Drawn) -> Keys:
    return of.any_mixture(of.requests)


KINDS: tuple[Callable[[Drawn], Keys], ...] = (
    _alternating, _backed_up, _changing_once, _compacted, _drifting, _files, _indexed, _joined,
    _latest, _looping, _mixed, _moved, _one_hit, _queued, _recent, _walking,
)  # fmt: skip
SMALL, SLOW = "small", "slow"


def workloads(seed: int) -> Iterator[Load]:
    """Yield one workload of each kind, and three more of any kind: one small and two slow ones.

    `size_pages` of a load is the number of pages that it is drawn for; it may access more in all.
    """
    further = np.random.default_rng(seed).permutation(len(KINDS))[:3].tolist()
    for i, kind in enumerate((*KINDS, *(KINDS[at] for at in further))):
        random = np.random.default_rng((seed, i))
        name, pages, per_s = kind.__name__.strip("_"), (9_000, 60_000), (1_000, 12_000)
        if i == len(KINDS):
            name, pages = f"{SMALL}-{name}", (860, 3_000)
        elif i > len(KINDS):
            name, per_s = f"{SLOW}-{name}", (150, 600)
        of = Drawn(random, int(about(random, *pages)), about(random, *per_s))
        keys = kind(of) + np.uint64(random.integers(1 << 39))
        yield Load(name, keys, of.pages, ops_per_second(MISS_RATIO) / of.per_s)
