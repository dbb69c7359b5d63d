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

SMALL = 64
"""Fewer weights are sorted as they are."""


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
    """Partial choices by rising weight, and by rising value; all arrays of shape (L,).

    `origin` is the index of the state that each came from, times the `options` of the class, plus
    the option that was added: one number, for the time goes into calls on small arrays.
    """

    weight: IntArray
    loss: FloatArray
    origin: IntArray
    options: int


def _by_weight(weight: IntArray, heaviest: int) -> IntArray:
    """The order of rising weights, equal ones as they come: a stable argsort, a faster one.

    Sorts numbers that hold the weight, at most `heaviest`, above the index, where both fit into
    63 bits.
    """
    bits = int(weight.size).bit_length()
    if weight.size < SMALL or heaviest >= 1 << (63 - bits):
        return np.argsort(weight, kind="stable")
    keys = (weight << bits) | np.arange(weight.size)
    keys.sort()
    order: IntArray = keys & ((1 << bits) - 1)
    return order


def _undominated(states: _States, price: float, heaviest: int, limits: Limits) -> _States:
    order = _by_weight(states.weight, heaviest)
    # On arrays this small `take` needs half the time of indexing.
    loss, weight = states.loss.take(order), states.weight.take(order)
    value = price * weight
    value -= loss
    if limits.resolution > 0:
        value /= limits.resolution
        np.floor(value, out=value)
    # A state must exceed the greatest value before it.
    exceeds = np.empty(value.size, dtype=np.bool_)
    exceeds[:1] = True
    np.greater(value[1:], np.maximum.accumulate(value[:-1]), out=exceeds[1:])
    kept = exceeds.nonzero()[0]
    if kept.size > limits.states:
        least = np.argpartition(loss[kept], limits.states)[: limits.states]
        kept = kept[np.sort(least)]
    origin = states.origin.take(order.take(kept))
    return _States(weight.take(kept), loss.take(kept), origin, states.options)


def _extend(
    states: _States, weights: IntArray, losses: FloatArray, heaviest: int, limits: Limits
) -> _States:
    """Every state with every option of the next class, if it may still lead somewhere."""
    loss = (states.loss[:, None] + losses).ravel()
    weight = (states.weight[:, None] + weights).ravel()
    kept = loss <= limits.loss
    # States come by rising weight: the last one is the heaviest.
    if int(states.weight[-1]) + int(weights.max()) > heaviest:
        kept &= weight <= heaviest
    origin = kept.nonzero()[0]
    return _States(weight.take(origin), loss.take(origin), origin, weights.size)


def _best(states: _States, price: float, limits: Limits) -> int:
    """The lightest of those states that are worth most to within the resolution.

    It is the last of those that nothing dominates, found without putting them in order.
    """
    value = price * states.weight - states.loss
    if limits.resolution > 0:
        value = np.floor(value / limits.resolution)
    most = (value == value.max()).nonzero()[0]
    return int(most[states.weight[most].argmin()])


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
    states = _States(none, np.zeros(1), none, 1)
    steps: list[_States] = []
    for i, (weight, loss) in enumerate(zip(weights, losses, strict=True)):
        heaviest = capacity - int(rest[i + 1])
        states = _extend(states, weight, loss, heaviest, limits)
        if states.weight.size == 0:
            return None
        # Of the last states only the best matters, unless there may be too many.
        if i + 1 < len(weights) or states.weight.size > limits.states:
            states = _undominated(states, price, heaviest, limits)
        steps.append(states)
    at = _best(states, price, limits)
    found = []
    for step in reversed(steps):
        at, option = divmod(int(step.origin[at]), step.options)
        found.append(option)
    return found[::-1]
