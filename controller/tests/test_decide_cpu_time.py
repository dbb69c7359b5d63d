# SPDX-License-Identifier: Apache-2.0
"""The CPU time of a policy in the rules for changes: it counts as the pages readable in it."""

from dataclasses import astuple, dataclass, field, replace

import numpy as np
import pytest
from deciding import ACCESSES, COST, GROUPS, RATE
from deciding import World as PlainWorld

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.state import Interval
from cachepilot.decide.trial import Trial
from cachepilot.domain.decisions import Event
from cachepilot.model.climb import Climbs

PAGE_US = 100.0
EAGER = DecideConfig(least_gain=0.0)


@dataclass
class World(PlainWorld):
    """A world with `cpu_us` per access of policies; those in `learnt` are learnt when in force."""

    cpu_us: dict[str, float] = field(default_factory=dict)
    learnt: dict[str, float] = field(default_factory=dict)

    def interval(self) -> Interval:
        seen = super().interval()
        if self.in_force in self.learnt:
            self.cpu_us[self.in_force] = self.learnt[self.in_force]
        assert seen.counterfactual is not None
        names = seen.counterfactual.policies
        cpu_us = np.array([self.cpu_us.get(name, 0.0) for name in names])
        return replace(seen, cpu_us=cpu_us if cpu_us.any() else None, page_us=PAGE_US)


def saving(pages: float, config: DecideConfig = EAGER, **known: float) -> World:
    """Return a world in which `lru` saves so many pages of 10,000 accesses."""
    truth = {"default": 0.5, "lru": 0.5 - pages / ACCESSES}
    world = World(truth, config=config, cpu_us=known)
    world.learn()
    return world


def in_lru(pages: float, **known: float) -> World:
    world = saving(pages, EAGER, **known)
    world.until(Event.KEPT)
    return world


@pytest.mark.parametrize(("cpu_us", "swaps"), [(0.0, ["lru"]), (0.4, ["lru"]), (0.6, [])])
def test_one_hundredth_of_misses_is_worth_no_more_cpu_time_than_their_reads_take(
    cpu_us: float, swaps: list[str]
) -> None:
    # 50 of 5000 misses are saved: 5 ms of reads, or half a microsecond per access.
    world = saving(50.0, lru=cpu_us)
    world.run(400)
    assert world.swaps == swaps


def test_a_policy_whose_cpu_time_is_learnt_on_trial_is_undone_and_not_tried_again() -> None:
    world = saving(50.0)
    world.learnt["lru"] = 1.0
    undone = world.until(Event.REVERTED)
    assert (undone.before.policy, undone.after.policy) == ("default", "lru")
    assert "pages" in undone.why and "CPU time counted as" in undone.why
    assert world.run(2000) == [] and world.swaps == ["lru", "default"]
    # `lru` saved what was predicted. Its higher cost is known from its CPU time.
    assert world.state.calibration.factors(0) == pytest.approx([1.0, 1.0], abs=1e-3)


@pytest.mark.parametrize("turnovers_s", [10.0, 20.0])
def test_a_loss_of_cpu_time_alone_does_not_change_the_calibration_of_misses(
    turnovers_s: float,
) -> None:
    """A fifth of the misses is saved, as predicted, and twice as much CPU time is spent."""
    world = World({"default": 0.5, "lru": 0.4}, anew=0.0, tells_cost=False)
    world.cache_pages = turnovers_s * 0.5 * ACCESSES
    world.learn()
    world.learnt["lru"] = 20.0
    assert "CPU time counted as" in world.until(Event.REVERTED).why
    assert world.state.calibration.factors(0) == pytest.approx([1.0, 1.0], abs=1e-3)


def test_a_policy_that_saves_more_than_its_cpu_time_is_chosen_and_kept() -> None:
    world = saving(2000.0, DecideConfig(), lru=5.0)
    world.learnt["lru"] = 6.0
    live, kept = world.until(Event.TRIAL), world.until(Event.KEPT)
    # Hits save 0.2 of the time of an operation, and CPU time costs 0.05 of it.
    assert astuple(live.predicted) == pytest.approx((ACCESSES / 0.85, 0.3))
    assert "CPU time" in live.why and "CPU time counted as" in kept.why
    assert world.run(300) == [] and world.in_force == "lru"


@pytest.mark.parametrize(("cpu_us", "changes"), [(0.9, True), (1.1, False)])
def test_the_least_gain_is_of_misses_and_cpu_time_together(cpu_us: float, changes: bool) -> None:
    world = saving(300.0, DecideConfig(least_gain=0.02), lru=cpu_us)
    world.run(400)
    # Hits save 0.03 of the time of an operation; each microsecond costs 0.01.
    assert bool(world.swaps) is changes


def test_of_two_equal_policies_the_one_with_less_cpu_time_is_chosen() -> None:
    world = World({"default": 0.5, "lru": 0.3, "mru": 0.3}, cpu_us={"lru": 5.0, "mru": 1.0}).learn()
    world.run(20)
    assert world.swaps == ["mru"]


def test_a_policy_that_was_kept_goes_when_its_cpu_time_exceeds_what_it_saves() -> None:
    world = in_lru(1000.0, lru=1.0)
    world.cpu_us["lru"] = 15.0
    back = world.until(Event.KEPT)
    assert (back.before.policy, back.after.policy) == ("lru", "default")
    # This saves no miss: 0.1 of the accesses miss again, as predicted.
    assert back.predicted.miss_ratio == pytest.approx(0.5, abs=0.01)


def test_the_ledger_has_the_cpu_time_of_the_policy_in_force() -> None:
    world = in_lru(1000.0, lru=1.0)
    before = world.state.excess
    world.run(1)
    assert world.state.excess - before == pytest.approx(100.0 - 1000.0)


def test_cpu_time_is_no_part_of_sampling_errors_or_calibration() -> None:
    truth = {"default": 0.5, "lru": 0.3}
    plain = World(truth, seed=3).learn()
    costly = World(truth, seed=3, cpu_us={"lru": 1.0}).learn()
    assert costly.state.calibration == plain.state.calibration
    found = Climbs.of([plain.state.climb, costly.state.climb])
    spread, seconds = found.variances(), found.seconds
    assert spread[1] == pytest.approx(spread[0])
    saved = found.saved.sum(axis=2)[:, 1]
    assert seconds[0].tolist() == seconds[1].tolist()
    assert saved[0] - saved[1] == pytest.approx(100.0 * seconds[0, 1])


def test_without_cpu_time_everything_is_as_if_nothing_were_known_of_it() -> None:
    truth = {"default": 0.5, "lru": 0.45, "mru": 0.47}
    plain = PlainWorld(truth, seed=5)
    known = World(truth, seed=5, cpu_us=dict.fromkeys(truth, 0.0))
    for _ in range(300):
        assert plain.run(1) == known.run(1)
        assert plain.state == known.state
    assert plain.swaps == ["lru"]


def test_a_trial_holds_what_was_expected_against_what_was_measured() -> None:
    trial = Trial("default", "lru", 0.0, 1 << 30, 1.0, (1000.0, 0.5), (1100.0, 0.4))
    trial.take(np.full(GROUPS, 1000.0 / GROUPS), 900.0, 900.0, RATE, (150.0, 20.0))
    assert (trial.gained, trial.expected, trial.cpu) == (-50.0, 80.0, 150.0)
    for _ in range(30):
        trial.take(np.full(GROUPS, 1000.0 / GROUPS), 900.0, 900.0, RATE, (150.0, 20.0))
    why = trial.why_undone(COST, 0.0, 4.0)
    told = "it cost 1550 pages more than default would have, CPU time counted as 4650"
    assert why == told
