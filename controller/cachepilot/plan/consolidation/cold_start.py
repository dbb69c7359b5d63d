# SPDX-License-Identifier: Apache-2.0
"""The cold start of a tenant that moves: pages to read again, and the time that this takes.

A page cache that starts empty and has c pages misses as often as a page cache of c pages does
(Xiang et al., HOTL, ASPLOS 2013: the miss ratio at a size is the slope of the footprint where the
footprint reaches that size). So the time to fill it is the integral of dc / reads per second at the
curve's miss ratio. Meanwhile the device of the new node also serves the other tenants, at the wait
that results from all reads.

The cold start ends when the tenant's throughput is within `TOLERANCE` of its final value. The time
to read the pages beyond that has no bound, and nothing waits for them.
"""

from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import FloatArray
from cachepilot.model.throughput import Throughput
from cachepilot.plan.consolidation.least.needs import TOLERANCE
from cachepilot.sizes import PAGE_BYTES

STEPS = 16
"""The number of equal parts in which the page cache is filled."""


@dataclass(frozen=True)
class ColdStart:
    """Pages to read again, and seconds until they are read."""

    pages: int
    seconds: float


WARM = ColdStart(0, 0.0)


def _rates(model: Throughput, warm_miss: FloatArray, row: int, miss: FloatArray) -> FloatArray:
    """Device reads per second of one tenant at miss ratios of shape (K,), the others warm."""
    all_miss = np.repeat(warm_miss[:, None], miss.size, axis=1)
    all_miss[row] = miss
    waits = model.waits_us(all_miss)
    slope = model.per_miss[row] + model.per_wait[row] * waits
    ops = model.scale[row] / (model.base[row] + slope * miss)
    found: FloatArray = ops * model.accesses[row] * miss
    return found


def cold_start(
    model: Throughput,
    warm_miss: FloatArray,
    row: int,
    sizes_bytes: FloatArray,
    miss_ratio: FloatArray,
) -> ColdStart:
    """Predict the cold start of tenant `row` of a node.

    `warm_miss`, (N,), are the miss ratios of all tenants once they are warm. `miss_ratio` over
    rising `sizes_bytes`, both (S,), is the tenant's curve from an empty page cache to its final
    size.
    """
    if sizes_bytes[-1] <= sizes_bytes[0]:
        return WARM
    wait = model.wait_us(warm_miss)
    slope = model.per_miss[row] + model.per_wait[row] * wait
    time = model.base[row] + slope * warm_miss[row]
    enough = (time / (1 - TOLERANCE) - model.base[row]) / slope
    reached = np.flatnonzero(miss_ratio <= enough)
    if reached.size and reached[0] == 0:
        return WARM
    last = int(reached[0]) if reached.size else sizes_bytes.size - 1
    end = sizes_bytes[last]
    if reached.size:
        fall = miss_ratio[last - 1] - miss_ratio[last]
        part = (miss_ratio[last - 1] - enough) / fall
        end = sizes_bytes[last - 1] + part * (end - sizes_bytes[last - 1])
    edges = np.linspace(sizes_bytes[0], end, STEPS + 1)
    middle = np.interp((edges[1:] + edges[:-1]) / 2, sizes_bytes, miss_ratio)
    pages = (end - sizes_bytes[0]) / PAGE_BYTES
    seconds = float((pages / STEPS / _rates(model, warm_miss, row, middle)).sum())
    return ColdStart(int(np.ceil(pages)), seconds)
