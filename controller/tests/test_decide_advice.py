# SPDX-License-Identifier: Apache-2.0
"""The rule by which one recommendation replaces another, in isolation."""

from dataclasses import replace

import numpy as np
import pytest
from memory_node import CONFIG, MIB, Tenant

from cachepilot.decide.advice.law import GIVEN_UP_INTERVALS, AdviceState, Verdict, judge
from cachepilot.decide.memory.interval import MemoryInterval


def interval(gain: float, error: float = 0.01, **changes: object) -> MemoryInterval:
    """Return an interval in which the rival gives one tenant memory, with this gain per second."""
    seen = Tenant(400.0, 400.0, planned_mib=192.0).seen(0.0)
    one = replace(seen, worth_planned=seen.worth_now + gain, error_at=lambda _: error)
    found = MemoryInterval(0.0, 1.0, {"/a": one}, 16 * MIB, "proportional_fairness")
    return replace(found, **changes)  # type: ignore[arg-type]


def verdicts(gains: list[float], error: float = 0.01) -> list[Verdict]:
    state, found = AdviceState(), list[Verdict]()
    state.challenge({"/a": ("default", 192 * MIB)}, interval(0.0))
    for gain in gains:
        found.append(judge(state, interval(gain, error), CONFIG))
        if found[-1] is not Verdict.WAITS:
            break
    return found


def test_a_gain_far_above_its_error_replaces_at_the_fifth_interval() -> None:
    assert verdicts([0.5] * 20)[-1] is Verdict.REPLACES
    assert len(verdicts([0.5] * 20)) == 5


def test_a_gain_within_the_error_of_curves_waits_however_steady_it_is() -> None:
    assert set(verdicts([0.05] * 40, error=0.04)) == {Verdict.WAITS}


def test_a_gain_below_the_least_never_replaces() -> None:
    found = verdicts([0.5 * CONFIG.least_gain] * 1000, error=0.0)
    assert found[-1] is Verdict.GIVEN_UP and len(found) == GIVEN_UP_INTERVALS


def test_a_recommendation_that_gains_nothing_is_given_up() -> None:
    assert verdicts([-0.1] * 20)[-1] is Verdict.GIVEN_UP


@pytest.mark.parametrize("lasts", [1, 20])
def test_noise_replaces_hardly_ever_whether_or_not_it_lasts(lasts: int) -> None:
    """200 rivals are worth the same, for five minutes each, with errors as large as stated."""
    random, keep, replaced = np.random.default_rng(5), np.exp(-1 / lasts), 0
    for _ in range(200):
        noise, gains = float(random.standard_normal()), []
        for _ in range(GIVEN_UP_INTERVALS):
            noise = keep * noise + np.sqrt(1 - keep**2) * float(random.standard_normal())
            gains.append(0.04 * noise)
        replaced += verdicts(gains, error=0.02)[-1] is Verdict.REPLACES
    assert replaced <= 4


def test_gains_of_another_unit_do_not_count() -> None:
    state = AdviceState()
    state.challenge({"/a": ("default", 192 * MIB)}, interval(0.5))
    assert state.is_of(interval(0.1))
    assert not state.is_of(interval(0.1, goal="total_throughput"))
