# SPDX-License-Identifier: Apache-2.0
"""Runs the same streams through the simulator, at the sizes that were measured in the kernel."""

from itertools import pairwise
from statistics import mean

import numpy as np

from cachepilot import _models, manifest

from .plays import BATCH, STEP, Play, Size

# Interval in which the kernel updates the statistics that its default LRU uses.
STATISTICS_SECONDS = 2.0
MODELS = {"default": "kernel_lru", "mglru.native": "mglru"}


def _interval_tunable(policy: str) -> str | None:
    """Return the name of `stats_interval` if the model of the kernel's default LRU evicts."""
    if policy == "default":
        return "stats_interval"
    known = manifest.policies().get(policy)
    return None if known is None or known.evicts else "kernel_lru.stats_interval"


def _resize(cache: _models.Cache, pages: int) -> None:
    """Resize the cache.

    Memory that others take from a full cgroup is reclaimed in whole requests.
    """
    if len(cache) > pages:
        cache.resize(len(cache) - BATCH)
    cache.resize(pages)


def miss_ratio(play: Play, keys: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> float:
    """Return the simulated miss ratio of the accesses after the warm-up."""
    tunables = None
    name = _interval_tunable(play.policy)
    if name is not None:
        tunables = {name: round(STATISTICS_SECONDS * play.accesses_per_second)}
    policy = MODELS.get(play.policy, play.policy)
    cache = _models.Cache(policy, play.sizes[0].pages, batch=BATCH, tunables=tunables)
    hits = []
    for size, following in pairwise([*play.sizes, Size(len(keys), 0)]):
        _resize(cache, size.pages)
        hits.append(cache.run(keys[size.access : following.access]))
    measured = np.concatenate(hits)[len(keys) - play.accesses :]
    return 1.0 - float(np.count_nonzero(measured)) / len(measured)


def mean_pages(play: Play) -> int:
    """Return the mean size over the measured part."""
    return round(mean(size.pages for size in play.sizes[-(1 + play.accesses // STEP) :]))
