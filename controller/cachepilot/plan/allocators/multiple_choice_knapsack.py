# SPDX-License-Identifier: Apache-2.0
"""The multiple-choice knapsack: one option of each class, the greatest value within a capacity.

Kellerer, Pferschy, Pisinger, "Knapsack Problems" (2004), chapter 11. The Lagrangian dual, which
equals the linear relaxation over the concave hulls of the classes, gives a bound and a first
choice. If the gap between the two exceeds the tolerance, the solver drops the options that the
bound rules out. Dynamic programming over lists of undominated states, fathomed by the same bound,
decides the rest: `models/src/knapsack.rs`.
"""

from dataclasses import dataclass

import numpy as np

from cachepilot._models import search_knapsack
from cachepilot.domain.snapshot import FloatArray, IntArray

STATES_MAX = 8192
WORK_MAX = 64 * STATES_MAX
"""The most states of all classes together.

If more than 64 classes are open, each gets fewer states.
"""
DUAL_STEPS = 200
FILL_STEPS = 64


@dataclass(frozen=True)
class Choice:
    """Index of the option of each class, shape (N,), the value, and a bound on any value."""

    option: IntArray
    value: float
    bound: float


@dataclass(frozen=True)
class _Knapsack:
    """Classes of shape (N, M): `weights`, and `values`, -inf where an option is not allowed.

    `starts`, shape (N,), is where each class begins in the flattened arrays.
    """

    weights: IntArray
    values: FloatArray
    capacity: int
    starts: IntArray

    def weight(self, option: IntArray) -> int:
        """Total weight of one option of each class."""
        return int(self.weights_of(option).sum())

    def value(self, option: IntArray) -> float:
        """Total value of one option of each class."""
        return float(self.values_of(option).sum())

    def weights_of(self, option: IntArray) -> IntArray:
        """The weight of the option of each class, shape (N,)."""
        return self.weights.take(self.starts + option)

    def values_of(self, option: IntArray) -> FloatArray:
        """The value of the option of each class, shape (N,)."""
        return self.values.take(self.starts + option)

    def lightest(self) -> IntArray:
        """The lightest option of each class; of several, the most valuable one."""
        weights = np.where(np.isfinite(self.values), self.weights, np.iinfo(np.int64).max)
        least = weights == weights.min(axis=1, keepdims=True)
        best: IntArray = np.where(least, self.values, -np.inf).argmax(axis=1)
        return best

    def at_price(self, price: float) -> IntArray:
        """The best option of each class if capacity costs `price` per unit of weight."""
        best: IntArray = (self.values - price * self.weights).argmax(axis=1)
        return best


def _dual(knapsack: _Knapsack) -> tuple[float, IntArray, IntArray, float]:
    """Return the price that minimises the dual, two choices at it, and the bound that it proves.

    The first choice is feasible. The second is the next one that is too heavy, if there is one;
    otherwise both are the same. The dual is convex and piecewise linear in one variable. At the
    point where the tangents of a price that is too low and of one that is high enough meet, there
    is either the minimum or a new tangent.
    """
    capacity = knapsack.capacity
    over = knapsack.at_price(0.0)
    over_weight, over_value = knapsack.weight(over), knapsack.value(over)
    if over_weight <= capacity:
        return 0.0, over, over, over_value
    within = knapsack.lightest()
    weight, value = knapsack.weight(within), knapsack.value(within)
    price, bound = 0.0, np.inf
    for _ in range(DUAL_STEPS):
        price = max(0.0, (over_value - value) / (over_weight - weight))
        bound = value + price * (capacity - weight)
        new = knapsack.at_price(price)
        new_weight, new_value = knapsack.weight(new), knapsack.value(new)
        excess = new_value + price * (capacity - new_weight) - bound
        if excess <= 1e-12 * max(abs(bound), 1e-300):
            break
        bound += excess
        if new_weight > capacity:
            over, over_weight, over_value = new, new_weight, new_value
        else:
            within, weight, value = new, new_weight, new_value
    return price, within, over, bound


def _fill(knapsack: _Knapsack, option: IntArray) -> IntArray:
    """Spend the capacity that is left, one class at a time, on the greatest gain.

    At most FILL_STEPS changes.
    """
    option = option.copy()
    for _ in range(FILL_STEPS):
        weight = knapsack.weights_of(option)
        value = knapsack.values_of(option)
        left = knapsack.capacity - int(weight.sum())
        gain = knapsack.values - value[:, None]
        gain[knapsack.weights > weight[:, None] + left] = -np.inf
        best = int(gain.argmax())
        row, column = divmod(best, gain.shape[1])
        if not gain[row, column] > 0:
            break
        option[row] = column
    return option


def _lightened(knapsack: _Knapsack, option: IntArray) -> IntArray | None:
    """Change one class of a choice that is too heavy so that the choice fits.

    None if no single change is enough.
    """
    weight, value = knapsack.weights_of(option), knapsack.values_of(option)
    most = weight + (knapsack.capacity - int(weight.sum()))
    kept = np.where(knapsack.weights <= most[:, None], knapsack.values - value[:, None], -np.inf)
    row, column = divmod(int(kept.argmax()), kept.shape[1])
    if not np.isfinite(kept[row, column]):
        return None
    found = option.copy()
    found[row] = column
    return found


def _first(
    knapsack: _Knapsack, within: IntArray, over: IntArray, enough: float
) -> tuple[IntArray, float]:
    """The better of the choices below and above the capacity, filled or lightened, and its value.

    If one class has a cliff, the choice below the capacity leaves almost as much unused as the
    class would need, and other classes could give up the rest at little cost. From below alone a
    search would begin far from its bound. The choice above the capacity is skipped if the value of
    the one below is `enough`.
    """
    filled = _fill(knapsack, within)
    value = knapsack.value(filled)
    lighter = None if value >= enough else _lightened(knapsack, over)
    if lighter is None:
        return filled, value
    lighter = _fill(knapsack, lighter)
    return max((filled, value), (lighter, knapsack.value(lighter)), key=lambda one: one[1])


def _core(
    knapsack: _Knapsack, price: float, choice: Choice, tolerance: float, states_max: int
) -> IntArray:
    """Decide the classes that the bound leaves open; every other class has only one option left."""
    reduced = knapsack.values - price * knapsack.weights
    best = reduced.max(axis=1, keepdims=True)
    # An option with a greater loss cannot be part of a choice that is worth the search.
    slack = choice.bound - choice.value - tolerance / 2
    survives = best - reduced <= slack
    option: IntArray = reduced.argmax(axis=1)
    counts = survives.sum(axis=1)
    rows = np.flatnonzero(counts > 1)
    if rows.size == 0:
        return option
    chosen = knapsack.weights_of(option)
    capacity = knapsack.capacity - int(chosen.sum()) + int(chosen[rows].sum())
    at, kept = survives[rows].nonzero()
    ends = np.cumsum(counts[rows])
    weights = knapsack.weights[rows[at], kept]
    losses = best[rows[at], 0] - reduced[rows[at], kept]
    resolution = tolerance / (2 * rows.size)
    # A search through thousands of classes is rare, but would take longer than an interval.
    states = min(states_max, max(1, WORK_MAX // rows.size))
    found = search_knapsack(weights, losses, ends, capacity, price, slack, resolution, states)
    if found is None:
        return choice.option
    option[rows] = kept[ends - counts[rows] + found]
    return option


def solve(
    weights: IntArray,
    values: FloatArray,
    capacity: int,
    tolerance: float,
    states_max: int = STATES_MAX,
) -> Choice:
    """Return the best option of each class, with a total weight of at most `capacity`.

    `weights` and `values` have shape (N, M); values are -inf where an option is not allowed. The
    value of the choice is at least the bound minus `tolerance`, or within `tolerance` of the
    optimum; both in the unit of the values. Neither is certain if the search met more than
    `states_max` states at once, or more than its share of `WORK_MAX`. Raises ValueError if even the
    lightest options are too heavy.
    """
    starts = np.arange(weights.shape[0]) * weights.shape[1]
    knapsack = _Knapsack(weights, values, capacity, starts)
    if knapsack.weight(knapsack.lightest()) > capacity:
        raise ValueError("the lightest options are heavier than the capacity")
    price, within, over, bound = _dual(knapsack)
    option, value = _first(knapsack, within, over, bound - tolerance)
    choice = Choice(option, value, bound)
    if bound - value <= tolerance:
        return choice
    searched = _fill(knapsack, _core(knapsack, price, choice, tolerance, states_max))
    better = max((searched, option), key=knapsack.value)
    return Choice(better, knapsack.value(better), bound)
