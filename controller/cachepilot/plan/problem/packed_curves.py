# SPDX-License-Identifier: Apache-2.0
"""The curves of many tenants in one array, so that one call interpolates them all."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cachepilot.domain.snapshot import BoolArray, Curves, FloatArray, IntArray

BEYOND_BYTES = float(1 << 62)
"""Pads grids that are shorter than the longest one.

A curve is flat from its last size to here.
"""


AT_ONCE_MAX = 1 << 16
"""The most comparisons in one step; more would not stay in the processor's caches."""
FEW = 1 << 12
"""The most values that are interpolated in one step.

For more values, one policy after the other stays in the processor's caches.
"""
COUNTED_MAX = 255
"""The greatest count that a byte can store."""
ABOVE_ALL = 2.0
"""Greater than any miss ratio."""


def alike(curves: Sequence[Curves]) -> dict[tuple[int, ...], list[int]]:
    """Group the indices of curves by numbers of policies and sizes: a group is packed at once."""
    found: dict[tuple[int, ...], list[int]] = {}
    for i, one in enumerate(curves):
        found.setdefault(one.miss_ratio.shape, []).append(i)
    return found


@dataclass(frozen=True)
class Cells:
    """The positions of sizes on the grids of their tenants, (N, K).

    `at` is the index of the grid point below the size, counted over the concatenated grids of all
    tenants. `part`, in [0, 1], is how far the size is from there to the next point.
    """

    at: IntArray
    part: FloatArray

    def read(self, values: FloatArray) -> FloatArray:
        """Interpolate values over the concatenated grids at the sizes, (N, K)."""
        flat = values.ravel()
        low = flat.take(self.at)
        found: FloatArray = low + (flat.take(self.at + 1) - low) * self.part
        return found


@dataclass(frozen=True)
class PackedCurves:
    """Curves of N tenants with at most P policies and S sizes each; the first size is 0.

    `sizes_bytes` has shape (N, S), `miss_ratio` (N, P, S). Rows of policies for which a tenant has
    no curve are 1.
    """

    sizes_bytes: FloatArray
    miss_ratio: FloatArray

    @classmethod
    def of(cls, curves: Sequence[Curves]) -> "PackedCurves":
        """Pack the curves of every tenant, in their order."""
        policies = max((len(one.policies) for one in curves), default=0)
        points = max((one.sizes_bytes.size for one in curves), default=0) + 1
        sizes = np.full((len(curves), points), BEYOND_BYTES)
        ratios = np.ones((len(curves), policies, points))
        sizes[:, 0] = 0
        for (rows, columns), at in alike(curves).items():
            sizes[at, 1 : columns + 1] = np.array([curves[i].sizes_bytes for i in at])
            told = np.array([curves[i].miss_ratio for i in at])
            ratios[at, :rows, 1 : columns + 1] = told
            ratios[at, :rows, columns + 1 :] = told[:, :, -1:]
        return cls(sizes, ratios)

    @classmethod
    def joined(cls, parts: Sequence["PackedCurves"]) -> "PackedCurves":
        """Concatenate several packs."""
        count = sum(len(one.sizes_bytes) for one in parts)
        policies = max((one.miss_ratio.shape[1] for one in parts), default=0)
        points = max((one.sizes_bytes.shape[1] for one in parts), default=1)
        sizes = np.full((count, points), BEYOND_BYTES)
        ratios = np.ones((count, policies, points))
        begin = 0
        for one in parts:
            end = begin + len(one.sizes_bytes)
            _, rows, columns = one.miss_ratio.shape
            sizes[begin:end, :columns] = one.sizes_bytes
            ratios[begin:end, :rows, :columns] = one.miss_ratio
            ratios[begin:end, :rows, columns:] = one.miss_ratio[:, :, -1:]
            begin = end
        return cls(sizes, ratios)

    def cells(self, sizes_bytes: IntArray) -> Cells:
        """Locate sizes of shape (N, K) on the grids."""
        count, points = self.sizes_bytes.shape
        below = self._below(sizes_bytes)
        at = below + (np.arange(count) * points)[:, None]
        low = self.sizes_bytes.ravel().take(at)
        high = self.sizes_bytes.ravel().take(at + 1)
        return Cells(at, np.minimum((sizes_bytes - low) / (high - low), 1.0))

    def _below(self, sizes_bytes: IntArray) -> IntArray:
        """Index of the grid point at or below each size, (N, K)."""
        inner = self.sizes_bytes[:, 1:-1].T[:, :, None]
        sizes = sizes_bytes.astype(np.float64)
        if sizes.size * len(inner) <= AT_ONCE_MAX and len(inner) <= COUNTED_MAX:
            reached = sizes >= np.ascontiguousarray(inner)
            # Summing bytes, a row of tenants and sizes at a time, is many times as fast as counting
            # each.
            found: IntArray = reached.view(np.uint8).sum(axis=0, dtype=np.uint8).astype(np.int64)
            return found
        below = np.zeros(sizes.shape, dtype=np.int64)
        for column in inner:
            below += sizes >= column
        return below

    @cached_property
    def _by_policy(self) -> FloatArray:
        """The curves of one policy after another, (P, N x S)."""
        policies = self.miss_ratio.shape[1]
        return np.ascontiguousarray(self.miss_ratio.swapaxes(0, 1)).reshape(policies, -1)

    def least_miss(self, cells: Cells, allowed: BoolArray) -> tuple[FloatArray, IntArray]:
        """The lower envelope of the policies `allowed`, (N, P), at sizes of shape (N, K).

        Returns the miss ratio, 1 where no policy is allowed, and the index of its policy, or -1.
        """
        above = cells.at + 1
        if cells.at.size * allowed.shape[1] <= FEW:
            low = self._by_policy.take(cells.at, axis=1)
            ratio = self._by_policy.take(above, axis=1)
            ratio -= low
            ratio *= cells.part
            ratio += low
            ratio[~allowed.T] = ABOVE_ALL
            least = ratio.min(axis=0, initial=ABOVE_ALL)
            best = np.where(least < ABOVE_ALL, ratio.argmin(axis=0), -1)
            return np.minimum(least, 1.0), best
        least = np.full(cells.at.shape, ABOVE_ALL)
        best = np.full(cells.at.shape, -1, dtype=np.int64)
        for policy in np.flatnonzero(allowed.any(axis=0)).tolist():
            low = self._by_policy[policy].take(cells.at)
            ratio = self._by_policy[policy].take(above)
            ratio -= low
            ratio *= cells.part
            ratio += low
            better = ratio < least
            better &= allowed[:, policy, None]
            np.copyto(least, ratio, where=better)
            np.copyto(best, policy, where=better)
        return np.minimum(least, 1.0), best

    def miss_at(self, cells: Cells, policy: IntArray) -> FloatArray:
        """Miss ratio at sizes of shape (N, K) under the policy of each tenant, (N,)."""
        count, policies, points = self.miss_ratio.shape
        rows = np.arange(count)
        # From row x S to (row x P + policy) x S.
        at = cells.at + ((rows * (policies - 1) + policy) * points)[:, None]
        return Cells(at, cells.part).read(self.miss_ratio)

    def miss(self, sizes_bytes: IntArray, policy: IntArray) -> FloatArray:
        """Miss ratio at sizes of shape (N, K); combines `cells` and `miss_at`."""
        return self.miss_at(self.cells(sizes_bytes), policy)

    def first_size(self, miss: FloatArray) -> FloatArray:
        """The least size at which each curve falls to the tenant's `miss`, (N,); shape (N, P).

        Bytes; inf if the curve never falls that far.
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
