# SPDX-License-Identifier: Apache-2.0
"""Memory that moved for a trial is given back, however long that takes and whoever is missing."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat, linear, scan
from experiments.control_loop.world import World
from worlds import SIZES, until

from cachepilot.decide.memory.state import ROLLBACK_S, MemoryState
from cachepilot.domain.objectives.objective import Goal, Objective, Objectives
from cachepilot.node.deciding.presence import PATIENCE_S
from cachepilot.node.node_state import is_moving
from cachepilot.v1 import session_pb2 as wire


def three(path: Path) -> World:
    """Return a world of three. `/liar` needs much more than its curve says, `/steady` does not.

    So the memory of `/liar` goes back.
    """
    sated = {"default": linear(16 * MIB, 0.02)}
    hungry = PlantTenant("/hungry", {"default": linear(400 * MIB)}, 128 * MIB, threads=64)
    liar = PlantTenant("/liar", {"default": linear(120 * MIB, 0.02)}, 128 * MIB, told=dict(sated))
    steady = PlantTenant("/steady", sated, 128 * MIB)
    # Without this, what a tenant keeps would be restored along the way.
    stated = (Objective("*", keep=0.0),)
    return World(path, Plant([hungry, liar, steady], 384 * MIB, SIZES), stated)


def true_three(path: Path) -> World:
    """Return the same world with true predictions for all tenants."""
    here = three(path)
    liar = here.plant.of("/liar")
    liar.curves, liar.told = liar.told, {}
    return here


def memory_of(here: World) -> MemoryState:
    return here.loop._decider.state.memory


def keep_limits(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the node change no limits any more, without an error."""
    apply = here.plant.apply

    def without_limits(plan: wire.Plan) -> wire.Ack:
        for action in plan.actions:
            action.ClearField("limit_bytes")
        return apply(plan)

    monkeypatch.setattr(here.plant, "apply", without_limits)


def test_memory_is_asked_back_until_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = three(tmp_path)
    until(here, lambda: bool(memory_of(here).restore))
    apply = here.plant.apply
    keep_limits(here, monkeypatch)
    here.run(int(ROLLBACK_S) + 2)
    assert not is_moving(here.loop._decider.state)
    here.run(138)
    donors = {one.cgroup for one in here.plant.tenants if one.limit_bytes < 128 * MIB}
    assert donors and memory_of(here).restore.keys() >= donors
    monkeypatch.setattr(here.plant, "apply", apply)
    until(here, lambda: not memory_of(here).restore)
    assert all(one.limit_bytes == 128 * MIB for one in here.plant.tenants)


def test_memory_that_cannot_be_reclaimed_delays_no_policy(tmp_path: Path) -> None:
    """The taker has filled with memory that cannot be reclaimed."""
    here = three(tmp_path)
    until(here, lambda: bool(memory_of(here).restore))
    here.plant.of("/hungry").floor_bytes = here.plant.of("/hungry").limit_bytes
    here.run(int(ROLLBACK_S))
    donor = here.plant.of("/liar")
    donor.change({"default": scan(200 * MIB), "mru": linear(200 * MIB)})
    here.restart()
    here.run(60)
    assert donor.policy == "mru" and donor.cgroup in memory_of(here).restore


def test_memory_that_cannot_be_reclaimed_delays_no_slo(tmp_path: Path) -> None:
    """The taker has filled with memory that cannot be reclaimed, so the rollback never ends."""
    here = three(tmp_path)
    until(here, lambda: bool(memory_of(here).restore))
    here.plant.of("/hungry").floor_bytes = here.plant.of("/hungry").limit_bytes
    here.run(40)
    assert memory_of(here).restore
    donor = PlantTenant("/donor", {"default": flat(0.02)}, 128 * MIB)
    promised = PlantTenant("/slo", {"default": linear(300 * MIB)}, 128 * MIB)
    here.plant.tenants += [donor, promised]
    here.plant.budget_bytes += 256 * MIB
    stated = (Objective("/slo", hit_ratio=0.5), Objective("*"))
    here.service.set_objectives(Objectives(stated))
    here.run(40)
    assert promised.limit_bytes >= 140 * MIB


def test_a_change_for_gain_is_rolled_back_when_the_goal_changes(tmp_path: Path) -> None:
    here = true_three(tmp_path)
    until(here, lambda: memory_of(here).change is not None)
    here.run(2)
    here.restart()
    here.run(1)
    assert memory_of(here).change is not None
    stated = (Objective("*", keep=0.0),)
    here.service.set_objectives(Objectives(stated, Goal.LEAST_MEMORY))
    here.run(1)
    assert here.events("/hungry")[:2] == ["trial", "abandoned"]
    assert memory_of(here).goal == "least_memory"


def test_a_tenant_missing_from_snapshots_stays_in_the_trial(tmp_path: Path) -> None:
    here = true_three(tmp_path)
    plant, hungry = here.plant, here.plant.of("/hungry")
    until(here, lambda: memory_of(here).change is not None)
    here.run(2)
    change = memory_of(here).change
    assert change is not None and "/hungry" in change.members
    plant.tenants.remove(hungry)
    here.run(3)
    plant.tenants.insert(0, hungry)
    hungry.seen_generation = 0
    here.run(1)
    assert memory_of(here).change is change and "/hungry" in change.members
    here.run(60)
    found = here.events("/hungry")
    assert found[:2] == ["trial", "kept"] and hungry.limit_bytes > 128 * MIB


def test_a_donor_that_is_gone_for_good_ends_no_change_of_others(tmp_path: Path) -> None:
    here = true_three(tmp_path)
    plant, steady = here.plant, here.plant.of("/steady")
    until(here, lambda: memory_of(here).change is not None)
    here.run(2)
    plant.tenants.remove(steady)
    here.run(int(PATIENCE_S) + 60)
    assert here.events("/steady") == ["trial", "abandoned"]
    assert here.events("/hungry")[:2] == ["trial", "kept"] and memory_of(here).change is None


def test_memory_is_not_given_back_to_another_cgroup_of_that_name(tmp_path: Path) -> None:
    here = three(tmp_path)
    steady = here.plant.of("/steady")
    until(here, lambda: steady.limit_bytes < 128 * MIB)
    steady.cgroup_id += 1
    limit = steady.limit_bytes
    until(here, lambda: bool(memory_of(here).restore))
    assert "/steady" not in memory_of(here).restore
    here.run(1)
    assert steady.limit_bytes <= limit + MIB
