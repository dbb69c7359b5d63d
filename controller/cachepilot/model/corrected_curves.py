# SPDX-License-Identifier: Apache-2.0
"""Curves corrected by what was measured at a few limits.

Most of what is wrong is wrong of all policies alike: the sample, or accesses that are not seen.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cachepilot.domain.snapshot import Curves, FloatArray, IntArray
from cachepilot.model.limit_calibration import Shifts

Rows = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Joined:
    """Curves whose points some limits are, too; not corrected, otherwise as `Curves`."""

    curves: Curves
    limits: tuple[int, ...]
    sizes_bytes: IntArray
    miss_ratio: FloatArray
    error_bar: Rows | None
    step_bar: Rows | None

    @classmethod
    def of(cls, curves: Curves, limits: tuple[int, ...]) -> "Joined":
        """Between two points a curve, its error and the square of its step are straight lines."""
        sizes: list[int] = curves.sizes_bytes.tolist()
        ratios = curves.miss_ratio.astype(np.float64)
        bars, steps = curves.error_bar, curves.step_bar
        for limit in limits:
            at = bisect_left(sizes, limit)
            if limit <= 0 or (at < len(sizes) and sizes[at] == limit):
                continue
            low = sizes[at - 1] if at else 0
            part = (limit - low) / (sizes[at] - low) if at < len(sizes) else 0.0
            sizes.insert(at, limit)
            ratios = _inserted(ratios, at, part, 1.0)
            bars = None if bars is None else _inserted(bars, at, part, 0.0)
            steps = None if steps is None else _divided(steps, at, part)
        known = np.array(sizes, dtype=np.int64)
        for one in (known, bars, steps):
            if one is not None:
                one.setflags(write=False)
        return cls(curves, limits, known, ratios, bars, steps)

    def corrected(self, shifts: Shifts) -> Curves:
        """The curves, corrected by `shifts` of the limits that they were joined with."""
        if len(shifts) == 1:
            rows = self.miss_ratio + shifts[0][1]
        else:
            logs = np.log(np.array([limit for limit, _ in shifts], dtype=np.float64))
            told = [shift for _, shift in shifts]
            rows = self.miss_ratio + np.interp(np.log(self.sizes_bytes), logs, told)
        np.minimum(np.maximum(rows, 0.0, out=rows), 1.0, out=rows)
        # What is read-only is not copied.
        rows.setflags(write=False)
        sizes, bars, steps = self.sizes_bytes, self.error_bar, self.step_bar
        return Curves.of_checked(self.curves.policies, sizes, rows, bars, steps)


def _inserted(rows: Rows, at: int, part: float, start: float) -> Rows:
    """With a column before column `at`, so far on the way there; the first way is from `start`.

    After the last column what it is.
    """
    if at == rows.shape[1]:
        column = rows[:, -1:]
    else:
        low = rows[:, at - 1 : at] if at else start
        column = low + (rows[:, at : at + 1] - low) * part
    return np.concatenate((rows[:, :at], column, rows[:, at:]), axis=1, dtype=rows.dtype)


def _divided(steps: Rows, at: int, part: float) -> Rows:
    """Errors of steps where one is divided; none is told beyond the last size."""
    if at == steps.shape[1]:
        return np.concatenate((steps, np.zeros_like(steps[:, :1])), axis=1)
    whole, ways = steps[:, at : at + 1], (math.sqrt(part), math.sqrt(1 - part))
    both = [(whole * way).astype(steps.dtype) for way in ways]
    return np.concatenate((steps[:, :at], *both, steps[:, at + 1 :]), axis=1)


class Corrections:
    """What was made of the curves of one tenant last, while neither they nor limits change."""

    __slots__ = ("_found", "_joined", "_shifts")

    def __init__(self) -> None:
        self._joined: Joined | None = None
        self._shifts: Shifts = ()
        self._found: Curves | None = None

    def of(self, curves: Curves, shifts: Shifts) -> Curves:
        """Every curve of the tenant, corrected; the limits of `shifts` become points of them."""
        if not any(shift for _, shift in shifts):
            return curves
        joined, found = self._joined, self._found
        if joined is None or joined.curves is not curves:
            joined, found = None, None
        if found is not None and shifts == self._shifts:
            return found
        limits = tuple(limit for limit, _ in shifts)
        if joined is None or joined.limits != limits:
            joined = self._joined = Joined.of(curves, limits)
        self._shifts, self._found = shifts, joined.corrected(shifts)
        return self._found


def corrected_curves(curves: Curves, shifts: Shifts) -> Curves:
    """`Corrections.of` curves that were not corrected before."""
    return Corrections().of(curves, shifts)
