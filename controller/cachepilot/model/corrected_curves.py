# SPDX-License-Identifier: Apache-2.0
"""Miss ratio curves corrected by measurements at a few limits.

Most errors, such as those of the sample or of unseen accesses, are the same for all policies.
Therefore a correction applies to the curves of all policies.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cachepilot.domain.snapshot import Curves, FloatArray, IntArray
from cachepilot.model.limit_calibration import Shifts

Rows = npt.NDArray[Any]


@dataclass(frozen=True, eq=False, slots=True)
class Joined:
    """Curves with limits added to their sizes, not corrected.

    `columns` are the miss ratios at the added limits, shape (P, 1), each with its index among the
    columns before it. The other fields are those of `Curves`, with the limits included.
    """

    curves: Curves
    columns: tuple[tuple[int, FloatArray], ...]
    sizes_bytes: IntArray
    error_bar: Rows | None
    step_bar: Rows | None

    @classmethod
    def of(cls, curves: Curves, limits: Iterable[int]) -> "Joined":
        """Add limits to curves. Ratios, errors and squared step errors are linear in between."""
        sizes: list[int] = curves.sizes_bytes.tolist()
        ratios, columns = curves.miss_ratio.astype(np.float64), []
        bars, steps = curves.error_bar, curves.step_bar
        for limit in limits:
            at = bisect_left(sizes, limit)
            if limit <= 0 or (at < len(sizes) and sizes[at] == limit):
                continue
            low = sizes[at - 1] if at else 0
            part = (limit - low) / (sizes[at] - low) if at < len(sizes) else 0.0
            sizes.insert(at, limit)
            columns.append((at, _column(ratios, at, part, 1.0)))
            ratios = _inserted(ratios, *columns[-1])
            bars = None if bars is None else _inserted(bars, at, _column(bars, at, part, 0.0))
            steps = None if steps is None else _divided(steps, at, part)
        known = np.array(sizes, dtype=np.int64)
        for one in (known, bars, steps):
            if one is not None:
                one.setflags(write=False)
        return cls(curves, tuple(columns), known, bars, steps)

    def corrected(self, shifts: Shifts) -> Curves:
        """The curves, corrected by `shifts` at the limits that were added."""
        rows = self.curves.miss_ratio.astype(np.float64)
        for at, column in self.columns:
            rows = _inserted(rows, at, column)
        if len(shifts) == 1:
            rows += shifts[0][1]
        else:
            logs = np.log(np.array([limit for limit, _ in shifts], dtype=np.float64))
            rows += np.interp(np.log(self.sizes_bytes), logs, [shift for _, shift in shifts])
        np.minimum(np.maximum(rows, 0.0, out=rows), 1.0, out=rows)
        # `Curves` does not copy read-only arrays.
        rows.setflags(write=False)
        sizes, bars, steps = self.sizes_bytes, self.error_bar, self.step_bar
        return Curves.of_checked(self.curves.policies, sizes, rows, bars, steps)


def _column(rows: Rows, at: int, part: float, start: float) -> Rows:
    """The values at `part` of the way to column `at`; `start` is before the first column."""
    if at == rows.shape[1]:
        return rows[:, -1:].copy()
    low = rows[:, at - 1 : at] if at else start
    return np.asarray(low + (rows[:, at : at + 1] - low) * part, dtype=rows.dtype)


def _inserted(rows: Rows, at: int, column: Rows) -> Rows:
    return np.concatenate((rows[:, :at], column, rows[:, at:]), axis=1)


def _divided(steps: Rows, at: int, part: float) -> Rows:
    """Step errors with step `at` divided in two; beyond the last size there is no step error."""
    if at == steps.shape[1]:
        return np.concatenate((steps, np.zeros_like(steps[:, :1])), axis=1)
    whole, ways = steps[:, at : at + 1], (math.sqrt(part), math.sqrt(1 - part))
    both = [(whole * way).astype(steps.dtype) for way in ways]
    return np.concatenate((steps[:, :at], *both, steps[:, at + 1 :]), axis=1)


class Corrections:
    """The latest corrected curves of one tenant, reused until its curves or corrections change."""

    __slots__ = ("_found", "_joined", "_shifts")

    def __init__(self) -> None:
        self._joined: Joined | None = None
        self._shifts: Shifts = ()
        self._found: Curves | None = None

    def of(self, curves: Curves, shifts: Shifts) -> Curves:
        """All curves of the tenant, corrected; the limits of `shifts` become sizes of them."""
        if not any(shift for _, shift in shifts):
            return curves
        joined, found = self._joined, self._found
        is_known = joined is not None and joined.curves is curves
        if is_known and found is not None and shifts == self._shifts:
            return found
        limits = [limit for limit, _ in shifts]
        if joined is None or not is_known or limits != [limit for limit, _ in self._shifts]:
            joined = self._joined = Joined.of(curves, limits)
        self._shifts, self._found = shifts, joined.corrected(shifts)
        return self._found
