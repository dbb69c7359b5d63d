# SPDX-License-Identifier: Apache-2.0
"""The same streams through the simulator, at the size that was measured in the kernel."""

import numpy as np

from cachepilot import _models

from .plays import Play

BATCH = 32
# The kernel brings the statistics that its default LRU decides by up to date every two seconds.
STATISTICS_SECONDS = 2.0
MODELS = {"default": "kernel_lru", "mglru.native": "mglru"}


def capacity_pages(play: Play) -> int:
    """The simulated size: pages fall by a batch when reclaim runs, and grow back one by one."""
    return round(play.resident_pages + BATCH / 2)


def miss_ratio(play: Play, keys: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> float:
    """Simulated miss ratio of the accesses after the warm-up."""
    tunables = None
    if play.policy == "default":
        interval = round(STATISTICS_SECONDS * play.accesses_per_second)
        tunables = {"stats_interval": interval}
    policy = MODELS.get(play.policy, play.policy)
    hits = _models.simulate_hits(
        keys,
        policy,
        capacity_pages(play),
        BATCH,
        tunables=tunables,
        refused_per_million=round(play.refused_share * 1e6),
    )
    measured = hits[len(keys) - play.accesses :]
    return 1.0 - float(np.count_nonzero(measured)) / len(measured)
