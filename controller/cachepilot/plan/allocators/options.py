# SPDX-License-Identifier: Apache-2.0
"""The options of each tenant: sizes that matter, each under the present or the best policy.

Between two points of a curve the miss ratio is linear in the size. Throughput is the reciprocal of
a linear function of it, so throughput and its logarithm are convex there, and so is the maximum
over several policies. Therefore, for all tenants but one, the optimum is at a point of the curves
or at a bound of the tenant. Sizes between points serve that one tenant, and what rounding leaves.
"""

from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import BoolArray, FloatArray, IntArray
from cachepilot.plan.problem.problem import Problem
from cachepilot.sizes import pages_up

SIZES_BETWEEN = 1024
"""The number of sizes between the points of the curves, for all tenants together."""
SIZES_BETWEEN_RANGE = (2, 256)
"""The least and the greatest number of such sizes per tenant."""


@dataclass(frozen=True)
class Options:
    """Options of N tenants: K sizes under the present policy, then K under the best other one.

    The second half is missing if no tenant may have another policy. `sizes_bytes`, `miss`, `policy`
    (an index into the tenant's curves) and `usable` have the shape (N, 2K), or else (N, K).
    """

    sizes_bytes: IntArray
    miss: FloatArray
    policy: IntArray
    usable: BoolArray

    def beside(self, others: "Options") -> "Options":
        """Join two tables of options, side by side."""
        return Options(
            np.hstack((self.sizes_bytes, others.sizes_bytes)),
            np.hstack((self.miss, others.miss)),
            np.hstack((self.policy, others.policy)),
            np.hstack((self.usable, others.usable)),
        )


def at_sizes(problem: Problem, sizes_bytes: IntArray) -> Options:
    """The options of every tenant at its sizes, (N, K)."""
    cells = problem.curves.cells(sizes_bytes)
    miss_stay = problem.curves.miss_at(cells, problem.present)
    miss_stay = np.where(problem.movable[:, None], miss_stay, problem.present_miss[:, None])
    stay = np.broadcast_to(problem.stay[:, None], sizes_bytes.shape)
    present = np.broadcast_to(problem.present[:, None], sizes_bytes.shape)
    if not problem.allowed.any():
        return Options(sizes_bytes, miss_stay, present, stay)
    miss_switch, policy = problem.curves.least_miss(cells, problem.allowed)
    return Options(
        np.hstack((sizes_bytes, sizes_bytes)),
        np.hstack((miss_stay, miss_switch)),
        np.hstack((present, np.maximum(policy, 0))),
        np.hstack((stay, policy >= 0)),
    )


def sizes_that_matter(problem: Problem) -> IntArray:
    """The points of the curves, the bounds of each tenant and its present limit, shape (N, K).

    All are within the bounds. Points are in whole pages, and repeat if a tenant has fewer than K.
    """
    low, high = problem.low_bytes[:, None], problem.high_bytes[:, None]
    points = np.minimum(problem.curves.sizes_bytes[:, 1:], high).astype(np.int64)
    return np.hstack((np.clip(pages_up(points), low, high), low, high, _present(problem)))


def sizes_between(problem: Problem) -> IntArray:
    """Evenly spaced sizes within the bounds of each tenant, whole pages, shape (N, K)."""
    low, high = problem.low_bytes[:, None], problem.high_bytes[:, None]
    least, most = SIZES_BETWEEN_RANGE
    count = int(np.clip(SIZES_BETWEEN // max(1, low.size), least, most))
    steps = np.arange(1, count + 1) / (count + 1)
    even = low + ((high - low) * steps).astype(np.int64)
    found: IntArray = np.clip(pages_up(even), low, high)
    return found


def _present(problem: Problem) -> IntArray:
    found: IntArray = np.clip(problem.current_bytes, problem.low_bytes, problem.high_bytes)
    return found[:, None]


def values(problem: Problem, options: Options) -> FloatArray:
    """The worth of options minus the costs of change and of device reads, of their shape.

    -inf where an option is not usable.
    """
    load = problem.load
    switched = options.policy != problem.present[:, None]
    ops = problem.model.ops(options.miss, load.wait_us)
    worth = problem.worth(ops) - problem.cost(options.sizes_bytes, switched)
    if load.read_price > 0:
        worth = worth - load.read_price * problem.model.device_iops(options.miss, load.wait_us)
    return np.where(options.usable, worth, -np.inf)
