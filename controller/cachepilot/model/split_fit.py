# SPDX-License-Identifier: Apache-2.0
"""Fit of a tenant's service time and accesses per operation.

It is a robust least squares fit of the logarithm of the time per operation, in
`models/src/split_fit.rs`. Tests compare it with `scipy.optimize.least_squares`, which takes some
milliseconds per tenant.
"""

from dataclasses import dataclass

from cachepilot._models import fit_split
from cachepilot.domain.snapshot import FloatArray

Pair = tuple[float, float]
"""Service time, microseconds, and accesses per operation."""
SERVICE_US_MIN = 1e-3
LOW, HIGH = (SERVICE_US_MIN, 1e-6), (1e12, 1e12)
SOFT = 0.1
"""Scale of residuals: far larger ones count linearly, far smaller ones by their square."""


@dataclass(frozen=True)
class SplitProblem:
    """The fit of one tenant: observations of N intervals, and where to begin.

    `log_seen` is the logarithm of the time per operation and `misses_us` the mean wait per access,
    both of shape (N,). `root_weight`, of the same shape, are the weights of residuals.
    `prior_weight` is the weight of the residual between the logarithms of fitted accesses per
    operation and measured ones, `accesses`. `start` are a service time and accesses per operation.
    """

    log_seen: FloatArray
    misses_us: FloatArray
    root_weight: FloatArray
    accesses: float
    prior_weight: float
    start: Pair


def best_split(one: SplitProblem) -> Pair:
    """The service time and accesses per operation with the least loss.

    If most intervals are outliers, the loss has several local minima, and this is one of them.
    """
    weights, prior = one.root_weight / SOFT, (one.accesses, one.prior_weight / SOFT)
    return fit_split(one.log_seen, one.misses_us, weights, prior, one.start, LOW, HIGH)
