# SPDX-License-Identifier: Apache-2.0
"""`static`: tenants keep their policies and limits.

Exceptions are pinned policies, and limits that exceed the bounds or the budget.
"""

import numpy as np

from cachepilot.plan.problem.problem import Allocation, Problem


def allocate(problem: Problem, random: np.random.Generator) -> Allocation:
    """The present allocation within the bounds; the least limits if it exceeds the budget."""
    limits = np.clip(problem.current_bytes, problem.low_bytes, problem.high_bytes)
    if int(limits.sum()) > problem.budget_bytes:
        limits = problem.low_bytes
    return Allocation(problem.given, limits)
