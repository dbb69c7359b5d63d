# SPDX-License-Identifier: Apache-2.0
"""What each tenant may choose from: sizes that matter, each under the present or the best policy.

Between two points of a curve the miss ratio is a straight line and throughput, its reciprocal, is
convex: so is the greater throughput of several policies. Memory therefore pays at the points of
the curves, or at an end of what a tenant may get, for all tenants but one; sizes between them are
there for that one, and for what rounding leaves.
"""

from dataclasses import dataclass

import numpy as np

from cachepilot.planner.problem import Problem
from cachepilot.planner.snapshot import BoolArray, FloatArray, IntArray
from cachepilot.sizes import PAGE_BYTES

SIZES_BETWEEN = 1024
"""Sizes between the points of the curves, of all tenants together."""
SIZES_BETWEEN_RANGE = (2, 64)
"""The least and the most of them per tenant."""

STAY, SWITCH = 0, 1


@dataclass(frozen=True)
class Options:
    """Options of N tenants: first K sizes under the present policy, then K under the best other.

    `sizes_bytes`, `miss`, `policy` (an index into the tenant's curves) and `usable` have the shape
    (N, 2K).
    """

    sizes_bytes: IntArray
    miss: FloatArray
    policy: IntArray
    usable: BoolArray

    def beside(self, others: "Options") -> "Options":
        """Both tables, side by side."""
        return Options(
            np.hstack((self.sizes_bytes, others.sizes_bytes)),
            np.hstack((self.miss, others.miss)),
            np.hstack((self.policy, others.policy)),
            np.hstack((self.usable, others.usable)),
        )


def at_sizes(problem: Problem, sizes_bytes: IntArray) -> Options:
    """The options of every tenant at its sizes, (N, K)."""
    miss_stay = problem.curves.miss(sizes_bytes, problem.present)
    miss_stay = np.where(problem.movable[:, None], miss_stay, problem.present_miss[:, None])
    miss_switch, policy = problem.curves.least_miss(sizes_bytes, problem.allowed)
    stay = np.broadcast_to(problem.stay[:, None], sizes_bytes.shape)
    present = np.broadcast_to(problem.present[:, None], sizes_bytes.shape)
    return Options(
        np.hstack((sizes_bytes, sizes_bytes)),
        np.hstack((miss_stay, miss_switch)),
        np.hstack((present, np.maximum(policy, 0))),
        np.hstack((stay, policy >= 0)),
    )


def sizes_that_matter(problem: Problem) -> IntArray:
    """Sizes within the bounds of every tenant, shape (N, K), repeated where there are fewer.

    The points of its curves, its bounds, what it has, and some between; whole pages but for the
    bounds and what it has.
    """
    count = problem.low_bytes.size
    low, high = problem.low_bytes[:, None], problem.high_bytes[:, None]
    points = np.minimum(problem.curves.sizes_bytes[:, 1:], high).astype(np.int64)
    least, most = SIZES_BETWEEN_RANGE
    between = int(np.clip(SIZES_BETWEEN // max(1, count), least, most))
    steps = np.arange(1, between + 1) / (between + 1)
    inner = low + ((high - low) * steps).astype(np.int64)
    pages = -(-np.hstack((points, inner)) // PAGE_BYTES) * PAGE_BYTES
    sizes = np.hstack((pages, low, high, problem.current_bytes[:, None]))
    return np.clip(sizes, low, high)


def values(problem: Problem, options: Options) -> FloatArray:
    """Weighted throughput less the costs of change and of device reads, shape (N, 2K).

    -inf where an option is not usable.
    """
    load = problem.load
    switched = options.policy != problem.present[:, None]
    ops = problem.model.ops(options.miss, load.wait_us)
    worth = problem.weight[:, None] * ops - problem.cost(options.sizes_bytes, switched)
    if load.read_price > 0:
        worth = worth - load.read_price * problem.model.device_iops(options.miss, load.wait_us)
    return np.where(options.usable, worth, -np.inf)
