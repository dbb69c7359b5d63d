# SPDX-License-Identifier: Apache-2.0
"""Evidence: leads, the bounds that they must exceed, and what is left of them without merit."""

from typing import Any

import numpy as np
import pytest
from deciding import (
    ACCESSES,
    CACHE_PAGES,
    COST,
    GROUPS,
    RATE,
    World,
    counterfactual,
    run_all,
    until_all,
)
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.evidence import Evidence, take_all
from cachepilot.decide.state import Interval, PolicyState
from cachepilot.domain.decisions import Event
from cachepilot.model.calibration import SECONDS, SHOWN_S
from cachepilot.model.climb import BESIDE
from cachepilot.sense.counterfactuals import Counterfactual
from cachepilot.tables import Table

CONFIG = DecideConfig()
NAMES = ("default", "lru", "mru")
SAME = dict.fromkeys(NAMES, 1600.0)


def take(
    state: PolicyState, found: Counterfactual, misses: float | None = None, in_force: str = NAMES[0]
) -> Evidence:
    """Take an interval of one second, with the predicted misses unless `misses` are given."""
    predicted = float(found.misses[found.policies.index(in_force)].sum())
    seen = Interval(
        time_s=1.0,
        elapsed_s=1.0,
        in_force=in_force,
        limit_bytes=1 << 30,
        allowed=frozenset(found.policies),
        may_change=True,
        is_held=False,
        regime=0,
        accesses=ACCESSES,
        misses=predicted if misses is None else misses,
        counterfactual=found,
    )
    return take_all([state], [seen], [found], CONFIG).of(0)


def plain(**misses: float) -> Counterfactual:
    return counterfactual(SAME | misses, "default")


def scattered(per_group: Any) -> Counterfactual:
    """Return a counterfactual in which `lru` saves so many pages of each group."""
    found = plain()
    found.misses[1] -= np.asarray(per_group)
    return found


def test_the_misses_that_a_policy_would_have_saved_are_summed() -> None:
    state = PolicyState()
    take(state, plain(lru=1500.0, mru=1800.0))
    found = take(state, plain(lru=1450.0, mru=1800.0))
    assert found.index == 0
    assert found.lead == pytest.approx([0.0, 250.0, 0.0])
    assert found.raw.sum(axis=1) * found.factors == pytest.approx([1600.0, 1450.0, 1800.0])


def test_reads_before_a_policy_began_to_gain_do_not_count() -> None:
    state = PolicyState()
    for _ in range(100):
        found = take(state, plain(lru=4000.0))
    assert found.lead[1] == 0
    for _ in range(20):
        found = take(state, plain(lru=1500.0))
    assert found.lead[1] == pytest.approx(20 * 100.0)


def test_a_change_costs_the_pages_it_rereads_and_at_least_a_share_of_the_cache() -> None:
    seen = plain()
    some = seen._replace(reread=np.array([0.0, CACHE_PAGES, 10.0]))
    least = CONFIG.switch_share * CACHE_PAGES
    assert take(PolicyState(), some).cost.tolist() == [least, CACHE_PAGES, least]


def bound(cost: float, looks: float = 1.0) -> float:
    """Return the bound on noise in standard errors, for two policies and so many looks."""
    may_lose = CONFIG.false_loss_s * SAME["default"]
    chance = min(0.5, may_lose / cost) / (2 * looks)
    return float(stats.t.ppf(1 - chance, GROUPS - 1))


def test_a_gain_counts_as_far_as_its_square_exceeds_that_of_noise() -> None:
    saved = np.arange(GROUPS) - 4.0
    error = bound(COST) * np.sqrt(GROUPS * saved.var(ddof=1) * (1 - RATE))
    assert 0 < error < saved.sum()
    found = take(PolicyState(), scattered(saved))
    assert found.lead[1] == pytest.approx(saved.sum() * (1 - (error / saved.sum()) ** 2), rel=0.01)


def test_the_cheaper_a_change_the_less_evidence_it_needs() -> None:
    saved = np.arange(GROUPS) - 4.0
    cheap = scattered(saved)._replace(cache_pages=40.0, reread=np.array([0.0, 10.0, 10.0]))
    leads = [take(PolicyState(), one).lead[1] for one in (scattered(saved), cheap)]
    assert bound(10.0) < bound(COST) and 0 < leads[0] < leads[1]


def test_only_the_looks_of_one_lead_count_for_a_policy_that_returns() -> None:
    saved = np.arange(GROUPS) - 4.0
    error = np.sqrt(GROUPS * saved.var(ddof=1) * (1 - RATE))
    for leads, looks in (({}, 101.0), ({"lru": (60.0, 1.0)}, 5.0)):
        state = PolicyState()
        for _ in range(100):
            take(state, plain())
        state.leads, state.lead_s = dict(leads), 4.0
        noise = bound(COST, looks) * error
        sure = max(0.0, 1 - (noise / saved.sum()) ** 2)
        assert take(state, scattered(saved)).lead[1] == pytest.approx(saved.sum() * sure, rel=0.01)


def test_a_gain_within_the_sampling_error_counts_nothing_and_a_loss_ends_it() -> None:
    saved = np.where(np.arange(GROUPS) % 2 == 0, 60.0, -50.0)
    state = PolicyState()
    assert take(state, scattered(saved)).lead[1] == 0 and state.climb.values.any()
    assert take(state, scattered(-saved)).lead[1] == 0 and not state.climb.values.any()


def test_there_is_no_sampling_error_if_every_page_is_sampled() -> None:
    saved = np.where(np.arange(GROUPS) == 0, 90.0, 0.0)
    seen = scattered(saved)._replace(rate=1.0)
    assert take(PolicyState(), seen).lead[1] == pytest.approx(90.0)


def test_lasting_differences_are_distinguished_from_noise() -> None:
    state, random = PolicyState(), np.random.default_rng(1)
    leads = [
        float(take(state, scattered(5.0 + random.normal(0, 20, GROUPS))).lead[1]) for _ in range(80)
    ]
    assert leads[9] < 0.25 * 10 * 5.0 * GROUPS
    assert leads[-1] - leads[39] > 0.35 * 40 * 5.0 * GROUPS


def test_a_policy_that_is_worse_than_simulated_loses_its_lead_by_calibration() -> None:
    state = PolicyState()
    for _ in range(100):
        take(state, plain(lru=1000.0))
    for _ in range(60):
        found = take(state, plain(lru=1000.0), misses=2000.0, in_force="lru")
    assert found.factors[0] == pytest.approx(1.0, abs=0.1)
    assert found.factors[1] == pytest.approx(2.0, abs=0.15)
    assert found.lead[0] > COST


def test_rereads_by_a_change_do_not_count_against_the_policy() -> None:
    state = PolicyState()
    take(state, plain())
    state.adapting = COST
    found = take(state, plain(), misses=1600.0 + COST / 2, in_force="lru")
    assert found.factors[1] == pytest.approx(1.0) and state.adapting == COST / 2
    found = take(state, plain(), misses=1600.0 + COST, in_force="lru")
    assert found.factors[1] > 1 and state.adapting == 0


def test_the_ledger_is_what_was_read_beyond_what_the_default_would_have() -> None:
    state = PolicyState()
    for _ in range(200):
        take(state, plain())
    cost, excess = state.default_cost, state.excess
    assert (cost, excess) == pytest.approx((200 * 1600.0, 0.0))
    take(state, plain(lru=1900.0), in_force="lru")
    assert state.default_cost == pytest.approx(cost + 1600.0, rel=1e-3)
    assert state.excess == pytest.approx(300.0, rel=0.05)


def test_another_sampling_rate_weakens_calibrations_of_other_policies() -> None:
    states = PolicyState(), PolicyState()
    for state in states:
        take(state, plain(), in_force="lru")
        take(state, plain())
    take(states[0], plain())
    take(states[1], plain()._replace(rate=RATE / 4))
    known = [state.calibration.values[SECONDS, 1] for state in states]
    assert known[1] == pytest.approx(known[0] / 4)


def test_the_saved_share_of_accesses_counts_since_the_lead_began_to_rise() -> None:
    state = PolicyState()
    for _ in range(10):
        take(state, plain(lru=1700.0))
    for gain in (300.0, 100.0):
        found = take(state, plain(lru=1600.0 - gain))
    assert found.saved_ratio[1] == pytest.approx(200.0 / ACCESSES)
    assert found.saved_ratio[2] == 0.0


def test_other_candidates_restart_the_sums_and_keep_calibrations() -> None:
    state = PolicyState()
    for _ in range(3):
        take(state, plain(lru=1500.0, mru=1700.0))
    state.align(("default", "lru", "mru"), GROUPS)
    assert state.climb.values.any(), "nothing changed"
    state.align(("default", "s3fifo", "lru"), GROUPS)
    assert not state.climb.values.any() and state.climb.looked == 0
    assert state.totals == Table(np.zeros((3, GROUPS)))
    assert state.calibration.values[SECONDS, 1] == 0 < state.calibration.values[SECONDS, 0]
    state.align(("default", "s3fifo", "lru"), 2 * GROUPS)
    assert state.totals.values.shape == (3, 2 * GROUPS)


def test_evidence_is_of_one_regime() -> None:
    """Evidence that was too weak under the earlier workload is not made sufficient by its end."""
    state = PolicyState(in_force="default", lost={"mru": 1.0})
    for _ in range(9):
        take(state, plain(lru=1500.0, mru=4000.0))
    state.begin_regime(1, SHOWN_S)
    assert not state.climb.values.any()
    assert (state.regime, state.regime_s, state.climb.looked, state.lost) == (1, SHOWN_S, 0, {})


@pytest.mark.parametrize(("after_s", "kept"), [(SHOWN_S - 1, True), (SHOWN_S, False)])
def test_workloads_that_only_scatter_leave_the_calibration(after_s: float, kept: bool) -> None:
    state = PolicyState()
    take(state, plain())
    take(state, plain(), misses=1700.0, in_force="lru")
    state.in_force, state.regime_s = "default", 100.0
    state.begin_regime(1, 100.0 + after_s)
    assert bool(state.calibration.values[SECONDS, 1] > 0) is kept
    assert state.calibration.values[SECONDS, 0] > 0 and state.excess > 0


def test_the_default_spends_none_of_the_budget_however_far_it_is_off() -> None:
    """A policy that gains later is chosen. The intervals of the hours after that are longer."""
    offs = (0.5, 1.0, 1.5)
    worlds = [World(dict.fromkeys(("default", "lru"), 0.1 * off)) for off in offs]
    for world in worlds:
        world.told = {"default": 0.1, "lru": 0.1}
    run_all(worlds, 1800)
    assert [one.state.excess for one in worlds] == pytest.approx([0.0] * 3, abs=1e-6)
    for off, world in zip(offs, worlds, strict=True):
        world.truth["lru"], world.told["lru"] = 0.08 * off, 0.08
    until_all(worlds, Event.KEPT, 100)
    for world in worlds:
        world.elapsed_s = 10.0
    run_all(worlds, 4 * 360)
    # Hours later, knowledge of the default has faded, and gains are still gains.
    for off, world in zip(offs, worlds, strict=True):
        assert world.state.excess < 0.9 * world.lost < 0, off


def test_the_allowance_for_rereads_ends_although_nothing_is_reread() -> None:
    """Below the prediction every page counts: a policy must not seem better and better."""
    state, random = PolicyState(in_force="default"), np.random.default_rng(3)
    for _ in range(60):
        take(state, plain(), misses=1600.0)
    state.adapting, known = 1e6, state.calibration.factors(0)[0]
    for _ in range(600):
        state.in_force_s += 1.0
        take(state, plain(), misses=1600.0 * (1 + 0.1 * random.standard_normal()))
    assert state.calibration.factors(0)[0] == pytest.approx(known, abs=0.03)


@given(
    st.lists(
        st.tuples(
            st.lists(st.floats(0.0, 1e6), min_size=3, max_size=3),
            st.floats(0.0, 1e6),
            st.sampled_from(NAMES),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_leads_are_finite_and_none_exceeds_what_was_saved(
    course: list[tuple[list[float], float, str]],
) -> None:
    state = PolicyState()
    for told, misses, in_force in course:
        seen = counterfactual(dict(zip(NAMES, told, strict=True)), in_force)
        found = take(state, seen, misses, in_force)
        assert found.lead[found.index] == 0 and np.isfinite(found.lead).all()
        assert (found.lead >= 0).all()
        saved = state.climb.values[:, :-BESIDE].sum(axis=1)
        assert (found.lead <= saved * (1 + 1e-6) + 1e-30).all()
        assert np.isfinite([found.returns, found.factors, found.saved_ratio]).all()
