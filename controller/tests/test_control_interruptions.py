# SPDX-License-Identifier: Apache-2.0
"""Changes under way during interruptions: lost plans, gaps, clocks, missing tenants."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, PlantTenant, flat, linear
from experiments.control_loop.world import World
from worlds import fooled, hungry, liar, looping, memory_change, sated, settles, until, world

from cachepilot.api.shapes.questions import Pin
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.node.deciding.presence import PATIENCE_S
from cachepilot.v1 import session_pb2 as wire


def half_cycle(here: World) -> wire.Plan:
    """Run a cycle, and return its plan before it reaches the node."""
    here.plant.pass_time()
    return here.loop.cycle(here.plant.snapshot())


def reach(here: World, plan: wire.Plan) -> None:
    here.loop.acknowledge(here.plant.apply(plan))
    here.loop.after()


def restoring(here: World) -> str | None:
    state = here.loop._decider.state.tenants["/scan"].policy
    return state.wanted if state.trial is None else None


def until_taken_back(here: World) -> None:
    """Run until a plan rolls a policy back. This plan is lost."""
    for _ in range(30):
        plan = half_cycle(here)
        if restoring(here):
            return
        reach(here, plan)
    raise AssertionError("nothing was taken back")


@pytest.mark.parametrize("away_s", [30.0, 90.0])
@pytest.mark.parametrize("restarts", [True, False])
def test_a_policy_whose_rollback_was_lost_is_rolled_back_after_any_gap(
    tmp_path: Path, away_s: float, restarts: bool
) -> None:
    tenant = fooled()
    here = world(tmp_path, tenant)
    until_taken_back(here)
    assert tenant.policy == "mru"
    here.plant.pass_time(away_s)
    if restarts:
        here.restart()
    else:
        here.loop.end()
        here.plant.forget_session()
        here.loop.begin(here.plant.hello())
    here.run(3)
    assert tenant.policy == "default"


def test_a_rollback_that_the_node_refuses_is_reported(tmp_path: Path) -> None:
    tenant = fooled()
    here = world(tmp_path, tenant)
    until_taken_back(here)
    here.plant.refuse = {"/scan": "EBUSY"}
    here.run(30)
    assert any("EBUSY" in one.why for one in here.service.history("/scan"))


def test_a_time_without_a_controller_ends_no_trial(tmp_path: Path) -> None:
    tenant = looping()
    here = world(tmp_path, tenant)
    here.run(5)
    assert tenant.policy == "mru" and here.events() == ["trial"]
    here.plant.pass_time(40)
    here.restart()
    here.run(60)
    assert tenant.policy == "mru" and here.events() == ["trial", "kept"]


def test_memory_on_trial_goes_back_where_limits_have_become_infeasible(tmp_path: Path) -> None:
    donor, other = liar(), PlantTenant("/other", {"default": flat(0.5)}, 128 * MIB)
    here = world(tmp_path, hungry(), donor, other)
    until(here, lambda: donor.limit_bytes < 128 * MIB)
    other.floor_bytes = 390 * MIB
    for _ in range(60):
        reach(here, half_cycle(here))
    report = here.loop.report
    assert report is not None and "must have" in report.problem
    assert memory_change(here) is None and donor.limit_bytes == 128 * MIB


@pytest.mark.parametrize("slo", [{"hit_ratio": 0.40}, {"throughput_ops": 1e6 / 350}])
def test_an_slo_of_any_kind_gets_the_memory_that_one_step_away_meets_it(
    tmp_path: Path, slo: dict[str, float]
) -> None:
    promised = PlantTenant("/slo", {"default": linear(400 * MIB)}, 128 * MIB, threads=1)
    big = PlantTenant("/big", {"default": flat(0.02)}, 640 * MIB, threads=640)
    here = world(tmp_path, promised, big)
    stated = (Objective("/slo", **slo), Objective("*"))  # type: ignore[arg-type]
    here.service.set_objectives(Objectives(stated))
    here.run(40)
    assert promised.limit_bytes >= 160 * MIB


def test_a_policy_that_is_attached_after_its_trial_ended_is_rolled_back(tmp_path: Path) -> None:
    """The node reports no answer, and attaches the policy a moment later."""
    tenant = fooled()
    here = world(tmp_path, tenant)
    while not (plan := half_cycle(here)).actions:
        reach(here, plan)
    here.plant.refuse = {"/scan": "no answer for 5000 ms"}
    reach(here, plan)
    here.run(2)
    tenant.policy, here.plant.refuse = "mru", {}
    here.run(20)
    assert tenant.policy == "default"
    assert "refused" in here.events()


def test_a_policy_that_is_attached_after_a_pin_is_rolled_back(tmp_path: Path) -> None:
    tenant = fooled()
    here = world(tmp_path, tenant, PlantTenant("/other", {"default": flat(0.5)}, 128 * MIB))
    while not (plan := half_cycle(here)).actions:
        reach(here, plan)
    here.loop.after()
    here.service.pin(Pin(cgroup="/scan", limit_bytes=120 * MIB))
    here.run(2)
    tenant.policy = "mru"
    here.run(20)
    assert tenant.policy == "default"


def test_a_clock_that_goes_back_delays_no_verdict_and_no_rollback(tmp_path: Path) -> None:
    here = world(tmp_path, hungry(), sated(), time_s=1e6)
    until(here, lambda: settles(here))
    here.plant.time_s -= 3600
    here.run(10)
    assert memory_change(here) is None and here.events()[-2:] == ["kept", "kept"]


def test_a_refused_rollback_is_requested_again_although_the_clock_went_back(tmp_path: Path) -> None:
    tenant = fooled()
    here = world(tmp_path, tenant, time_s=1e6)
    for _ in range(30):
        plan = half_cycle(here)
        if restoring(here):
            here.plant.refuse = {"/scan": "EBUSY"}
            break
        reach(here, plan)
    reach(here, plan)
    here.plant.time_s -= 3600
    here.run(1)
    here.plant.refuse = {}
    here.run(10)
    assert tenant.policy == "default"


def test_a_tenant_that_misses_one_snapshot_goes_on_where_it_was(tmp_path: Path) -> None:
    tenant = fooled()
    here = world(tmp_path, tenant, PlantTenant("/other", {"default": flat(0.5)}, 64 * MIB))
    # Memory moves first, so more evidence is needed for another policy.
    until(here, lambda: tenant.policy == "mru")
    here.plant.tenants.remove(tenant)
    here.run(1)
    here.plant.tenants.insert(0, tenant)
    tenant.seen_generation = 0
    here.run(20)
    assert tenant.policy == "default" and "reverted" in here.events("/scan")


def test_the_trial_of_a_tenant_that_stays_missing_ends(tmp_path: Path) -> None:
    tenant = fooled()
    here = world(tmp_path, tenant, PlantTenant("/other", {"default": flat(0.5)}, 64 * MIB))
    until(here, lambda: tenant.policy == "mru")
    here.plant.tenants.remove(tenant)
    here.run(int(PATIENCE_S) + 2)
    assert here.events("/scan") == ["trial", "abandoned"]
    assert not here.loop._decider.state.away
