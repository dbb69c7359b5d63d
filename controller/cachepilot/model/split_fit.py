# SPDX-License-Identifier: Apache-2.0
"""Service time and accesses per operation of several tenants, fitted at once.

Robust least squares of the logarithm of the time per operation, with the damping of Levenberg and
Marquardt: in service and accesses themselves, of which that time is linear, the valley that one is
traded for the other in is straight. The tests hold it against `scipy.optimize.least_squares`, which
takes some milliseconds for each tenant.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import BoolArray, FloatArray

SERVICE_US_MIN = 1e-3
LOW, HIGH = np.array([SERVICE_US_MIN, 1e-6]), np.array([1e12, 1e12])
SOFT = 0.1
"""A residual far above counts linearly, one far below by its square."""
STEPS_MAX = 200
CLOSE = 1e-6
"""A step of no more than that part of what it changes is not worth another."""
LESS = 1e-8
"""Nor is one that lowers the loss by no more than that part of it."""
DAMPING, DAMPING_MAX = 1e-3, 1e9


@dataclass(frozen=True)
class SplitProblem:
    """One tenant: what was seen in N intervals, and where to begin.

    Logarithms of the time per operation, `log_seen`, and the wait per access, `misses_us`, have the
    shape (N,), as has `root_weight`, which residuals weigh. That of the logarithm of accesses per
    operation against `accesses` weighs `prior_weight`. `start` are service time and accesses.
    """

    log_seen: FloatArray
    misses_us: FloatArray
    root_weight: FloatArray
    accesses: float
    prior_weight: float
    start: tuple[float, float]


class _Batch:
    """Problems padded to one length, the prior first: as if a time of accesses alone was seen.

    `of` is what service and accesses count for in each time, (B, 2, N); others have the shape
    (B, N), and weights of padding are 0.
    """

    def __init__(self, problems: Sequence[SplitProblem]) -> None:
        shape = len(problems), 1 + max(one.log_seen.size for one in problems)
        self.of = np.ones((shape[0], 2, shape[1]))
        self.of[:, 0, 0] = 0.0
        self.seen, self.weight = np.zeros(shape), np.zeros(shape)
        for i, one in enumerate(problems):
            size = 1 + one.log_seen.size
            self.of[i, 1, 1:size] = one.misses_us
            self.seen[i, 1:size], self.weight[i, 1:size] = one.log_seen, one.root_weight
        self.seen[:, 0] = np.log([one.accesses for one in problems])
        self.weight[:, 0] = [one.prior_weight for one in problems]
        self.weight /= SOFT

    def look(self, at: FloatArray) -> tuple[FloatArray, ...]:
        """The loss "soft_l1" at `at`, (B,); residuals, their roots, what times change them by."""
        time_us = (at[:, None] @ self.of)[:, 0]
        off = (np.log(time_us) - self.seen) * self.weight
        root = np.sqrt(1 + off * off)
        return (root - 1).sum(axis=1), off, root, self.weight / time_us

    def slopes(
        self, off: FloatArray, root: FloatArray, by_time: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Gradient, (B, 2), and curvature, (B, 2, 2), of the loss.

        A residual counts by the power -2.5 of its root: by the power -1, as in least squares that
        are weighed again at each step, outliers make for short steps, and by the power -3, as in
        Newton's method, for some that are far too long.
        """
        by = self.of * by_time[:, None]
        gradient: FloatArray = (by @ (off / root)[:, :, None])[:, :, 0]
        curved: FloatArray = (by / (root * root * np.sqrt(root))[:, None]) @ by.transpose(0, 2, 1)
        return gradient, curved


def _step(
    at: FloatArray, gradient: FloatArray, curved: FloatArray, damping: FloatArray
) -> FloatArray:
    """The next point, (B, 2); what is at its bound and would go beyond it stays there."""
    held = ((at <= LOW) & (gradient > 0)) | ((at >= HIGH) & (gradient < 0))
    slope = np.where(held, 0.0, gradient)
    both = np.where(held.any(axis=1), 0.0, curved[:, 0, 1])
    own = curved[:, (0, 1), (0, 1)] * (1 + damping)[:, None]
    first, last = np.where(held, 1.0, own).T
    step = both[:, None] * slope[:, ::-1] - np.stack((last, first), axis=1) * slope
    found: FloatArray = np.clip(at + step / (first * last - both**2)[:, None], LOW, HIGH)
    return found


def best_splits(problems: Sequence[SplitProblem]) -> list[tuple[float, float]]:
    """Service time and accesses per operation of the least loss, for each problem.

    Where most intervals are outliers the loss has several minima; then it is one of them.
    """
    if not problems:
        return []
    batch = _Batch(problems)
    at: FloatArray = np.clip([one.start for one in problems], LOW, HIGH)
    damping = np.full(len(problems), DAMPING)
    done: BoolArray = np.zeros(len(problems), dtype=np.bool_)
    cost, *here = batch.look(at)
    for _ in range(STEPS_MAX):
        tried = _step(at, *batch.slopes(*here), damping)
        found, *there = batch.look(tried)
        better = (found < cost) & ~done
        damping = np.where(better, damping / 10, np.minimum(damping * 10, DAMPING_MAX))
        done |= (np.abs(tried - at) < CLOSE * tried).all(axis=1) | (damping >= DAMPING_MAX)
        done |= better & (cost - found <= LESS * found)
        at = np.where(better[:, None], tried, at)
        cost = np.where(better, found, cost)
        if bool(done.all()):
            break
        # Where all went on, what was found there is known.
        here = there if bool(better.all()) else list(batch.look(at)[1:])
    return [(service, accesses) for service, accesses in at.tolist()]
