# SPDX-License-Identifier: Apache-2.0
"""Allocate the last bytes at sizes between the options.

`options` explains why at most one tenant has its optimum at such a size.
"""

from dataclasses import replace

import numpy as np

from cachepilot.domain.snapshot import FloatArray, IntArray
from cachepilot.plan.allocators.options import at_sizes, sizes_that_matter, values
from cachepilot.plan.allocators.slo_first import Assured
from cachepilot.plan.problem.problem import Allocation, Problem
from cachepilot.sizes import PAGE_BYTES, pages_down

FILL_STEPS = 4
EXCHANGE_STEPS = 8
EXCHANGE_TENANTS = 16
"""With more tenants than this, exchanges between two are worth too little for their time."""


_Goals = tuple[IntArray, FloatArray, IntArray]
"""Sizes that a tenant may go to in an exchange, their worth and their policies; (N, K) each."""


def _best(problem: Problem, assured: Assured, sizes_bytes: IntArray) -> tuple[FloatArray, IntArray]:
    """The greatest worth at each size, (N, K), and its policy.

    -inf where no option meets what the tenant is assured of.
    """
    options = at_sizes(problem, sizes_bytes)
    worth = np.where(assured.allows(options), values(problem, options), -np.inf)
    if worth.shape == sizes_bytes.shape:
        return worth, options.policy
    stay, switch = np.hsplit(worth, 2)
    policy = np.where(switch > stay, *np.hsplit(options.policy, 2)[::-1])
    return np.maximum(stay, switch), policy


def _set(allocation: Allocation, row: int, policy: int, limit_bytes: int) -> Allocation:
    policies, limits = allocation.policy.copy(), allocation.limit_bytes.copy()
    policies[row], limits[row] = policy, limit_bytes
    return replace(allocation, policy=policies, limit_bytes=limits)


def _fill(problem: Problem, assured: Assured, allocation: Allocation) -> Allocation:
    """Give the memory that is left to the tenant that gains most, repeatedly."""
    for _ in range(FILL_STEPS):
        limits = allocation.limit_bytes
        left = problem.budget_bytes - int(limits.sum())
        if left < PAGE_BYTES:
            break
        raised = np.minimum(pages_down(limits + left), problem.high_bytes)
        sizes = np.stack((limits, np.maximum(limits, raised)), axis=1)
        worth, policy = _best(problem, assured, sizes)
        row = int((worth[:, 1] - worth[:, 0]).argmax())
        if not worth[row, 1] > worth[row, 0]:
            break
        allocation = _set(allocation, row, int(policy[row, 1]), int(sizes[row, 1]))
    return allocation


def _exchange(
    problem: Problem, assured: Assured, allocation: Allocation, goals: _Goals
) -> Allocation | None:
    """The best change of two tenants: one goes to one of its goals, the other takes the rest.

    None if no change gains.
    """
    limits, count = allocation.limit_bytes, allocation.limit_bytes.size
    now = _best(problem, assured, limits[:, None])[0][:, 0]
    points, worth, policy = goals
    free = limits[:, None] - points + problem.budget_bytes - int(limits.sum())
    # A row is a tenant that takes what is free if the tenant of a column goes to the point of that
    # column.
    rest = pages_down(limits[:, None] + free.ravel()[None, :])
    fits = rest >= problem.low_bytes[:, None]
    rest = np.clip(rest, problem.low_bytes[:, None], problem.high_bytes[:, None])
    rest_worth, rest_policy = _best(problem, assured, rest)
    gain = rest_worth - now[:, None] + (worth - now[:, None]).ravel()[None, :]
    owner = np.repeat(np.arange(count), points.shape[1])
    gain[~fits | (owner[None, :] == np.arange(count)[:, None])] = -np.inf
    taker, column = divmod(int(gain.argmax()), gain.shape[1])
    if not gain[taker, column] > 1e-9 * float(np.abs(now).sum()):
        return None
    giver, point = divmod(column, points.shape[1])
    changed = _set(allocation, giver, int(policy[giver, point]), int(points[giver, point]))
    return _set(changed, taker, int(rest_policy[taker, column]), int(rest[taker, column]))


def polish(problem: Problem, assured: Assured, allocation: Allocation) -> Allocation:
    """Return the allocation or a better one within the budget and within `assured`."""
    if allocation.limit_bytes.size == 0:
        return allocation
    allocation = _fill(problem, assured, allocation)
    if 2 <= allocation.limit_bytes.size <= EXCHANGE_TENANTS:
        points = sizes_that_matter(problem)
        goals = (points, *_best(problem, assured, points))
        for _ in range(EXCHANGE_STEPS):
            changed = _exchange(problem, assured, allocation, goals)
            if changed is None:
                break
            allocation = changed
    return allocation
