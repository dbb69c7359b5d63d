# SPDX-License-Identifier: Apache-2.0
"""By how much the difference of a curve between two limits may be wrong, of all tenants at once.

The vectorised `error_between` of curves of the wire: squares of steps add up, a part of a step
counting that part of its own, and the error is at most that of two independent values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import BoolArray, Curves, FloatArray
from cachepilot.plan.problem.packed_curves import Cells, alike


@dataclass(frozen=True)
class StepErrors:
    """Of the policy in force of each tenant, on the grids of `PackedCurves`, both (N, S).

    `variance` are the squares of the steps so far at each size, NaN where no steps are told, `bar`
    the half-widths of the error bars; 0 where nothing is told of errors.
    """

    variance: FloatArray
    bar: FloatArray

    @classmethod
    def of(cls, curves: Sequence[Curves], present: Sequence[int], points: int) -> "StepErrors":
        """Packs the errors of every tenant, in their order; `points` is S."""
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
        """The same with no errors of those tenants, (N,)."""
        variance, bar = (np.where(rows[:, None], 0.0, one) for one in (self.variance, self.bar))
        return StepErrors(variance, bar)

    def between(self, ends: Cells, start: Cells) -> FloatArray:
        """Half-widths of the differences between `ends` (N, K) and `start` (N, 1), at most 1."""
        apart = np.hypot(ends.read(self.bar), start.read(self.bar))
        steps = np.sqrt(np.abs(ends.read(self.variance) - start.read(self.variance)))
        found: FloatArray = np.minimum(np.fmin(apart, steps), 1.0)
        return found
