# SPDX-License-Identifier: Apache-2.0
"""Service time and accesses per operation of several tenants, fitted at once.

Robust least squares of the logarithm of the time per operation, with the damping of Levenberg and
Marquardt: in service and accesses themselves, of which that time is linear, the valley that one is
traded for the other in is straight. The tests hold it against `scipy.optimize.least_squares`, which
takes some milliseconds for each tenant.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import FloatArray

Pair = tuple[float, float]
"""Service time, microseconds, and accesses per operation."""
SERVICE_US_MIN = 1e-3
LOW, HIGH = (SERVICE_US_MIN, 1e-6), (1e12, 1e12)
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

    def __init__(self, of: FloatArray, seen: FloatArray, weight: FloatArray) -> None:
        self.of, self.seen, self.weight = of, seen, weight

    @classmethod
    def posed(cls, problems: Sequence[SplitProblem]) -> "_Batch":
        """All of them."""
        shape = len(problems), 1 + max(one.log_seen.size for one in problems)
        of = np.ones((shape[0], 2, shape[1]))
        of[:, 0, 0] = 0.0
        seen, weight = np.zeros(shape), np.zeros(shape)
        for i, one in enumerate(problems):
            size = 1 + one.log_seen.size
            of[i, 1, 1:size] = one.misses_us
            seen[i, 1:size], weight[i, 1:size] = one.log_seen, one.root_weight
        seen[:, 0] = np.log([one.accesses for one in problems])
        weight[:, 0] = [one.prior_weight for one in problems]
        weight /= SOFT
        return cls(of, seen, weight)

    def only(self, rows: list[int]) -> "_Batch":
        """Those of some rows."""
        return _Batch(self.of[rows], self.seen[rows], self.weight[rows])

    def look(self, at: FloatArray) -> tuple[list[float], list[FloatArray]]:
        """The loss "soft_l1" at `at`; residuals, their roots, what times change them by."""
        time_us = (at[:, None] @ self.of)[:, 0]
        off = (np.log(time_us) - self.seen) * self.weight
        root = np.sqrt(1 + off * off)
        return (root - 1).sum(axis=1).tolist(), [off, root, self.weight / time_us]

    def slopes(
        self, off: FloatArray, root: FloatArray, by_time: FloatArray
    ) -> list[tuple[list[float], list[list[float]]]]:
        """Gradient and curvature of the loss of each problem.

        A residual counts by the power -2.5 of its root: by the power -1, as in least squares that
        are weighed again at each step, outliers make for short steps, and by the power -3, as in
        Newton's method, for some that are far too long.
        """
        by = self.of * by_time[:, None]
        gradient = (by @ (off / root)[:, :, None])[:, :, 0]
        curved = (by / (root * root * np.sqrt(root))[:, None]) @ by.transpose(0, 2, 1)
        return list(zip(gradient.tolist(), curved.tolist(), strict=True))


def _step(
    at: Pair, gradient: Sequence[float], curved: Sequence[Sequence[float]], damping: float
) -> Pair:
    """The next point; what is at its bound and would go beyond it stays there."""
    slope, own, held = list(gradient), [1.0, 1.0], [False, False]
    for i in range(2):
        held[i] = (at[i] <= LOW[i] and slope[i] > 0) or (at[i] >= HIGH[i] and slope[i] < 0)
        if held[i]:
            slope[i] = 0.0
        else:
            own[i] = curved[i][i] * (1 + damping)
    both = 0.0 if any(held) else curved[0][1]
    # What is no number, as where this is 0, is no better.
    size = own[0] * own[1] - both * both or math.nan
    service = at[0] + (both * slope[1] - own[1] * slope[0]) / size
    accesses = at[1] + (both * slope[0] - own[0] * slope[1]) / size
    return min(max(service, LOW[0]), HIGH[0]), min(max(accesses, LOW[1]), HIGH[1])


@dataclass(slots=True)
class _Descent:
    """How far one problem is solved: where it is, the loss and its slopes there."""

    at: Pair
    cost: float
    slopes: tuple[list[float], list[list[float]]]
    damping: float = DAMPING

    def tried(self) -> Pair:
        """Where it is to be tried next."""
        return _step(self.at, *self.slopes, self.damping)

    def take(self, tried: Pair, cost: float) -> tuple[bool, bool]:
        """Takes the loss in of what was tried: whether that is better, and whether all is done."""
        before, better = self.at, cost < self.cost
        off = [abs(now - then) < CLOSE * now for now, then in zip(tried, before, strict=True)]
        self.damping = self.damping / 10 if better else min(self.damping * 10, DAMPING_MAX)
        done = all(off) or self.damping >= DAMPING_MAX
        if better:
            done = done or self.cost - cost <= LESS * cost
            self.at, self.cost = tried, cost
        return better, done


def best_splits(problems: Sequence[SplitProblem]) -> list[Pair]:
    """Service time and accesses per operation of the least loss, for each problem.

    Where most intervals are outliers the loss has several minima; then it is one of them.
    """
    if not problems:
        return []
    batch = _Batch.posed(problems)
    start: FloatArray = np.clip([one.start for one in problems], LOW, HIGH)
    costs, here = batch.look(start)
    begun = zip(start.tolist(), costs, batch.slopes(*here), strict=True)
    found = [_Descent((at[0], at[1]), cost, slopes) for at, cost, slopes in begun]
    open_ = list(found)
    for _ in range(STEPS_MAX):
        tried = [one.tried() for one in open_]
        costs, there = batch.look(np.array(tried))
        taken = [one.take(at, cost) for one, at, cost in zip(open_, tried, costs, strict=True)]
        left = [i for i, (_, done) in enumerate(taken) if not done]
        if not left:
            break
        better = [taken[i][0] for i in left]
        if len(left) < len(open_):
            open_, batch = [open_[i] for i in left], batch.only(left)
            here, there = ([part[left] for part in parts] for parts in (here, there))
        if any(better):
            # Where it went on, what was found there is known; elsewhere, what was known before.
            if not all(better):
                is_better = np.array(better)[:, None]
                there = [np.where(is_better, *pair) for pair in zip(there, here, strict=True)]
            here = there
            for one, slopes in zip(open_, batch.slopes(*here), strict=True):
                one.slopes = slopes
    return [one.at for one in found]
