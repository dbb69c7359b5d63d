# SPDX-License-Identifier: Apache-2.0
"""The curves of many tenants in one array, so that they are interpolated together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.planner.snapshot import BoolArray, Curves, FloatArray, IntArray

BEYOND_BYTES = float(1 << 62)
"""Pads grids that are shorter than the longest; a curve is flat from its last size to here."""


@dataclass(frozen=True)
class PackedCurves:
    """Curves of N tenants, at most P policies and S sizes each, starting with no memory at all.

    `sizes_bytes` has shape (N, S), `miss_ratio` (N, P, S). Rows of policies that a tenant has no
    curve for are 1.
    """

    sizes_bytes: FloatArray
    miss_ratio: FloatArray

    @classmethod
    def of(cls, curves: Sequence[Curves]) -> "PackedCurves":
        """Packs the curves of every tenant, in their order."""
        policies = max((len(one.policies) for one in curves), default=0)
        points = max((one.sizes_bytes.size for one in curves), default=0) + 1
        sizes = np.full((len(curves), points), BEYOND_BYTES)
        ratios = np.ones((len(curves), policies, points))
        sizes[:, 0] = 0
        for i, one in enumerate(curves):
            rows, columns = one.miss_ratio.shape
            sizes[i, 1 : columns + 1] = one.sizes_bytes
            ratios[i, :rows, 1 : columns + 1] = one.miss_ratio
            if columns + 1 < points:
                ratios[i, :rows, columns + 1 :] = one.miss_ratio[:, -1:]
        return cls(sizes, ratios)

    def _cells(self, sizes_bytes: IntArray) -> tuple[IntArray, FloatArray]:
        """Index of the grid point above each size, (N, K), and how far towards it, in [0, 1]."""
        below = np.zeros(sizes_bytes.shape, dtype=np.int64)
        for column in range(1, self.sizes_bytes.shape[1] - 1):
            below += sizes_bytes >= self.sizes_bytes[:, column, None]
        rows = np.arange(sizes_bytes.shape[0])[:, None]
        low = self.sizes_bytes[rows, below]
        high = self.sizes_bytes[rows, below + 1]
        return below + 1, np.minimum((sizes_bytes - low) / (high - low), 1.0)

    def least_miss(self, sizes_bytes: IntArray, allowed: BoolArray) -> tuple[FloatArray, IntArray]:
        """The lower envelope of the policies `allowed`, (N, P), at sizes of shape (N, K).

        Returns the miss ratio, 1 where no policy is allowed, and the index of its policy, or -1.
        """
        above, part = self._cells(sizes_bytes)
        rows = np.arange(sizes_bytes.shape[0])[:, None]
        # 2 is more than any miss ratio.
        least = np.full(sizes_bytes.shape, 2.0)
        best = np.full(sizes_bytes.shape, -1, dtype=np.int64)
        # One policy at a time: all at once would not stay in the processor's caches.
        for policy in np.flatnonzero(allowed.any(axis=0)):
            low = self.miss_ratio[rows, policy, above - 1]
            ratio = low + (self.miss_ratio[rows, policy, above] - low) * part
            better = (ratio < least) & allowed[:, policy, None]
            np.copyto(least, ratio, where=better)
            np.copyto(best, policy, where=better)
        return np.minimum(least, 1.0), best

    def miss(self, sizes_bytes: IntArray, policy: IntArray) -> FloatArray:
        """Miss ratio at sizes of shape (N, K) under the policy of each tenant, (N,)."""
        above, part = self._cells(sizes_bytes)
        rows = np.arange(sizes_bytes.shape[0])[:, None]
        low = self.miss_ratio[rows, policy[:, None], above - 1]
        high = self.miss_ratio[rows, policy[:, None], above]
        found: FloatArray = low + (high - low) * part
        return found

    def first_size(self, miss: FloatArray) -> FloatArray:
        """The least size at which each curve falls to the tenant's `miss`, (N,); shape (N, P).

        Bytes, inf where it never does.
        """
        wanted = miss[:, None, None]
        meets = self.miss_ratio <= wanted
        at = meets.argmax(axis=2)
        before = np.maximum(at - 1, 0)
        ratio_at = np.take_along_axis(self.miss_ratio, at[:, :, None], axis=2)[:, :, 0]
        ratio_before = np.take_along_axis(self.miss_ratio, before[:, :, None], axis=2)[:, :, 0]
        size_at = np.take_along_axis(self.sizes_bytes, at, axis=1)
        size_before = np.take_along_axis(self.sizes_bytes, before, axis=1)
        fall = np.where(at > 0, ratio_before - ratio_at, 1.0)
        part = np.where(at > 0, (ratio_before - miss[:, None]) / fall, 0.0)
        found = size_before + (size_at - size_before) * part
        return np.where(meets.any(axis=2), found, np.inf)
