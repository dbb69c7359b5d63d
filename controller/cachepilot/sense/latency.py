# SPDX-License-Identifier: Apache-2.0
"""Quantiles of the duration of read calls, from histograms on the wire.

Bucket 4 * e + m counts durations from (4 + m) * 2^e / 4 microseconds up to the next lower bound.
"""

from collections.abc import Sequence

import numpy as np

from cachepilot.domain.snapshot import FloatArray, IntArray


def lower_bound_us(bucket: int) -> float:
    """The lower bound of `bucket`, in microseconds; the first also counts shorter durations."""
    exponent, quarter = divmod(bucket, 4)
    return (4 + quarter) * 2.0**exponent / 4


def _bounds_us(buckets: int) -> FloatArray:
    """Lower bounds of the first `buckets` buckets and the end of the last, in microseconds."""
    exponents, quarters = np.divmod(np.arange(buckets + 1), 4)
    found: FloatArray = np.ldexp(1 + quarters / 4, exponents)
    return found


def quantiles_us(counts: IntArray, quantile: float) -> list[float | None]:
    """The quantile of each tenant, interpolated in its bucket; `counts` has shape (N, buckets).

    The result is None for a tenant without counts, or with negative ones after totals fell.
    """
    if counts.shape[1] == 0:
        return [None] * len(counts)
    total = counts.sum(axis=1)
    # Cumulative counts from the slowest bucket down.
    reached = counts[:, ::-1].cumsum(axis=1)
    above = total * (1 - quantile)
    slower = reached > above[:, None]
    rows, at = np.arange(len(counts)), slower.argmax(axis=1)
    bucket = counts.shape[1] - 1 - at
    count = counts[rows, bucket]
    bounds = _bounds_us(counts.shape[1])
    rest = above - (reached[rows, at] - count)
    part = (count - rest) / np.maximum(count, 1)
    inside = bounds[bucket] + (bounds[bucket + 1] - bounds[bucket]) * part
    found = np.where(slower.any(axis=1), inside, bounds[(counts > 0).argmax(axis=1)])
    known = (total > 0) & (counts >= 0).all(axis=1)
    return [one if is_known else None for one, is_known in zip(found.tolist(), known, strict=True)]


def quantile_us(later: Sequence[int], earlier: Sequence[int], quantile: float) -> float | None:
    """The quantile of one tenant's counts between two totals."""
    counts = np.zeros((1, max(len(later), len(earlier))), dtype=np.int64)
    counts[0, : len(later)] = later
    counts[0, : len(earlier)] -= np.asarray(earlier, dtype=np.int64)
    return quantiles_us(counts, quantile)[0]
