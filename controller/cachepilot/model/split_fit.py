# SPDX-License-Identifier: Apache-2.0
"""Service time and accesses per operation of several tenants, fitted at once.

Robust least squares of the logarithm of the time per operation, by Newton's method with the damping
of Levenberg and Marquardt: in service and accesses themselves, of which that time is linear, the
valley that one is traded for the other in is straight. The tests hold it against
`scipy.optimize.least_squares`, which takes some milliseconds for each tenant.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import BoolArray, FloatArray

SERVICE_US_MIN = 1e-3
ACCESSES_MIN = 1e-6
MOST = 1e12
LOW = np.array([SERVICE_US_MIN, ACCESSES_MIN])
HIGH = np.array([MOST, MOST])
SOFT = 0.1
"""A residual far above counts linearly, one far below by its square."""
STEPS_MAX = 200
CLOSE = 1e-6
"""A step of no more than that part of what it changes is not worth another."""
LESS = 1e-9
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


@dataclass(frozen=True)
class _Batch:
    """Problems padded to one length: arrays of shape (B, N); weights of padding are 0."""

    log_seen: FloatArray
    misses_us: FloatArray
    root_weight: FloatArray
    log_accesses: FloatArray
    prior_weight: FloatArray

    @classmethod
    def of(cls, problems: Sequence[SplitProblem]) -> "_Batch":
        shape = len(problems), max(one.log_seen.size for one in problems)
        seen, misses, weight = (np.zeros(shape) for _ in range(3))
        for i, one in enumerate(problems):
            length = one.log_seen.size
            seen[i, :length], misses[i, :length] = one.log_seen, one.misses_us
            weight[i, :length] = one.root_weight
        log_accesses = np.log([one.accesses for one in problems])
        return cls(seen, misses, weight, log_accesses, np.array([p.prior_weight for p in problems]))

    def off(self, at: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Weighted residuals at `at`, (B, 2), those of the prior, (B,), and times, (B, N)."""
        time_us = at[:, :1] + at[:, 1:] * self.misses_us
        off = (np.log(time_us) - self.log_seen) * self.root_weight
        return off, self.prior_weight * (np.log(at[:, 1]) - self.log_accesses), time_us


def _cost(off: FloatArray, away: FloatArray) -> FloatArray:
    """The sum of the loss "soft_l1" of all residuals, shape (B,)."""
    soft = np.sqrt(1 + (off / SOFT) ** 2).sum(axis=1) - off.shape[1]
    found: FloatArray = soft + np.sqrt(1 + (away / SOFT) ** 2) - 1
    return found


def _slopes(
    batch: _Batch, at: FloatArray, off: FloatArray, away: FloatArray, time_us: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gradient, (B, 2), and second derivatives, (B, 3): of service, of both, of accesses.

    Where these do not curve upwards, those of Gauss and Newton, which always do. What a bound holds
    does not count: the other goes on by its own.
    """
    root = 1 / np.sqrt(1 + (off / SOFT) ** 2)
    root_away = 1 / np.sqrt(1 + (away / SOFT) ** 2)
    by_service = batch.root_weight / time_us
    by_accesses = by_service * batch.misses_us
    by_prior = batch.prior_weight / at[:, 1]
    pull, pull_prior = root * off, root_away * away * by_prior
    gradient = np.stack(
        (
            (pull * by_service).sum(axis=1),
            (pull * by_accesses).sum(axis=1) + pull_prior,
        ),
        axis=1,
    )
    pull /= time_us

    def curvature(root: FloatArray, root_away: FloatArray) -> FloatArray:
        weighted, prior = root * by_service, root_away * by_prior**2
        return np.stack(
            (
                (weighted * by_service).sum(axis=1),
                (weighted * by_accesses).sum(axis=1),
                (root * by_accesses**2).sum(axis=1) + prior,
            ),
            axis=1,
        )

    newton = curvature(root**3, root_away**3)
    newton[:, 0] -= (pull * by_service).sum(axis=1)
    newton[:, 1] -= (pull * by_accesses).sum(axis=1)
    newton[:, 2] -= (pull * by_accesses * batch.misses_us).sum(axis=1) + pull_prior / at[:, 1]
    held = _held(at, gradient)
    rises = held | (newton[:, ::2] > 0)
    apart = held.any(axis=1) | (newton[:, 0] * newton[:, 2] > newton[:, 1] ** 2)
    convex = rises.all(axis=1) & apart
    if bool(convex.all()):
        return gradient, newton
    return gradient, np.where(convex[:, None], newton, curvature(root, root_away))


def _held(at: FloatArray, gradient: FloatArray) -> BoolArray:
    """What is at its bound and would go beyond it, (B, 2)."""
    found: BoolArray = ((at <= LOW) & (gradient > 0)) | ((at >= HIGH) & (gradient < 0))
    return found


def _step(
    at: FloatArray, gradient: FloatArray, curved: FloatArray, damping: FloatArray
) -> FloatArray:
    """The next point, (B, 2); what is at its bound and would go beyond it stays there."""
    held = _held(at, gradient)
    slope = np.where(held, 0.0, gradient)
    both = np.where(held.any(axis=1), 0.0, curved[:, 1])
    first, last = np.where(held, 1.0, curved[:, ::2] * (1 + damping)[:, None]).T
    scale = first * last - both**2
    step = np.stack(
        (both * slope[:, 1] - last * slope[:, 0], both * slope[:, 0] - first * slope[:, 1]), axis=1
    )
    found: FloatArray = np.clip(at + step / scale[:, None], LOW, HIGH)
    return found


def best_splits(problems: Sequence[SplitProblem]) -> list[tuple[float, float]]:
    """Service time and accesses per operation of the least loss, for each problem.

    Where most intervals are outliers the loss has several minima; then it is one of them.
    """
    if not problems:
        return []
    batch = _Batch.of(problems)
    at: FloatArray = np.clip([one.start for one in problems], LOW, HIGH)
    off, away, time_us = batch.off(at)
    cost = _cost(off, away)
    damping = np.full(len(problems), DAMPING)
    gradient, curved = _slopes(batch, at, off, away, time_us)
    for _ in range(STEPS_MAX):
        tried = _step(at, gradient, curved, damping)
        off, away, time_us = batch.off(tried)
        found = _cost(off, away)
        better: BoolArray = found < cost
        moved = (np.abs(tried - at) / tried).max(axis=1)
        damping = np.where(better, damping / 10, damping * 10)
        done = (moved < CLOSE) | (damping > DAMPING_MAX)
        done |= better & (cost - found <= LESS * found)
        at = np.where(better[:, None], tried, at)
        cost = np.where(better, found, cost)
        if bool(done.all()):
            break
        # Where all went on, what was found there is known.
        here = (off, away, time_us) if bool(better.all()) else batch.off(at)
        gradient, curved = _slopes(batch, at, *here)
    return [(service, accesses) for service, accesses in at.tolist()]
