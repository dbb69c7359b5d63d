# SPDX-License-Identifier: Apache-2.0
"""The choice of a policy, and its regret."""

from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cachepilot.choice import BY_CURVES, SAMPLED_PAGES_MIN, Cell, choice_rate, regrets

POLICIES = ["lru", "s3fifo", "kernel_lru", "arc"]
ratios = st.fixed_dictionaries({name: st.floats(0, 1) for name in POLICIES})
cells = st.lists(st.builds(Cell, st.just("t"), st.integers(1, 9), ratios, ratios), min_size=1)


@given(cells)
def test_regret_is_never_negative_and_the_mean_is_below_the_worst(found: list[Cell]) -> None:
    rows = regrets(found)
    assert rows[0].strategy == BY_CURVES
    assert len(rows) == 4
    for row in rows:
        assert 0 <= row.mean <= row.worst + 1e-12 <= 1 + 1e-12


@given(st.lists(st.builds(lambda m: Cell("t", 1, m, m), ratios), min_size=1))
def test_perfect_curves_have_no_regret(found: list[Cell]) -> None:
    assert regrets(found)[0].worst == 0


def test_the_choice_and_regret_of_an_example() -> None:
    measured = {"lru": 0.5, "s3fifo": 0.4, "arc": 0.3}
    predicted = {"lru": 0.5, "s3fifo": 0.2, "arc": 0.3}
    by_curves, lru, s3fifo = regrets([Cell("a", 7, measured, predicted)])
    assert (by_curves.mean, lru.mean, s3fifo.mean) == pytest.approx((0.1, 0.2, 0.1))
    assert (lru.worst_trace, lru.worst_size_pages) == ("a", 7)
    assert lru.strategy == "always lru"


@given(st.integers(1, 1 << 40))
def test_rate_leaves_enough_pages(footprint: int) -> None:
    rate = choice_rate(footprint)
    assert 0 < rate <= 1
    if rate < 1:
        mean = rate * footprint
        assert mean - 2.9 * sqrt(mean * (1 - rate)) >= SAMPLED_PAGES_MIN
    else:
        assert footprint <= SAMPLED_PAGES_MIN + 3 * sqrt(SAMPLED_PAGES_MIN)


def test_no_cells_no_rows() -> None:
    assert regrets([]) == []
