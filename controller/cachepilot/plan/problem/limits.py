# SPDX-License-Identifier: Apache-2.0
"""Between which limits every tenant may move, at all and in one cycle."""

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
    """The least that tenants must have is more than the node's budget; names the node and both."""


@dataclass(frozen=True)
class Limits:
    """What every tenant may get at all, `least` to `most`, and this cycle, `low` to `high`.

    Bytes, arrays of shape (N,). `widened` when the limits exceed the budget, so that they must
    shrink by more than the bound on movement. By `over_bytes` even the least of them exceed it,
    because of what may not change: then nobody gets more than its least, nor more than it has
    beyond what the budget leaves.
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
    """Least and most of every tenant, and whose limit is given: no choice; shape (N,) each."""
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
    """The least of every tenant, (N,): its floor, `memory_min`, or the limit that it keeps."""
    return bounds(asked, free, budget)[0]


def _shared(node: Node) -> str:
    """The memory that tenants share, in words."""
    told = f"the budget of {human_bytes(node.budget_bytes)}"
    if node.away_bytes:
        told += (
            f", of which tenants that are missing or to come hold {human_bytes(node.away_bytes)}"
        )
    return told


def _cut(asked: Asked, least: IntArray, budget: int) -> IntArray:
    """The least of every tenant where they exceed the budget: only what it leaves makes it grow."""
    had = [max(tenant.limit_bytes, tenant.floor_bytes) for tenant in asked.tenants]
    kept = np.minimum(least, np.array(had, dtype=np.int64))
    room = max(0, budget - int(kept.sum()))
    growth = (least - kept) * (room / max(1, int((least - kept).sum())))
    found: IntArray = kept + pages_down(growth.astype(np.int64))
    return found


def limits_of(asked: Asked, free: frozenset[Held], snapshot: Snapshot, config: Config) -> Limits:
    """The limits of tenants under their objectives.

    Who is not held, or is for a reason in `free`, may get any limit; all others keep what they
    have or what is pinned. Those others may exceed the budget: they count as they are. Raises
    InfeasibleError when the least of the former alone exceeds it.
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
    # An operator who fixes a limit wants it now: only what the planner chooses moves in steps.
    low = np.where(given, least, np.maximum(least, current - step))
    high = np.where(given, least, np.maximum(low, np.minimum(most, current + step)))
    excess = int(low.sum()) - node.shared_bytes
    if current.size and excess > 0:
        share = excess / int((low - least).sum())
        lower = pages_down(low - np.ceil((low - least) * share).astype(np.int64))
        low = np.maximum(least, lower)
    return Limits(least, most, low, high, excess > 0, 0)
