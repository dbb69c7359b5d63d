# SPDX-License-Identifier: Apache-2.0
"""`optimal`: policy and memory together, SLOs first, then the goal.

At a given load of the device only the memory couples the tenants, and a multiple-choice knapsack
gives the exact answer. The load of the device in turn follows from the answer. The allocator
repeats both until they agree. Each time it charges a tenant for the reads that it causes, at the
price that they have for all others.
"""

from dataclasses import dataclass, replace

import numpy as np

from cachepilot.domain.objectives.objective import Goal
from cachepilot.domain.snapshot import BoolArray, IntArray
from cachepilot.plan.allocators.multiple_choice_knapsack import solve
from cachepilot.plan.allocators.options import (
    Options,
    at_sizes,
    sizes_between,
    sizes_that_matter,
    values,
)
from cachepilot.plan.allocators.polishing import polish
from cachepilot.plan.allocators.slo_first import assure, assured_sizes
from cachepilot.plan.problem.problem import Allocation, Load, Problem

AGREEMENT = 0.01
"""How far the assumed wait may be off, as a share of the least time of a miss."""

Rank = tuple[tuple[int, ...], float]


def _chosen(options: Options, option: IntArray) -> Allocation:
    rows = np.arange(option.size)
    return Allocation(options.policy[rows, option], options.sizes_bytes[rows, option])


def _most_worth(problem: Problem, options: Options) -> Allocation:
    assured = assure(problem, options)
    worth = np.where(assured.allows(options), values(problem, options), -np.inf)
    tolerance = problem.config.tolerance * float(problem.whole(0.0).sum())
    choice = solve(options.sizes_bytes, worth, problem.budget_bytes, tolerance)
    found = polish(problem, assured, _chosen(options, choice.option))
    exact = problem.load.wait_us == 0
    return replace(found, bound=choice.bound if exact else None)


def _read_us(problem: Problem, wait_us: float) -> float:
    """The time of a device read with this wait; inf if throughput does not depend on it."""
    idle_us, per_wait = problem.model.per_miss, problem.model.per_wait
    found = np.divide(idle_us, per_wait, out=np.full_like(idle_us, np.inf), where=per_wait > 0)
    return float(found.min()) + wait_us


def _giving(problem: Problem) -> Problem:
    """Let tenants that have more than their keep give memory by their curves alone.

    This ignores the errors of steps, for the goal of least memory. If a curve is wrong, the tenant
    gets its memory back after the interval that shows the need, from memory that nobody uses. The
    error of a step would keep tenants with few sampled accesses from giving anything. A tenant
    whose first memory is not known keeps its present throughput.
    """
    unknown = problem.movable & ~problem.has_slo & (problem.first_bytes == 0)
    found = replace(
        problem,
        keep=np.where(unknown, 1.0, problem.keep),
        first_bytes=np.where(unknown, problem.current_bytes, problem.first_bytes),
        first_miss=np.where(unknown, problem.present_miss, problem.first_miss),
    )
    has_more = found.is_kept & (found.present_miss <= found.kept_miss())
    return replace(found, errors=found.errors.without(has_more))


def _least_memory(problem: Problem, options: Options) -> Allocation:
    """The lightest option of each tenant that meets what it is assured of.

    A change of policy must save a share of the memory: `switch_cost`, the same share as of
    throughput. If then not all tenants fit, a change of policy needs to save nothing.
    """
    allowed = assure(problem, options).allows(options)
    found = _lightest(problem, options, allowed, problem.config.switch_cost)
    if int(found.limit_bytes.sum()) > problem.budget_bytes:
        found = _lightest(problem, options, allowed, 0.0)
    return found


def _lightest(
    problem: Problem, options: Options, allowed: BoolArray, switch_cost: float
) -> Allocation:
    """The lightest option of each tenant; a switch of policy counts as this share more memory."""
    switched = options.policy != problem.present[:, None]
    weight = options.sizes_bytes * (1 + switch_cost * switched)
    weight = np.where(allowed, weight, np.inf)
    lightest = weight <= weight.min(axis=1, keepdims=True)
    worth = np.where(lightest, values(problem, options), -np.inf)
    return _chosen(options, worth.argmax(axis=1))


def _rank(problem: Problem, allocation: Allocation) -> tuple[Rank, Load]:
    """Rank an allocation under the load that results from it, and return that load.

    First come the counts of tenants with what they are assured of, by priority, then the goal.
    """
    miss = problem.miss(allocation)
    value, load = problem.valued(allocation, miss)
    here, slos = problem.under(load), problem.has_slo
    ranks: list[int] = []
    if slos.any():
        met, aimed = (slos & (miss <= here.slo_miss(part)) for part in (0.0, 1.0))
        kept, priority = problem.is_kept & (miss <= here.kept_miss()), problem.priority
        for one in sorted(set(priority[slos].tolist()), reverse=True):
            above, equal = priority > one, priority == one
            order = (kept & above, met & equal, kept & equal, aimed & equal)
            ranks += [int(found.sum()) for found in order]
        ranks.append(int(kept.sum()))
    if problem.goal is Goal.LEAST_MEMORY:
        value = -float(allocation.limit_bytes.sum())
    return (tuple(ranks), value), load


def _is_possible(problem: Problem, allocation: Allocation) -> bool:
    limits = allocation.limit_bytes
    inside = (limits >= problem.low_bytes) & (limits <= problem.high_bytes)
    stays = problem.stay | (allocation.policy != problem.present)
    return bool((inside & stays).all()) and int(limits.sum()) <= problem.budget_bytes


@dataclass(frozen=True)
class _Found:
    rank: Rank
    allocation: Allocation


def allocate(problem: Problem, random: np.random.Generator) -> Allocation:
    """Return the best allocation found; within the tolerance if the device keeps up.

    `bound` is that of the last round.
    """
    unchanged = problem.unchanged()
    rank, load = _rank(problem, unchanged)
    if problem.present.size == 0:
        return unchanged
    never_worse = problem.goal is not Goal.LEAST_MEMORY and not problem.has_slo.any()
    kept = (problem.present_miss <= problem.under(load).kept_miss()).all()
    fine = never_worse and kept and _is_possible(problem, unchanged)
    best = _Found(rank, unchanged) if fine else None
    bound = None
    sizes = np.hstack((sizes_that_matter(problem), sizes_between(problem)))
    common = at_sizes(problem, sizes)
    for _ in range(problem.config.rounds):
        here = problem.under(load)
        if here.goal is Goal.LEAST_MEMORY:
            here = _giving(here)
        options = common
        if here.has_slo.any() or here.is_kept.any():
            options = common.beside(at_sizes(here, assured_sizes(here)))
        solve_here = _least_memory if here.goal is Goal.LEAST_MEMORY else _most_worth
        allocation = solve_here(here, options)
        bound = allocation.bound
        rank, new_load = _rank(problem, allocation)
        if best is None or rank > best.rank:
            best = _Found(rank, allocation)
        if abs(new_load.wait_us - load.wait_us) <= AGREEMENT * _read_us(problem, new_load.wait_us):
            break
        load = new_load
    assert best is not None
    return replace(best.allocation, bound=bound)
