# SPDX-License-Identifier: Apache-2.0
"""Service time and accesses per operation of a tenant, fitted.

Robust least squares of the logarithm of the time per operation: `models/src/split_fit.rs`. The
tests hold it against `scipy.optimize.least_squares`, which takes some milliseconds for each tenant.
"""

from dataclasses import dataclass

from cachepilot._models import fit_split
from cachepilot.domain.snapshot import FloatArray

Pair = tuple[float, float]
"""Service time, microseconds, and accesses per operation."""
SERVICE_US_MIN = 1e-3
LOW, HIGH = (SERVICE_US_MIN, 1e-6), (1e12, 1e12)
SOFT = 0.1
"""A residual far above counts linearly, one far below by its square."""


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
    start: Pair


def best_split(one: SplitProblem) -> Pair:
    """Service time and accesses per operation of the least loss.

    Where most intervals are outliers the loss has several minima; then it is one of them.
    """
    weights, prior = one.root_weight / SOFT, (one.accesses, one.prior_weight / SOFT)
    return fit_split(one.log_seen, one.misses_us, weights, prior, one.start, LOW, HIGH)
