# SPDX-License-Identifier: Apache-2.0
"""The interface of an allocator: a pure function from a problem to an allocation."""

from typing import Protocol

import numpy as np

from cachepilot.plan.problem.problem import Allocation, Problem


class Allocator(Protocol):
    """Chooses the policy and the limit of every tenant.

    Limits are within [low_bytes, high_bytes] of the problem, and their sum is within its budget. A
    tenant that is not movable keeps its policy and its limit. The same problem and the same state
    of `random` give the same allocation.
    """

    def __call__(self, problem: Problem, random: np.random.Generator) -> Allocation:
        """Return an allocation. The caller computes its value."""
        ...
