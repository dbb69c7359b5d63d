# SPDX-License-Identifier: Apache-2.0
"""Dynamic programming over lists of undominated states, fathomed by a Lagrangian bound.

Each option of a class has a weight and a loss: how much less than the best option it is worth when
capacity has its dual price. The bound falls by the losses of the options taken, so a state whose
losses exceed what bound and best known value are apart leads nowhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.planner.snapshot import FloatArray, IntArray


@dataclass(frozen=True)
class Limits:
    """When a state is dropped.

    Its losses exceed `loss`; a lighter one is worth no less than it to within `resolution`; or
    more than `states` are left, of which those with the least losses stay.
    """

    loss: float
    resolution: float
    states: int


@dataclass(frozen=True)
class _States:
    """Partial choices by rising weight, and by rising value; all arrays of shape (L,)."""

    weight: IntArray
    loss: FloatArray
    parent: IntArray
    option: IntArray

    def take(self, index: IntArray) -> "_States":
        """The states of an index, in its order."""
        return _States(self.weight[index], self.loss[index], self.parent[index], self.option[index])


def _undominated(states: _States, price: float, limits: Limits) -> _States:
    states = states.take(np.argsort(states.weight, kind="stable"))
    value = price * states.weight - states.loss
    if limits.resolution > 0:
        value = np.floor(value / limits.resolution)
    # The greatest value so far, one place to the right: a state must exceed it.
    before = np.concatenate(([-np.inf], np.maximum.accumulate(value)[:-1]))
    states = states.take(np.flatnonzero(value > before))
    if states.loss.size > limits.states:
        least = np.argpartition(states.loss, limits.states)[: limits.states]
        states = states.take(np.sort(least))
    return states


def _extend(
    states: _States, weights: IntArray, losses: FloatArray, heaviest: int, limits: Limits
) -> _States:
    """Every state with every option of the next class, if it may still lead somewhere."""
    weight = (states.weight[:, None] + weights[None, :]).ravel()
    loss = (states.loss[:, None] + losses[None, :]).ravel()
    kept = np.flatnonzero((loss <= limits.loss) & (weight <= heaviest))
    parent, option = np.divmod(kept, weights.size)
    return _States(weight[kept], loss[kept], parent, option)


def search(
    weights: Sequence[IntArray],
    losses: Sequence[FloatArray],
    capacity: int,
    price: float,
    limits: Limits,
) -> list[int] | None:
    """The option of each class that together are worth most; None when no choice is left.

    `weights` and `losses` have an array of shape (M,) per class; `price` is that of capacity.
    """
    rest = np.cumsum([0, *(int(one.min()) for one in reversed(weights))])[::-1]
    none = np.zeros(1, dtype=np.int64)
    states = _States(none, np.zeros(1), none, none)
    steps: list[_States] = []
    for i, (weight, loss) in enumerate(zip(weights, losses, strict=True)):
        heaviest = capacity - int(rest[i + 1])
        states = _undominated(_extend(states, weight, loss, heaviest, limits), price, limits)
        if states.weight.size == 0:
            return None
        steps.append(states)
    at = int((price * states.weight - states.loss).argmax())
    found = []
    for step in reversed(steps):
        found.append(int(step.option[at]))
        at = int(step.parent[at])
    return found[::-1]
