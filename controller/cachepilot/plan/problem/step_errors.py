# SPDX-License-Identifier: Apache-2.0
"""The errors of the difference of a curve between two limits, for all tenants at once.

This is the vectorised form of `Measured.error_between` in `sense.curves.wire_curves`. The squares
of the errors of steps add up, and a part of a step contributes the same part of its square. The
error is at most that of two independent values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import BoolArray, Curves, FloatArray
from cachepilot.plan.problem.packed_curves import Cells, alike


@dataclass(frozen=True)
class StepErrors:
    """Errors of the policy in force of each tenant, on the grids of `PackedCurves`; both (N, S).

    `variance` is the cumulative sum of the squares of the errors of steps up to each size; NaN if
    the curves have error bars but none of steps. `bar` are the half-widths of the error bars. Both
    are 0 if the curves have no error bars.
    """

    variance: FloatArray
    bar: FloatArray

    @classmethod
    def of(cls, curves: Sequence[Curves], present: Sequence[int], points: int) -> "StepErrors":
        """Pack the errors of every tenant, in their order; `points` is S."""
        variance, bar = np.zeros((2, len(curves), points))
        for (_, columns), at in alike(curves).items():
            bars = {i: one[present[i]] for i in at if (one := curves[i].error_bar) is not None}
            told = {i: one[present[i]] for i in bars if (one := curves[i].step_bar) is not None}
            if bars:
                rows = list(bars)
                variance[rows, 1 : columns + 1] = np.nan
                bar[rows, 1 : columns + 1] = np.array(list(bars.values()))
                bar[rows, columns + 1 :] = bar[rows, columns, None]
            if told:
                steps = np.array(list(told.values()))
                variance[list(told), 1 : columns + 1] = steps * steps
        return cls(np.cumsum(variance, axis=1), bar)

    def without(self, rows: BoolArray) -> "StepErrors":
        """Return the same errors with 0 for the tenants that `rows`, (N,), marks."""
        variance, bar = (np.where(rows[:, None], 0.0, one) for one in (self.variance, self.bar))
        return StepErrors(variance, bar)

    def between(self, ends: Cells, start: Cells) -> FloatArray:
        """Half-widths of the differences between `ends` (N, K) and `start` (N, 1), at most 1."""
        apart = np.hypot(ends.read(self.bar), start.read(self.bar))
        steps = np.sqrt(np.abs(ends.read(self.variance) - start.read(self.variance)))
        found: FloatArray = np.minimum(np.fmin(apart, steps), 1.0)
        return found
