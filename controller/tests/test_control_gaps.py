# SPDX-License-Identifier: Apache-2.0
"""The controller learns nothing from a time without snapshots or a clock that was put forward."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat, linear, scan
from experiments.control_loop.world import World
from worlds import SIZES, memory_change, moves, moving, settles, until

from cachepilot.domain.objectives.objective import Objectives
from cachepilot.node.collector import Collector
from cachepilot.sense.clock import Clock

AWAY_S = 1800.0


def link_gap(here: World) -> None:
    """Let the node run without snapshots, with misses only."""
    curves = {one.cgroup: one.curves for one in here.plant.tenants}
    for one in here.plant.tenants:
        one.curves = {policy: flat(1.0) for policy in one.curves}
    here.plant.pass_time(AWAY_S)
    for one in here.plant.tenants:
        one.curves, one.miss = curves[one.cgroup], None


def clock_step(here: World) -> None:
    """Put the node's clock forward."""
    here.plant.time_s += AWAY_S


BOTH = pytest.mark.parametrize("happen", [link_gap, clock_step])
Happen = Callable[[World], None]


@BOTH
@pytest.mark.parametrize("reached", [moves, settles])
def test_memory_on_trial_is_neither_judged_nor_ended_by_it(
    tmp_path: Path, happen: Happen, reached: Callable[[World], bool]
) -> None:
    here = moving(tmp_path)
    until(here, lambda: reached(here))
    change = memory_change(here)
    assert change is not None
    before = deepcopy((change.members, change.gained, change.since))
    happen(here)
    here.run(1)
    assert memory_change(here) is change and reached(here)
    # Limits go on all the same.
    for name, member in before[0].items():
        member.asked_bytes = change.members[name].asked_bytes
    assert (change.members, change.gained, change.since) == before
    here.run(60)
    assert memory_change(here) is not change
    assert "reverted" not in here.events() and here.events("/sated")[:2] == ["trial", "kept"]


@BOTH
def test_the_decider_learns_nothing_of_it(tmp_path: Path, happen: Happen) -> None:
    tenant = PlantTenant("/scan", {"default": scan(200 * MIB), "mru": flat(0.99)}, 128 * MIB)
    here = World(tmp_path, Plant([tenant], 128 * MIB, SIZES))
    here.run(20)
    before = deepcopy(here.loop._decider.state.tenants["/scan"])
    happen(here)
    here.run(1)
    after = here.loop._decider.state.tenants["/scan"]
    before.skip(after.policy.regime_s - before.policy.regime_s)
    # Time in force passes all the same.
    before.policy.in_force_s = after.policy.in_force_s
    assert after == before


@BOTH
def test_the_decider_learns_nothing_of_one_before_the_second_snapshot(
    tmp_path: Path, happen: Happen
) -> None:
    tenant = PlantTenant("/scan", {"default": scan(200 * MIB), "mru": linear(200 * MIB)}, 128 * MIB)
    here = World(tmp_path, Plant([tenant], 128 * MIB, SIZES))
    here.run(1)
    happen(here)
    here.run(1)
    assert here.loop._decider.state.tenants["/scan"].policy.policies == []
    assert here.events() == []


@BOTH
def test_a_policy_on_trial_goes_on_as_if_it_had_not_been(tmp_path: Path, happen: Happen) -> None:
    tenant = PlantTenant("/scan", {"default": scan(200 * MIB), "mru": linear(200 * MIB)}, 128 * MIB)
    here = World(tmp_path, Plant([tenant], 128 * MIB, SIZES))
    until(here, lambda: tenant.policy == "mru")
    here.run(2)
    trial = deepcopy(here.loop._decider.state.tenants["/scan"].policy.trial)
    assert trial is not None and trial.is_live
    happen(here)
    here.run(1)
    now = here.loop._decider.state.tenants["/scan"].policy.trial
    assert now is not None
    assert (now.gained, now.intervals, now.expected) == (
        trial.gained, trial.intervals, trial.expected,
    )  # fmt: skip
    # Turnover during the gap was not observed.
    assert now.started_s - trial.started_s == pytest.approx(AWAY_S, abs=5)


@BOTH
def test_a_tenant_missing_before_a_gap_is_not_given_up_because_of_it(
    tmp_path: Path, happen: Happen
) -> None:
    tenant = PlantTenant("/scan", {"default": scan(200 * MIB), "mru": linear(200 * MIB)}, 128 * MIB)
    other = PlantTenant("/other", {"default": flat(0.5)}, 64 * MIB)
    here = World(tmp_path, Plant([tenant, other], 192 * MIB, SIZES))
    until(here, lambda: tenant.policy == "mru")
    here.run(1)
    here.plant.tenants.remove(tenant)
    here.run(1)
    happen(here)
    here.run(1)
    assert here.events("/scan") == ["trial"]


@BOTH
def test_nothing_is_measured_of_it(tmp_path: Path, happen: Happen) -> None:
    here = moving(tmp_path)
    here.run(3)
    seen = Collector("plant")
    plant = here.plant
    for _ in range(3):
        plant.pass_time()
        seen.collect(plant.snapshot(), 1, Objectives())
    happen(here)
    plant.pass_time()
    found = seen.collect(plant.snapshot(), 1, Objectives())
    for one in found.seen.values():
        assert (one.sample, one.window, one.pages, one.counterfactual) == (None,) * 4
    assert found.device_iops == 0
    plant.pass_time()
    found = seen.collect(plant.snapshot(), 1, Objectives())
    assert all(one.sample is not None and one.window is not None for one in found.seen.values())


def test_a_clock_knows_a_gap_from_the_interval_that_is_asked_for() -> None:
    clock = Clock(interval_s=1.0)
    assert clock.advance(1000.0) == (0.0, 0.0)
    assert clock.advance(1001.0) == (1.0, 0.0)
    counted_s, skipped_s = clock.advance(1001.0 + AWAY_S)
    assert counted_s == pytest.approx(3.0) and skipped_s == pytest.approx(AWAY_S - 3.0)
    assert clock.advance(1000.0) == (0.0, -AWAY_S - 1.0)


def test_a_clock_follows_a_node_that_is_slower_than_it_is_asked_to_be() -> None:
    clock = Clock(interval_s=1.0)
    gaps = [clock.advance(1000.0 + 5.0 * cycle).skipped_s > 0 for cycle in range(20)]
    assert sum(gaps) <= 3 and not any(gaps[5:])
