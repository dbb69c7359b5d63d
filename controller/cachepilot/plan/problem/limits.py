# SPDX-License-Identifier: Apache-2.0
"""The bounds of every tenant's limit: in general, and within one control cycle."""

from dataclasses import dataclass

import numpy as np

from cachepilot.domain.objectives.objective import size_bytes
from cachepilot.domain.planned import Held
from cachepilot.domain.snapshot import BoolArray, IntArray, Node, Snapshot
from cachepilot.errors import InputError
from cachepilot.plan.problem.asked import Asked
from cachepilot.plan.problem.config import Config
from cachepilot.sizes import human_bytes, pages_down


class InfeasibleError(InputError):
    """The least memory that tenants must have exceeds the node's budget.

    The message names the node and both sizes.
    """


@dataclass(frozen=True)
class Limits:
    """The bounds of every tenant: `least` to `most` in general, `low` to `high` in this cycle.

    Bytes, arrays of shape (N,). `widened` means that the limits exceed the budget, so that they
    must shrink by more than the bound on movement. `over_bytes` is how far even the least limits
    exceed the budget, because of limits that may not change. In that case the four bounds of a
    tenant are equal. They are its least limit, but a tenant grows towards it only while the budget
    has room.
    """

    least: IntArray
    most: IntArray
    low: IntArray
    high: IntArray
    widened: bool
    over_bytes: int


def bounds(
    asked: Asked, free: frozenset[Held], budget: int
) -> tuple[IntArray, IntArray, BoolArray]:
    """The least and the greatest limit of every tenant, and whether its limit is fixed; (N,) each.

    A fixed limit is pinned, or that of a held tenant; its two bounds are equal.
    """
    floor = np.array([tenant.floor_bytes for tenant in asked.tenants], dtype=np.int64)
    stated = [(one.memory_min, one.memory_max) for one in asked.objectives]
    minima = [0 if low is None else size_bytes(low, budget) for low, _ in stated]
    maxima = [budget if high is None else size_bytes(high, budget) for _, high in stated]
    least = np.maximum(floor, np.array(minima, dtype=np.int64))
    most = np.maximum(least, np.array(maxima, dtype=np.int64))
    limits = asked.limits(free)
    given = np.array([limit is not None for limit in limits], dtype=np.bool_)
    filled = np.array([limit or 0 for limit in limits], dtype=np.int64)
    return np.where(given, filled, least), np.where(given, filled, most), given


def least_limits(asked: Asked, free: frozenset[Held], budget: int) -> IntArray:
    """The least limit of every tenant, (N,): its floor, `memory_min`, or its fixed limit."""
    return bounds(asked, free, budget)[0]


def _shared(node: Node) -> str:
    """Describe the memory that tenants share, for a message."""
    told = f"the budget of {human_bytes(node.budget_bytes)}"
    if node.away_bytes:
        told += (
            f", of which tenants that are missing or to come hold {human_bytes(node.away_bytes)}"
        )
    return told


def _cut(asked: Asked, least: IntArray, budget: int) -> IntArray:
    """The least limits, reduced because their sum exceeds the budget, (N,).

    A tenant keeps its present limit or its floor. The room in the budget is shared in proportion to
    what each tenant lacks.
    """
    had = [max(tenant.limit_bytes, tenant.floor_bytes) for tenant in asked.tenants]
    kept = np.minimum(least, np.array(had, dtype=np.int64))
    room = max(0, budget - int(kept.sum()))
    growth = (least - kept) * (room / max(1, int((least - kept).sum())))
    found: IntArray = kept + pages_down(growth.astype(np.int64))
    return found


def limits_of(asked: Asked, free: frozenset[Held], snapshot: Snapshot, config: Config) -> Limits:
    """Return the bounds of the limits of tenants under their objectives.

    A tenant that is not held, or is held for a reason in `free`, may get any limit. All others keep
    their present or pinned limit, which counts as it is even if these limits exceed the budget.
    Raises InfeasibleError if the least limits of the former tenants alone exceed the budget.
    """
    node = snapshot.node
    budget = node.budget_bytes
    current = np.array([tenant.limit_bytes for tenant in asked.tenants], dtype=np.int64)
    least, most, given = bounds(asked, free, budget)
    chosen = int(least[~given].sum())
    if chosen > node.shared_bytes:
        raise InfeasibleError(
            f"node {node.name}: tenants must have {human_bytes(chosen)} (floors and memory_min), "
            f"more than {_shared(node)}"
        )
    over = int(least.sum()) - node.shared_bytes
    if over > 0:
        cut = _cut(asked, least, node.shared_bytes)
        return Limits(cut, cut, cut, cut, True, over)
    step = int(config.movement_share * budget)
    # An operator who fixes a limit wants it now; only limits that the planner chooses move in
    # steps.
    low = np.where(given, least, np.maximum(least, current - step))
    high = np.where(given, least, np.maximum(low, np.minimum(most, current + step)))
    excess = int(low.sum()) - node.shared_bytes
    if current.size and excess > 0:
        share = excess / int((low - least).sum())
        lower = pages_down(low - np.ceil((low - least) * share).astype(np.int64))
        low = np.maximum(least, lower)
    return Limits(least, most, low, high, excess > 0, 0)
