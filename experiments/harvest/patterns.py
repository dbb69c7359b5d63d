# SPDX-License-Identifier: Apache-2.0
"""Streams of requests for pages that mixtures of stationary patterns cannot make."""

from collections.abc import Sequence

import numpy as np
from experiments.autopilot_simulated.tenants import Keys
from numpy.typing import NDArray

from cachepilot import _models

Ints = NDArray[np.int64]
PART_BITS = 50
"""Pages of the parts of a workload are so many bits apart."""


def mixture(random: np.random.Generator, requests: int, *mix: str) -> Keys:
    """A mixture of patterns as of `cachepilot trace generate`, its pages numbered from 0."""
    keys = _models.synthetic_keys(mix, requests, int(random.integers(1 << 32)))
    return np.unique(keys, return_inverse=True)[1].astype(np.uint64)


def woven(parts: Sequence[Keys], which: Ints) -> Keys:
    """Request i is the next one of part `which[i]`; a part that is at its end begins again."""
    found = np.empty(which.size, dtype=np.uint64)
    for i, part in enumerate(parts):
        at = np.flatnonzero(which == i)
        found[at] = np.resize(part, at.size) + np.uint64(i << PART_BITS)
    return found


def shares(random: np.random.Generator, requests: int, second: float) -> Ints:
    """Which of two parts each request is of; `second` is the share of the second."""
    return (random.random(requests) < second).astype(np.int64)


def zipf(random: np.random.Generator, count: int, ranks: int, alpha: float) -> Ints:
    """Ranks from 0, by falling popularity."""
    weights = np.cumsum(np.arange(1, ranks + 1, dtype=np.float64) ** -alpha)
    return np.asarray(np.searchsorted(weights, random.random(count) * weights[-1]))


def reused(random: np.random.Generator, requests: int, near: float, new: float) -> Keys:
    """Each request is for a new page with probability `new`, or for the page of an earlier one.

    That one is drawn by how long ago it was: lognormal, with a median of `near` requests.
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
    """Walkers on a graph of `pages`, each with 8 neighbours, some of which all walkers meet.

    A walker starts anew from a random page with probability `restart`.
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
    """All pages of each range in order, range after range."""
    ends = np.cumsum(lengths)
    offsets = np.repeat(starts - (ends - lengths), lengths)
    return np.asarray(np.arange(ends[-1]) + offsets, dtype=np.uint64)
