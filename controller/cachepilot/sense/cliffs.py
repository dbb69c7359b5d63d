# SPDX-License-Identifier: Apache-2.0
"""Cliffs of curves: where between two sizes a curve falls is not known, so at the larger one.

Between the sizes of the wire curves are straight. Of a convex curve that is an upper bound. Where
a curve falls faster than before it is not convex: of a loop nothing hits until all of it fits, and
a straight line tells hits at sizes that have none (performance cliffs: Beckmann and Sanchez, Talus,
HPCA 2015). There it is taken to go on as before and to fall at the end.
"""

import numpy as np
import numpy.typing as npt

from cachepilot.domain.snapshot import Curves, FloatArray, IntArray
from cachepilot.sizes import PAGE_BYTES

SURE = 1.7
"""Times an error bar, which is exceeded by chance once in 20: once in 1,000, as a tenant has some
hundred steps."""


def with_cliffs(curves: Curves) -> Curves:
    """The same with one more size a page below each at whose end a cliff may be.

    A fall that may be chance is none; without error bars none may be.
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
    """What each size but the first would miss if a curve fell on as before, (P, S - 1).

    Before the first size it comes from a miss ratio of 1 at no memory; a rise is not continued.
    """
    known = np.concatenate((np.ones((len(ratios), 1)), ratios), axis=1)
    lengths = np.diff(sizes, prepend=0)
    slope = np.minimum(np.diff(known, axis=1) / lengths, 0.0)
    found: FloatArray = np.maximum(ratios[:, :-1] + slope[:, :-1] * lengths[1:], 0.0)
    return found


def _errors(curves: Curves) -> FloatArray:
    """By how much `_as_before` and what it is compared with may differ by chance, (P, S - 1)."""
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
    """With columns before those `at`; of the error of a step each part has its share."""
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
