# SPDX-License-Identifier: Apache-2.0
"""Service time and accesses per operation of a tenant, fitted.

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


class _Loss:
    """The loss of one problem, the prior first: as if a time of accesses alone was seen.

    A fit takes hundreds of looks at a hundred numbers, each of which computes in place: a new array
    would take as long as what is computed of it.
    """

    def __init__(self, one: SplitProblem) -> None:
        self._of: FloatArray = np.vstack(
            (np.ones(one.misses_us.size + 1), np.append(1.0, one.misses_us))
        )
        self._of[0, 0] = 0.0
        self._seen = np.append(math.log(one.accesses), one.log_seen)
        self._weight = np.append(one.prior_weight, one.root_weight) / SOFT
        self._time_us, self._off, self._root, self._some = np.empty((4, self._seen.size))
        self._by: FloatArray = np.empty_like(self._of)

    def at(self, at: Pair) -> float:
        """The loss "soft_l1" there."""
        time_us, off, root, some = self._time_us, self._off, self._root, self._some
        np.dot(at, self._of, out=time_us)
        np.log(time_us, out=off)
        off -= self._seen
        off *= self._weight
        np.multiply(off, off, out=root)
        root += 1
        np.sqrt(root, out=root)
        np.subtract(root, 1, out=some)
        return float(np.add.reduce(some))

    def slopes(self) -> tuple[list[float], list[list[float]]]:
        """Gradient and curvature of the loss where it was looked at last.

        A residual counts by the power -2.5 of its root: by the power -1, as in least squares that
        are weighed again at each step, outliers make for short steps, and by the power -3, as in
        Newton's method, for some that are far too long.
        """
        root, some, by = self._root, self._some, self._by
        np.divide(self._weight, self._time_us, out=some)
        np.multiply(self._of, some, out=by)
        np.divide(self._off, root, out=some)
        gradient = np.dot(by, some)
        np.sqrt(root, out=some)
        some *= root
        some *= root
        return gradient.tolist(), np.dot(by / some, by.T).tolist()


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
    return _within(service, accesses)


def _within(service_us: float, accesses: float) -> Pair:
    return min(max(service_us, LOW[0]), HIGH[0]), min(max(accesses, LOW[1]), HIGH[1])


def best_split(problem: SplitProblem) -> Pair:
    """Service time and accesses per operation of the least loss.

    Where most intervals are outliers the loss has several minima; then it is one of them.
    """
    loss, damping = _Loss(problem), DAMPING
    at = _within(*problem.start)
    cost, slopes = loss.at(at), loss.slopes()
    for _ in range(STEPS_MAX):
        before, tried = at, _step(at, *slopes, damping)
        found = loss.at(tried)
        is_done = all(
            abs(now - then) < CLOSE * now for now, then in zip(tried, before, strict=True)
        )
        if found < cost:
            is_done = is_done or cost - found <= LESS * found
            at, cost, damping = tried, found, damping / 10
        else:
            damping = min(damping * 10, DAMPING_MAX)
        if is_done or damping >= DAMPING_MAX:
            break
        if at is tried:
            slopes = loss.slopes()
    return at
