# SPDX-License-Identifier: Apache-2.0
"""`proportional`: memory in proportion to the weights of tenants; policies stay, unless pinned."""

import numpy as np

from cachepilot.plan.allocators.slo_first import with_kept
from cachepilot.plan.allocators.water_filling import water_fill
from cachepilot.plan.problem.problem import Allocation, Problem


def allocate(problem: Problem, random: np.random.Generator) -> Allocation:
    """Return shares of the budget by weight, within the bounds of each tenant."""
    load = problem.valued(problem.unchanged())[1] if problem.given.size else problem.load
    problem = with_kept(problem.under(load))
    limits = water_fill(problem.weight, problem.low_bytes, problem.high_bytes, problem.budget_bytes)
    return Allocation(problem.given, limits)
