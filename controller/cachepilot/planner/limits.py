# SPDX-License-Identifier: Apache-2.0
"""Between which limits every tenant may move, at all and in one cycle."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.errors import InputError
from cachepilot.planner.config import Config
from cachepilot.planner.objectives import Objective, size_bytes
from cachepilot.planner.snapshot import BoolArray, IntArray, Snapshot, Tenant
from cachepilot.sizes import human_bytes, pages_down


class InfeasibleError(InputError):
    """The least that tenants must have is more than the node's budget; names the node and both."""


@dataclass(frozen=True)
class Limits:
    """What every tenant may get at all, `least` to `most`, and this cycle, `low` to `high`.

    Bytes, arrays of shape (N,). `widened` when the limits exceed the budget, so that they must
    shrink by more than the bound on movement.
    """

    least: IntArray
    most: IntArray
    low: IntArray
    high: IntArray
    widened: bool


def limits_of(
    tenants: Sequence[Tenant],
    objectives: Sequence[Objective],
    movable: BoolArray,
    snapshot: Snapshot,
    config: Config,
) -> Limits:
    """The limits of tenants under their objectives; who is not movable keeps what it has.

    Raises InfeasibleError when what tenants must have exceeds the budget of the node.
    """
    node = snapshot.node
    budget = node.budget_bytes
    count = len(tenants)
    current = np.array([tenant.limit_bytes for tenant in tenants], dtype=np.int64)
    floor = np.array([tenant.floor_bytes for tenant in tenants], dtype=np.int64)
    stated = [(one.memory_min, one.memory_max) for one in objectives]
    minima = [0 if low is None else size_bytes(low, budget) for low, _ in stated]
    maxima = [budget if high is None else size_bytes(high, budget) for _, high in stated]
    least = np.where(movable, np.maximum(floor, np.array(minima, dtype=np.int64)), current)
    most = np.where(movable, np.maximum(least, np.array(maxima, dtype=np.int64)), current)
    if int(least.sum()) > budget:
        raise InfeasibleError(
            f"node {node.name}: tenants must have {human_bytes(int(least.sum()))} "
            f"(floors, memory_min, and what may not change), more than the budget of "
            f"{human_bytes(budget)}"
        )
    step = int(config.movement_share * budget)
    low = np.maximum(least, current - step)
    high = np.maximum(low, np.minimum(most, current + step))
    excess = int(low.sum()) - budget
    if count and excess > 0:
        share = excess / int((low - least).sum())
        lower = pages_down(low - np.ceil((low - least) * share).astype(np.int64))
        low = np.maximum(least, lower)
    return Limits(least, most, low, high, excess > 0)
