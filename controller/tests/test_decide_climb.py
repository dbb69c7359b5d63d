# SPDX-License-Identifier: Apache-2.0
"""Climbs: the greatest rise of a sum of gains, and how far noise could have risen as much."""

from typing import Any

import numpy as np
import pytest
from deciding import GROUPS
from hypothesis import given
from hypothesis import strategies as st

from cachepilot.decide.evidence import looks_of, sure_shares
from cachepilot.decide.state import PolicyState
from cachepilot.model.climb import BESIDE, WHITE, Climb, Climbs

NAMES = ("default", "lru", "mru")


def climb_on(
    climb: Climb, saved: Any, accesses: float = 1.0, elapsed_s: float = 1.0, rate: float = 0.0
) -> Climbs:
    """Take an interval of one tenant: pages saved by policy and group."""
    found = Climbs.of([climb])
    pages = np.asarray(saved)[None]
    found.take(pages, np.array([accesses]), np.array([rate]), elapsed_s, 0.0 * pages[:, :, 0])
    found.store([climb])
    return found


@pytest.mark.parametrize("count", [3, 30])
def test_an_error_that_lasts_counts_as_one_look_and_new_ones_as_many(count: int) -> None:
    random = np.random.default_rng(3)
    lasting, changing = Climb(), Climb()
    same = random.normal(4, 1, (1, GROUPS))
    for climb in (lasting, changing):
        climb.restart(1, GROUPS)
    for _ in range(count):
        climb_on(lasting, same)
        climb_on(changing, random.normal(4, 1, (1, GROUPS)))
    of = Climbs.of([lasting, changing])
    looks = of.looks(of.variances())
    assert looks[0] == pytest.approx([1.0])
    assert looks[1, 0] > count / 2.5
    assert of.variances()[1] == pytest.approx(changing.values[:, WHITE], rel=0.8)


@pytest.mark.parametrize("leads", [{}, {"lru": (60.0, 1.0), "mru": (60.0, 1.0)}])
@pytest.mark.parametrize("lasts", [0.0, 0.95, 1.0])
def test_noise_of_any_duration_begins_changes_no_more_often_than_allowed(
    lasts: float, leads: dict[str, tuple[float, float]]
) -> None:
    """At one time, two policies together, after so many intervals of the regime or the lead."""
    random, runs, cost = np.random.default_rng(4), 300, 200.0
    states = [
        PolicyState(policies=list(NAMES), leads=leads, lead_s=40.0, climb=Climb())
        for _ in range(runs)
    ]
    climbs, error = [one.climb for one in states], random.standard_normal((runs, 3, GROUPS))
    for climb in climbs:
        climb.restart(3, GROUPS)
    known = Climbs.of(climbs)
    for _ in range(40):
        new = random.standard_normal(error.shape)
        error = lasts * error + np.sqrt(1 - lasts * lasts) * new
        known.take(error, np.ones(runs), np.zeros(runs), 1.0, np.zeros((runs, 3)))
    known.store(climbs)
    variances, may_lose = known.variances(), np.full(runs, 0.05 * cost)
    looks = looks_of(states, known.looks(variances), 1.0)
    sure = sure_shares(known, variances, looks, np.full((runs, 3), cost), may_lose)
    found = (sure[:, 1:] > 0).any(axis=1).sum()
    assert found / runs <= 0.05 + 2 * np.sqrt(0.05 / runs)


def test_errors_of_a_small_sample_stay_when_all_pages_are_sampled() -> None:
    """The errors of the earlier sample stay in the sum; intervals without errors add none."""
    climb, random = Climb(), np.random.default_rng(1)
    climb.restart(1, GROUPS)
    for _ in range(20):
        climbs = climb_on(climb, 1.0 + random.standard_normal((1, GROUPS)), rate=0.01)
    for _ in range(20):
        climbs = climb_on(climb, np.ones((1, GROUPS)), rate=1.0)
    assert climbs.unseen()[0, 0] == pytest.approx(0.99)
    climbs = climb_on(climb, 1.0 + random.standard_normal((1, GROUPS)), rate=1.0)
    assert 0.9 < climbs.unseen()[0, 0] < 0.99


def test_a_climb_restarts_where_it_falls_to_its_minimum() -> None:
    climb = Climb()
    climb.restart(2, 2)
    climb_on(climb, [[3.0, 2.0], [3.0, 2.0]], 100.0)
    found = climb_on(climb, [[-4.0, 0.0], [-5.0, 0.0]], 100.0)
    assert found.saved.tolist() == [[[-1.0, 2.0], [0.0, 0.0]]]
    assert (found.accesses.tolist(), found.seconds.tolist()) == ([[200.0, 0.0]], [[2.0, 0.0]])
    found = climb_on(climb, np.ones((2, 2)), 100.0, 2.0)
    assert (found.accesses.tolist(), found.seconds.tolist()) == ([[300.0, 100.0]], [[4.0, 2.0]])
    climb.restart(2, 2)
    assert not climb.values.any() and climb.looked == 3


@given(st.lists(st.tuples(st.floats(-1e6, 1e6), st.floats(0, 1e6)), max_size=40))
def test_a_climb_is_the_greatest_rise_that_ends_now(steps: list[tuple[float, float]]) -> None:
    climb = Climb()
    climb.restart(1, 2)
    for risen, accesses in steps:
        climb_on(climb, [[risen, 0.0]], accesses)
    sums = np.concatenate([[0.0], np.cumsum([risen for risen, _ in steps])])
    off = 1e-3 + len(steps) * 6e-8 * np.ptp(sums)
    assert abs(climb.values[:, :-BESIDE].sum() - (sums[-1] - sums.min())) <= off
