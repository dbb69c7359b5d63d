# SPDX-License-Identifier: Apache-2.0
"""What an allocator is: a pure function from a problem to an allocation."""

from typing import Protocol

import numpy as np

from cachepilot.plan.problem.problem import Allocation, Problem


class Allocator(Protocol):
    """Chooses policy and limit of every tenant.

    Limits are within [low_bytes, high_bytes] of the problem and their sum within its budget;
    tenants that are not movable keep policy and limit. The same problem and the same state of
    `random` give the same allocation.
    """

    def __call__(self, problem: Problem, random: np.random.Generator) -> Allocation:
        """The allocation; it is up to the caller to value it."""
        ...
