# SPDX-License-Identifier: Apache-2.0
"""The allocation is exact: compared with enumeration and mixed-integer programming."""

from itertools import product
from typing import Any

import numpy as np
import pytest
from experiments.control_loop import measure
from hypothesis import given, settings
from hypothesis import strategies as st

from cachepilot._models import search_knapsack
from cachepilot.domain.objectives.objective import Goal
from cachepilot.domain.snapshot import Curves, SnapshotError
from cachepilot.plan.allocators import multiple_choice_knapsack
from cachepilot.plan.allocators.multiple_choice_knapsack import solve
from cachepilot.plan.allocators.water_filling import water_fill
from cachepilot.plan.problem.packed_curves import PackedCurves
from cachepilot.sizes import PAGE_BYTES

GOAL_PCT = 0.1


@settings(max_examples=200)
@given(st.integers(0, 100_000), st.integers(1, 5), st.integers(1, 5), st.booleans())
def test_a_small_knapsack_is_solved_like_by_enumeration(
    seed: int, classes: int, options: int, some_forbidden: bool
) -> None:
    random = np.random.default_rng(seed)
    weights = random.integers(0, 20, (classes, options))
    values = random.integers(-5, 30, (classes, options)).astype(float)
    if some_forbidden:
        forbidden = random.random(values.shape) < 0.3
        forbidden[:, 0] = False
        values[forbidden] = -np.inf
    lightest = np.where(np.isfinite(values), weights, 99).min(axis=1).sum()
    capacity = int(lightest + random.integers(0, 30))
    rows = np.arange(classes)
    best = max(
        values[rows, list(choice)].sum()
        for choice in product(range(options), repeat=classes)
        if weights[rows, list(choice)].sum() <= capacity
    )
    found = solve(weights, values, capacity, tolerance=0.0)
    assert weights[rows, found.option].sum() <= capacity
    assert found.value == pytest.approx(values[rows, found.option].sum())
    assert found.value == pytest.approx(best)
    assert found.bound >= best - 1e-9


def test_a_knapsack_that_cannot_be_packed_is_refused() -> None:
    with pytest.raises(ValueError, match="heavier"):
        solve(np.array([[2, 3]]), np.ones((1, 2)), 1, 0.0)


@pytest.mark.parametrize("keep", [0.0, 0.9])
@pytest.mark.parametrize("goal", [Goal.PROPORTIONAL_FAIRNESS, Goal.TOTAL_THROUGHPUT])
@pytest.mark.parametrize("instance", range(5000, 5012))
def test_plans_are_as_good_as_those_of_the_referee(instance: int, goal: Goal, keep: float) -> None:
    found = measure.gap(instance, ("optimal", "annealing"), 32, goal, keep)
    assert found.referee_gap_pct < GOAL_PCT / 10
    assert found.gap_pct["optimal"] <= GOAL_PCT
    assert found.gap_pct["annealing"] >= found.gap_pct["optimal"] - GOAL_PCT


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(0, 1 << 32))
def test_water_fills_up_to_the_brim(seed: int, count: int, more_bytes: int) -> None:
    random = np.random.default_rng(seed)
    low = random.integers(0, 1 << 14, count) * PAGE_BYTES
    high = low + random.integers(0, 1 << 18, count) * PAGE_BYTES
    share = random.uniform(0.1, 10, count)
    budget = int(low.sum()) + more_bytes
    limits = water_fill(share, low, high, budget)
    assert ((limits >= low) & (limits <= high)).all()
    assert limits.sum() <= budget
    left = min(budget, int(high.sum())) - int(limits.sum())
    assert left <= 2 * PAGE_BYTES * count
    free = (limits > low) & (limits < high)
    levels = limits[free] / share[free]
    assert np.ptp(levels, axis=0) <= 2 * PAGE_BYTES / share.min() if free.any() else True


def test_curves_are_packed_and_interpolated_each_on_its_own_grid() -> None:
    one = Curves(("lru",), np.array([100]), np.array([[0.5]]))
    two = Curves(("lru", "lfu"), np.array([50, 200]), np.array([[0.8, 0.2], [0.4, 0.3]]))
    packed = PackedCurves.of([one, two])
    sizes = np.array([[0, 50, 100, 1 << 40], [25, 50, 125, 1 << 40]])
    found = packed.miss(sizes, np.array([0, 0]))
    assert found == pytest.approx(np.array([[1, 0.75, 0.5, 0.5], [0.9, 0.8, 0.5, 0.2]]))
    least, policy = packed.least_miss(packed.cells(sizes), np.array([[True, False], [True, True]]))
    assert least == pytest.approx(np.array([[1, 0.75, 0.5, 0.5], [0.7, 0.4, 0.35, 0.2]]))
    assert policy.tolist() == [[0, 0, 0, 0], [1, 1, 1, 0]]
    first = packed.first_size(np.array([0.75, 0.35]))
    assert first == pytest.approx(np.array([[50, np.inf], [162.5, 125]]))


@pytest.mark.parametrize(
    ("policies", "sizes", "ratios"),
    [
        ((), [1], []),
        (("a", "a"), [1], [[0.1], [0.1]]),
        (("a",), [2, 1], [[0.1, 0.1]]),
        (("a",), [0, 1], [[0.1, 0.1]]),
        (("a",), [1, 2], [[0.1]]),
        (("a",), [1], [[1.1]]),
        (("a",), [1], [[float("nan")]]),
    ],
)
def test_curves_that_cannot_be_are_refused(
    policies: tuple[str, ...], sizes: list[int], ratios: list[list[float]]
) -> None:
    with pytest.raises(SnapshotError, match="curves: "):
        Curves(policies, np.array(sizes), np.array(ratios))


def test_a_search_through_many_classes_keeps_fewer_states_of_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worked: list[int] = []

    def watched(*arguments: Any) -> Any:
        _, _, ends, *_, states = arguments
        worked.append(len(ends) * states)
        return search_knapsack(*arguments)

    monkeypatch.setattr(multiple_choice_knapsack, "search_knapsack", watched)
    random = np.random.default_rng(0)
    weights = np.sort(random.integers(1, 1000, (400, 4)), axis=1)
    values = np.sort(random.random((400, 4)), axis=1)
    found = multiple_choice_knapsack.solve(weights, values, 100_000, 0.0)
    assert worked and all(one <= multiple_choice_knapsack.WORK_MAX for one in worked)
    assert weights[np.arange(400), found.option].sum() <= 100_000
    assert 0.999 * found.bound <= found.value <= found.bound


def test_a_cliff_that_just_does_not_fit_is_paid_for_by_another_without_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("searched")

    monkeypatch.setattr(multiple_choice_knapsack, "search_knapsack", refused)
    # In two classes each ten bytes gain less than the last ten; a third gains 71 by 50 bytes.
    gains = np.concatenate(([0.0], np.cumsum(np.arange(20.0, 9.0, -1.0))))
    cliff = np.concatenate(([0.0, 71.0], np.full(10, -np.inf)))
    values = np.array([gains, gains, cliff])
    weights = np.array([np.arange(12) * 10] * 2 + [[0, *[50] * 11]])
    # Six steps of each are worth their price, which leaves 40 bytes: one must give ten up.
    found = solve(weights, values, 160, tolerance=1.0)
    assert found.option.tolist() in ([5, 6, 1], [6, 5, 1])
    assert found.value == 2 * gains[6] - 15 + 71 and found.bound - found.value <= 1


def test_an_item_that_cannot_fit_by_changing_one_class_is_left() -> None:
    weights = np.array([[0, 10], [0, 10], [0, 10]])
    knapsack = multiple_choice_knapsack._Knapsack(
        weights, weights * 1.0, 9, np.arange(3) * weights.shape[1]
    )
    assert multiple_choice_knapsack._lightened(knapsack, np.ones(3, int)) is None
    fits = multiple_choice_knapsack._Knapsack(weights, weights * 1.0, 20, knapsack.starts)
    found = multiple_choice_knapsack._lightened(fits, np.ones(3, int))
    assert found is not None and fits.weight(found) == 20
