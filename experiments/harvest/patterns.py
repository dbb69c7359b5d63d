# SPDX-License-Identifier: Apache-2.0
"""Streams of page requests that mixtures of stationary patterns cannot produce."""

from collections.abc import Sequence

import numpy as np
from experiments.autopilot_simulated.tenants import Keys
from numpy.typing import NDArray

from cachepilot import _models

Ints = NDArray[np.int64]
PART_BITS = 50
"""The page numbers of different parts of a workload differ by multiples of 2 to this power."""


def mixture(random: np.random.Generator, requests: int, *mix: str) -> Keys:
    """Return a mixture of patterns of `cachepilot trace generate`, with pages numbered from 0."""
    keys = _models.synthetic_keys(mix, requests, int(random.integers(1 << 32)))
    return np.unique(keys, return_inverse=True)[1].astype(np.uint64)


def woven(parts: Sequence[Keys], which: Ints) -> Keys:
    """Interleave parts: request i is the next one of part `which[i]`.

    A part that ends starts again.
    """
    found = np.empty(which.size, dtype=np.uint64)
    for i, part in enumerate(parts):
        at = np.flatnonzero(which == i)
        found[at] = np.resize(part, at.size) + np.uint64(i << PART_BITS)
    return found


def shares(random: np.random.Generator, requests: int, second: float) -> Ints:
    """Return which of two parts each request belongs to; `second` is the second's share."""
    return (random.random(requests) < second).astype(np.int64)


def zipf(random: np.random.Generator, count: int, ranks: int, alpha: float) -> Ints:
    """Draw ranks from 0, by falling popularity."""
    weights = np.cumsum(np.arange(1, ranks + 1, dtype=np.float64) ** -alpha)
    return np.asarray(np.searchsorted(weights, random.random(count) * weights[-1]))


def reused(random: np.random.Generator, requests: int, near: float, new: float) -> Keys:
    """Return requests for a new page with probability `new`, otherwise for an earlier page.

    How long ago the earlier request was is lognormal, with a median of `near` requests.
    """
    back = np.maximum(1, np.exp(random.normal(np.log(near), 1.2, requests))).astype(np.int64)
    is_new = random.random(requests) < new
    keys: list[int] = []
    pages = 0
    for i, (ago, fresh) in enumerate(zip(back.tolist(), is_new.tolist(), strict=True)):
        if fresh or ago > i:
            keys.append(pages)
            pages += 1
        else:
            keys.append(keys[i - ago])
    return np.array(keys, dtype=np.uint64)


def walked(random: np.random.Generator, requests: int, pages: int, restart: float) -> Keys:
    """Return the requests of walkers on a graph of `pages` nodes, each with 8 neighbours.

    Two of the neighbours are hubs, which all walkers visit often. A walker restarts from a random
    page with probability `restart`.
    """
    walkers = 64
    near = (np.arange(pages)[:, None] + random.integers(-50, 50, (pages, 6))) % pages
    hubs = zipf(random, 2 * pages, pages, 0.8).reshape(pages, 2)
    neighbours = np.concatenate((near, random.permutation(pages)[hubs]), axis=1)
    at, steps = random.integers(pages, size=walkers), -(-requests // walkers)
    found = np.empty((steps, walkers), dtype=np.uint64)
    for step in found:
        at = neighbours[at, random.integers(8, size=walkers)]
        again = random.random(walkers) < restart
        at[again] = random.integers(pages, size=int(again.sum()))
        step[:] = at
    return found.reshape(-1)[:requests]


def ranges(starts: Ints, lengths: Ints) -> Keys:
    """Return all pages of each range in order, range after range."""
    ends = np.cumsum(lengths)
    offsets = np.repeat(starts - (ends - lengths), lengths)
    return np.asarray(np.arange(ends[-1]) + offsets, dtype=np.uint64)
