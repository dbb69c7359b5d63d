# SPDX-License-Identifier: Apache-2.0
"""Quantiles of read calls from the histograms of the wire.

Bucket 4 * e + m counts durations of (4 + m) * 2^e / 4 microseconds up to the next lower bound.
"""

from collections.abc import Sequence


def lower_bound_us(bucket: int) -> float:
    """The shortest duration that `bucket` counts; the first also counts what is shorter."""
    exponent, quarter = divmod(bucket, 4)
    return (4 + quarter) * 2.0**exponent / 4


def quantile_us(later: Sequence[int], earlier: Sequence[int], quantile: float) -> float | None:
    """The quantile of what was counted between two looks, even within its bucket.

    None when nothing was counted, or when the totals fell.
    """
    total = sum(later) - sum(earlier)
    if total <= 0:
        return None
    known = len(earlier)
    above = total * (1 - quantile)
    lowest = 0
    # From the slowest down: the quantiles that are asked for lie near the end.
    for bucket in range(len(later) - 1, -1, -1):
        count = later[bucket] - (earlier[bucket] if bucket < known else 0)
        if count < 0:
            return None
        if above < count:
            low = lower_bound_us(bucket)
            return low + (lower_bound_us(bucket + 1) - low) * (count - above) / count
        above -= count
        lowest = bucket if count > 0 else lowest
    return lower_bound_us(lowest)
