# SPDX-License-Identifier: Apache-2.0
"""The same streams through the simulator, at the size that was measured in the kernel."""

import numpy as np

from cachepilot import _models, manifest

from .plays import Play

BATCH = 32
# The kernel brings the statistics that its default LRU decides by up to date every two seconds.
STATISTICS_SECONDS = 2.0
MODELS = {"default": "kernel_lru", "mglru.native": "mglru"}


def capacity_pages(resident_pages: float) -> int:
    """The simulated size: pages fall by a batch when reclaim runs, and grow back one by one."""
    return round(resident_pages + BATCH / 2)


def _interval_tunable(policy: str) -> str | None:
    """The name of `stats_interval` where the model of the kernel's default LRU evicts."""
    if policy == "default":
        return "stats_interval"
    known = manifest.policies().get(policy)
    return None if known is None or known.evicts else "kernel_lru.stats_interval"


def miss_ratio(play: Play, keys: "np.ndarray[tuple[int], np.dtype[np.uint64]]") -> float:
    """Simulated miss ratio of the accesses after the warm-up."""
    tunables = None
    name = _interval_tunable(play.policy)
    if name is not None:
        tunables = {name: round(STATISTICS_SECONDS * play.accesses_per_second)}
    policy = MODELS.get(play.policy, play.policy)
    hits = _models.simulate_hits(
        keys,
        policy,
        capacity_pages(play.resident_pages),
        BATCH,
        tunables=tunables,
        refused_per_million=round(play.refused_share * 1e6),
    )
    measured = hits[len(keys) - play.accesses :]
    return 1.0 - float(np.count_nonzero(measured)) / len(measured)
