# SPDX-License-Identifier: Apache-2.0
"""Compares a policy that adopts the pages of another with the policy in force throughout.

The adopted pages are those that the kernel's own order left in the page cache.
"""

from collections.abc import Sequence

import numpy as np
from experiments.harvest.loads import Load
from experiments.harvest.pinned import KERNEL_DEFAULT, may_choose, times_us
from experiments.shared.rows import Row

from cachepilot import _models

REQUESTS_MAX = 1_000_000


def _pass_us(cache: _models.Cache, load: Load, requests: int) -> float:
    """Return the time of `requests` requests, which follow the first `requests` ones."""
    return float(times_us(~cache.run(load.chunk(requests, requests))).sum())


def ratio(load: Load, policy: str) -> float:
    """Return the time of the pass after a swap to a policy.

    It is divided by the time of the pass with the policy in force throughout.
    """
    requests = min(load.keys.size, REQUESTS_MAX)
    swapped, always = (_models.Cache(name, load.size_pages) for name in (KERNEL_DEFAULT, policy))
    for cache in (swapped, always):
        cache.run(load.chunk(0, requests))
    swapped.swap(policy)
    return _pass_us(swapped, load, requests) / _pass_us(always, load, requests)


def rows(loads: Sequence[Load]) -> list[Row]:
    """Return `autopilot.harvest.adoption.POLICY`: geometric means over the loads."""
    found = []
    for policy in may_choose():
        ratios = [ratio(load, policy) for load in loads]
        found.append(
            Row(
                f"autopilot.harvest.adoption.{policy}",
                float(np.exp(np.mean(np.log(ratios)))),
                "ratio",
                reference="time of the pass after a swap; the policy in force all along",
                runs=len(ratios),
                spread=(min(ratios), max(ratios)),
            )
        )
    return found
