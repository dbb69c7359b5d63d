# SPDX-License-Identifier: Apache-2.0
"""Predictions for every tenant under an allocation, and the best that each could reach."""

from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import FloatArray
from cachepilot.plan.allocators.options import at_sizes
from cachepilot.plan.allocators.slo_first import reach_bytes
from cachepilot.plan.problem.problem import Allocation, Load, Problem


@dataclass(frozen=True)
class Outlook:
    """Predictions for N tenants under one allocation; arrays of shape (N,).

    `value` is the value of the allocation, `load` and `device_iops` the load and the reads per
    second of the device.
    """

    allocation: Allocation
    miss: FloatArray
    ops: FloatArray
    value: float
    load: Load
    device_iops: float


def outlook(problem: Problem, allocation: Allocation) -> Outlook:
    """Predict what an allocation leads to, at the load of the device that results from it."""
    miss = problem.miss(allocation)
    value, load = problem.valued(allocation, miss)
    return Outlook(
        allocation=allocation,
        miss=miss,
        ops=problem.model.ops(miss, load.wait_us),
        value=value,
        load=load,
        device_iops=float(problem.model.device_iops(miss, load.wait_us).sum()),
    )


def attainable_miss(problem: Problem) -> FloatArray:
    """The least miss ratio of each tenant if all others had their least limits, shape (N,).

    It is by the curves, and means something only for tenants that may be changed.
    """
    most = np.maximum(reach_bytes(problem), problem.least_bytes)[:, None]
    points = np.minimum(problem.curves.sizes_bytes[:, 1:], most).astype(np.int64)
    sizes = np.clip(np.hstack((points, most)), problem.least_bytes[:, None], most)
    options = at_sizes(problem, sizes)
    best: FloatArray = np.where(options.usable, options.miss, 1.0).min(axis=1)
    return best
