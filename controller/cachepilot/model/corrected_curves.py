# SPDX-License-Identifier: Apache-2.0
"""Miss ratio curves corrected by measurements at a few limits.

Most errors, such as those of the sample or of unseen accesses, are the same for all policies.
Therefore a correction applies to the curves of all policies.
"""

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

    `columns` are the miss ratios at the A added limits, shape (P, A). `order` sorts the columns of
    the curves, followed by these, by size. The other fields are those of `Curves`, with the limits
    included.
    """

    curves: Curves
    columns: FloatArray
    order: IntArray
    sizes_bytes: IntArray
    error_bar: Rows | None
    step_bar: Rows | None

    @classmethod
    def of(cls, curves: Curves, limits: Iterable[int]) -> "Joined":
        """Add limits to curves. Ratios, errors and squared step errors are linear in between."""
        own: list[int] = curves.sizes_bytes.tolist()
        sizes = np.array([*own, *{one for one in limits if one > 0}.difference(own)])
        order = sizes.argsort()
        # Where each size is, counted in columns of the curves: the first is 1, and no memory is 0.
        place = np.interp(sizes, [0, *own], np.arange(len(own) + 1.0))
        added, place = place[len(own) :], place[order]
        columns = _between(curves.miss_ratio, 1.0, added)
        sizes, bars, steps = sizes[order], curves.error_bar, curves.step_bar
        if bars is not None:
            between = _between(bars, 0.0, added)
            bars = np.concatenate((bars, between), axis=1, dtype=bars.dtype).take(order, 1)
        if steps is not None:
            ways = np.sqrt(np.ediff1d(place, to_begin=place[0])).astype(steps.dtype)
            steps = steps.take(np.ceil(place).astype(np.intp) - 1, 1) * ways
        for one in (sizes, bars, steps):
            if one is not None:
                one.setflags(write=False)
        return cls(curves, columns, order, sizes, bars, steps)

    def corrected(self, shifts: Shifts) -> Curves:
        """The curves, corrected by `shifts` at the limits that were added."""
        rows = np.concatenate((self.curves.miss_ratio, self.columns), axis=1).take(self.order, 1)
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


def _between(rows: Rows, start: float, place: FloatArray) -> FloatArray:
    """The values of rows at places between their columns; `start` is the value at place 0."""
    above = np.ceil(place).astype(np.intp)
    part = place - above + 1
    high, low = rows.take(above - 1, 1), np.where(above > 1, rows.take(above - 2, 1), start)
    return np.asarray(low + (high - low) * part)


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
