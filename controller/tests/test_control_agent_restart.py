# SPDX-License-Identifier: Apache-2.0
"""A restarted agent counts everything from 0. This is no change of any workload."""

from copy import deepcopy
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat, scan
from experiments.control_loop.world import World
from worlds import SIZES, memory_change, moving, settles, until

from cachepilot.v1 import session_pb2 as wire


def restart_agent(here: World, phase: int, with_controller: bool) -> None:
    """Restart the agent with regime number `phase`, under the same controller or a new one."""
    hello = here.plant.hello

    def again() -> wire.Hello:
        found = hello()
        found.incarnation = 2
        return found

    here.plant.hello = again  # type: ignore[method-assign]
    for one in here.plant.tenants:
        one.phase = phase
        one.totals = wire.Counters()
        one.missed, one.accessed = {}, 0.0
    if with_controller:
        here.restart()
        return
    here.loop.end()
    here.plant.forget_session()
    here.loop.begin(here.plant.hello())


PHASES = pytest.mark.parametrize("phase", [0, 3, 5])
WITH = pytest.mark.parametrize("with_controller", [False, True])


@PHASES
@WITH
def test_memory_on_trial_goes_on(tmp_path: Path, phase: int, with_controller: bool) -> None:
    here = moving(tmp_path, phase=3)
    until(here, lambda: settles(here))
    change = memory_change(here)
    assert change is not None
    gained, known = deepcopy(change.gained), here.loop._decider.state.tenants["/sated"]
    anchors = deepcopy(known.limits.anchors)
    restart_agent(here, phase, with_controller)
    here.run(1)
    change = memory_change(here)
    assert change is not None and change.gained == gained
    assert here.loop._decider.state.tenants["/sated"].limits.anchors == anchors
    here.run(30)
    assert here.events("/sated")[:2] == ["trial", "kept"]


@PHASES
@WITH
def test_the_decider_keeps_what_it_knows(tmp_path: Path, phase: int, with_controller: bool) -> None:
    curves = {"default": scan(200 * MIB), "mru": flat(0.99)}
    tenant = PlantTenant("/scan", curves, 128 * MIB, phase=3)
    here = World(tmp_path, Plant([tenant], 128 * MIB, SIZES))
    here.run(80)
    here.loop.end()
    before = deepcopy(here.loop._decider.state.tenants["/scan"].policy)
    assert before.regime == 3
    restart_agent(here, phase, with_controller)
    here.run(1)
    after = here.loop._decider.state.tenants["/scan"].policy
    assert after.regime == phase and after.regime_s == before.regime_s
    assert (after.climb, after.calibration) == (
        before.climb, before.calibration,
    )  # fmt: skip


def test_a_phase_that_begins_after_the_restart_counts(tmp_path: Path) -> None:
    here = moving(tmp_path, phase=3)
    until(here, lambda: memory_change(here) is not None)
    restart_agent(here, 0, with_controller=False)
    here.run(1)
    for one in here.plant.tenants:
        one.phase = 1
    time_s = here.plant.time_s
    here.run(1)
    state = here.loop._decider.state.tenants["/sated"]
    assert state.policy.regime_s > time_s and state.limits_regime == 1
