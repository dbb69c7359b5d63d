# SPDX-License-Identifier: Apache-2.0
"""By how much the difference of a curve between two limits may be wrong, of all tenants at once.

The vectorised `error_between` of curves of the wire: squares of steps add up, a part of a step
counting that part of its own, and the error is at most that of two independent values.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import BoolArray, Curves, FloatArray
from cachepilot.plan.problem.packed_curves import Cells


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
        for i, (one, row) in enumerate(zip(curves, present, strict=True)):
            if one.error_bar is None:
                continue
            columns = one.sizes_bytes.size
            bar[i, 1 : columns + 1] = one.error_bar[row]
            bar[i, columns + 1 :] = one.error_bar[row, -1]
            steps = np.nan if one.step_bar is None else one.step_bar[row]
            variance[i, 1 : columns + 1] = steps * steps
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
