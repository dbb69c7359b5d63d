# SPDX-License-Identifier: Apache-2.0
"""Curves corrected by what was measured at a few limits.

Most of what is wrong is wrong of all policies alike: the sample, or accesses that are not seen.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cachepilot.domain.snapshot import BoolArray, Curves, FloatArray, IntArray
from cachepilot.model.limit_calibration import Shifts


@dataclass(frozen=True, eq=False)
class Joined:
    """Curves of P policies over their own sizes and A limits more, (S,) together; not corrected.

    `is_own` says which sizes are the curves' own, (S,); `ratios` are the others' miss ratios,
    (P, S - own). `sizes_bytes`, `error_bar` and `step_bar` are as in `Curves`.
    """

    curves: Curves
    limits: tuple[int, ...]
    sizes_bytes: IntArray
    is_own: BoolArray
    ratios: FloatArray
    error_bar: npt.NDArray[Any] | None
    step_bar: npt.NDArray[Any] | None

    @classmethod
    def of(cls, curves: Curves, limits: tuple[int, ...]) -> "Joined":
        """Limits become points of the curves."""
        known = curves.sizes_bytes
        # Of so few a set is joined in a fraction of the time that arrays take.
        own = known.tolist()
        sizes = np.array(sorted({*own, *(one for one in limits if one > 0)}), dtype=np.int64)
        is_own = np.isin(sizes, known, assume_unique=True)
        between, others = _Between(known, sizes), _Between(known, sizes[~is_own])
        ratios = others.read(curves.miss_ratio, 1.0)
        bars = None if curves.error_bar is None else _single(between.read(curves.error_bar, 0.0))
        steps = None if curves.step_bar is None else _single(between.steps(curves.step_bar))
        for one in (sizes, bars, steps):
            if one is not None:
                one.setflags(write=False)
        return cls(curves, limits, sizes, is_own, ratios, bars, steps)

    def corrected(self, shifts: Shifts) -> Curves:
        """The curves, corrected by `shifts` of the limits that they were joined with."""
        rows = np.empty((len(self.curves.policies), self.sizes_bytes.size))
        rows[:, self.is_own] = self.curves.miss_ratio
        rows[:, ~self.is_own] = self.ratios
        if len(shifts) == 1:
            rows += shifts[0][1]
        else:
            logs = np.log(np.array([limit for limit, _ in shifts], dtype=np.float64))
            told = [shift for _, shift in shifts]
            rows += np.interp(np.log(self.sizes_bytes.astype(np.float64)), logs, told)
        np.minimum(np.maximum(rows, 0.0, out=rows), 1.0, out=rows)
        # What is read-only is not copied.
        rows.setflags(write=False)
        sizes, bars, steps = self.sizes_bytes, self.error_bar, self.step_bar
        return Curves.of_checked(self.curves.policies, sizes, rows, bars, steps)


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


def _single(errors: FloatArray) -> npt.NDArray[Any]:
    """In single precision, as they came: an error needs no more."""
    return errors.astype(np.float32)


class _Between:
    """Where sizes lie among the known ones, for all rows at once."""

    def __init__(self, known: IntArray, sizes: IntArray) -> None:
        points = np.concatenate(([0], known))
        # Flat after the last: as if of it.
        inside = np.minimum(sizes, points[-1])
        self._above = np.searchsorted(points, inside)
        low, high = points[self._above - 1], points[self._above]
        self._part = (inside - low) / (high - low)

    def read(self, rows: FloatArray, start: float) -> FloatArray:
        """Rows over the known sizes read at the sizes; linear, from `start` at no memory."""
        told = np.full((rows.shape[0], rows.shape[1] + 1), start)
        told[:, 1:] = rows
        low, high = told[:, self._above - 1], told[:, self._above]
        found: FloatArray = low + (high - low) * self._part
        return found

    def steps(self, rows: FloatArray) -> FloatArray:
        """Errors of steps from size to size; of a part of a step that part of its square."""
        variance = self.read(np.cumsum(rows * rows, axis=1, dtype=np.float64), 0.0)
        found: FloatArray = np.sqrt(np.diff(variance, axis=1, prepend=0.0).clip(0.0))
        return found
