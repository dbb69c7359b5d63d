# SPDX-License-Identifier: Apache-2.0
"""Memory in proportion to shares, between a least and a greatest limit of each tenant."""

import numpy as np

from cachepilot.domain.snapshot import FloatArray, IntArray
from cachepilot.sizes import pages_down

BISECTIONS = 100


def water_fill(
    share: FloatArray, low_bytes: IntArray, high_bytes: IntArray, budget_bytes: int
) -> IntArray:
    """Limits clip(level x share, low, high) of shape (N,), at the greatest level within the budget.

    Shares are positive. Limits between low and high are rounded down to whole pages. The sum of
    `low_bytes` must be within the budget.
    """

    def limits(level: float) -> IntArray:
        wanted = np.minimum(level * share, high_bytes.astype(np.float64))
        pages = pages_down(wanted.astype(np.int64))
        pages = np.where(wanted >= high_bytes, high_bytes, pages)
        return np.clip(pages, low_bytes, high_bytes)

    if share.size == 0:
        return low_bytes
    dry, full = 0.0, float((high_bytes / share).max()) + 1.0
    if int(limits(full).sum()) <= budget_bytes:
        return limits(full)
    for _ in range(BISECTIONS):
        middle = (dry + full) / 2
        if int(limits(middle).sum()) <= budget_bytes:
            dry = middle
        else:
            full = middle
    return limits(dry)
