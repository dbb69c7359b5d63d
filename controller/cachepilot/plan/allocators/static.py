# SPDX-License-Identifier: Apache-2.0
"""`static`: tenants keep policies, unless pinned, and limits as far as bounds and budget allow."""

import numpy as np

from cachepilot.plan.problem.problem import Allocation, Problem


def allocate(problem: Problem, random: np.random.Generator) -> Allocation:
    """The present allocation, shrunk towards the least limits where it exceeds the budget."""
    limits = np.clip(problem.current_bytes, problem.low_bytes, problem.high_bytes)
    if int(limits.sum()) > problem.budget_bytes:
        limits = problem.low_bytes
    return Allocation(problem.given, limits)
