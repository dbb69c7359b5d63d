# SPDX-License-Identifier: Apache-2.0
"""Cliffs in curves: a steep fall between two sizes is taken to be at the larger one.

Between the sizes on the wire curves are linear, which is an upper bound for a convex curve. If a
curve falls faster than before, it is not convex there: nothing of a loop hits until all of it fits,
and a straight line predicts hits at sizes that have none (performance cliffs: Beckmann and Sanchez,
Talus, HPCA 2015). Such a curve is assumed to go on as before and to fall at the end of the step.
"""

import numpy as np
import numpy.typing as npt

from cachepilot.domain.snapshot import Curves, FloatArray, IntArray
from cachepilot.sizes import PAGE_BYTES

SURE = 1.7
"""Multiple of an error bar that a cliff must exceed. The bar is exceeded by chance once in 20, and
this multiple once in 1,000: a tenant has some hundred steps."""


def with_cliffs(curves: Curves) -> Curves:
    """The curves with a size added, one page below each size at which a cliff may be.

    A fall that may be due to chance is no cliff. Without error bars, every faster fall is one.
    """
    sizes, ratios = curves.sizes_bytes, curves.miss_ratio.astype(np.float64)
    if sizes.size < 2:
        return curves
    expected, before_last = _as_before(sizes, ratios), sizes[1:] - PAGE_BYTES
    is_cliff = expected - ratios[:, 1:] > SURE * _errors(curves)
    at = np.flatnonzero(is_cliff.any(axis=0) & (before_last > sizes[:-1]))
    if not at.size:
        return curves
    part = (before_last[at] - sizes[at]) / (sizes[at + 1] - sizes[at])
    first, last = ratios[:, at], ratios[:, at + 1]
    straight = first + (last - first) * part
    lower = first + (expected[:, at] - first) * part
    found = np.where(is_cliff[:, at], np.maximum(lower, straight), straight)
    fall = first - last
    evenly = np.broadcast_to(part, fall.shape).copy()
    share = np.divide(first - found, fall, out=evenly, where=fall > 0)
    return _inserted(curves, at + 1, before_last[at], found, share)


def _as_before(sizes: IntArray, ratios: FloatArray) -> FloatArray:
    """Miss ratios at all sizes but the first if each step fell like the one before, (P, S - 1).

    The step before the first size begins at a miss ratio of 1 without memory. Rises do not
    continue.
    """
    known = np.concatenate((np.ones((len(ratios), 1)), ratios), axis=1)
    lengths = np.diff(sizes, prepend=0)
    slope = np.minimum(np.diff(known, axis=1) / lengths, 0.0)
    found: FloatArray = np.maximum(ratios[:, :-1] + slope[:, :-1] * lengths[1:], 0.0)
    return found


def _errors(curves: Curves) -> FloatArray:
    """Error bars of the difference between `_as_before` and the curves, shape (P, S - 1)."""
    if curves.error_bar is None:
        return np.zeros((len(curves.policies), curves.sizes_bytes.size - 1))
    bars = curves.error_bar.astype(np.float64)
    steps = np.hypot(bars, np.concatenate((np.zeros((len(bars), 1)), bars[:, :-1]), axis=1))
    if curves.step_bar is not None:
        steps = np.minimum(steps, curves.step_bar)
    lengths = np.diff(curves.sizes_bytes, prepend=0)
    found: FloatArray = np.hypot(steps[:, 1:], steps[:, :-1] * (lengths[1:] / lengths[:-1]))
    return found


def _inserted(
    curves: Curves, at: npt.NDArray[np.intp], sizes: IntArray, ratios: FloatArray, share: FloatArray
) -> Curves:
    """Curves with columns inserted before `at`; `share` of a step's squared error goes left."""
    bars, steps, kind = curves.error_bar, curves.step_bar, curves.miss_ratio.dtype
    if bars is not None:
        bars = np.insert(bars, at, np.maximum(bars[:, at - 1], bars[:, at]), axis=1)
    if steps is not None:
        told = steps[:, at]
        rest = steps.copy()
        rest[:, at] = told * np.sqrt(1 - share)
        steps = np.insert(rest, at, told * np.sqrt(share), axis=1)
    return Curves(
        curves.policies,
        np.insert(curves.sizes_bytes, at, sizes),
        np.insert(curves.miss_ratio, at, ratios.astype(kind), axis=1),
        bars,
        steps,
    )
