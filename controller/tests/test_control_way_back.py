# SPDX-License-Identifier: Apache-2.0
"""Memory moved for a trial is given back, however long that takes and whoever was missing."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat, linear
from experiments.control_loop.world import World
from worlds import SIZES, until

from cachepilot.control import memory_return
from cachepilot.control.memory_return import RETURN_INTERVALS
from cachepilot.control.memory_state import MemoryState
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.v1 import session_pb2 as wire


def three(path: Path) -> World:
    """`/liar` needs much more than its curve says, so memory goes back; `/steady` does not."""
    sated = {"default": linear(16 * MIB, 0.02)}
    hungry = PlantTenant("/hungry", {"default": linear(400 * MIB)}, 128 * MIB, threads=64)
    liar = PlantTenant("/liar", {"default": linear(120 * MIB, 0.02)}, 128 * MIB, told=dict(sated))
    steady = PlantTenant("/steady", sated, 128 * MIB)
    return World(path, Plant([hungry, liar, steady], 384 * MIB, SIZES))


def true_three(path: Path) -> World:
    """What is predicted of all of them holds."""
    here = three(path)
    liar = here.plant.of("/liar")
    liar.curves, liar.told = liar.told, {}
    return here


def memory_of(here: World) -> MemoryState:
    return here.loop._guard.state.memory


def keep_limits(here: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node changes no limit any more, and says nothing of it."""
    apply = here.plant.apply

    def without_limits(plan: wire.Plan) -> wire.Ack:
        for action in plan.actions:
            action.ClearField("limit_bytes")
        return apply(plan)

    monkeypatch.setattr(here.plant, "apply", without_limits)


def late(here: World) -> list[str]:
    return [one.why for one in here.service.history() if "asked for again" in one.why]


def test_memory_is_asked_back_until_it_is_there_and_that_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = three(tmp_path)
    until(here, lambda: bool(memory_of(here).restore))
    apply = here.plant.apply
    keep_limits(here, monkeypatch)
    here.run(RETURN_INTERVALS - 2)
    assert not late(here)
    here.run(2 * RETURN_INTERVALS)
    donors = {one.cgroup for one in here.plant.tenants if one.limit_bytes < 128 * MIB}
    assert donors and memory_of(here).restore.keys() >= donors
    assert len(late(here)) == len(memory_of(here).restore)
    monkeypatch.setattr(here.plant, "apply", apply)
    until(here, lambda: not memory_of(here).restore)
    assert all(one.limit_bytes == 128 * MIB for one in here.plant.tenants)
    assert "back to 128 MiB" in late(here)[0]


def test_what_cannot_be_given_back_holds_up_no_slo_for_ever(tmp_path: Path) -> None:
    """A taker has filled with memory that cannot be reclaimed: a donor's way back has no end."""
    here = three(tmp_path)
    until(here, lambda: bool(memory_of(here).restore))
    here.plant.of("/hungry").floor_bytes = here.plant.of("/hungry").limit_bytes
    here.run(RETURN_INTERVALS + 10)
    assert late(here) and memory_of(here).restore
    donor = PlantTenant("/donor", {"default": flat(0.02)}, 128 * MIB)
    promised = PlantTenant("/slo", {"default": linear(300 * MIB)}, 128 * MIB)
    here.plant.tenants += [donor, promised]
    here.plant.budget_bytes += 256 * MIB
    stated = (Objective("/slo", hit_ratio=0.5), Objective("*"))
    here.service.set_objectives(Objectives(stated))
    here.run(20)
    assert promised.limit_bytes >= 140 * MIB
    assert memory_of(here).restore


def test_a_member_that_misses_snapshots_stays_in_the_trial(tmp_path: Path) -> None:
    here = true_three(tmp_path)
    plant, hungry = here.plant, here.plant.of("/hungry")
    until(here, lambda: memory_of(here).trial is not None)
    here.run(2)
    trial = memory_of(here).trial
    assert trial is not None and "/hungry" in trial.members
    plant.tenants.remove(hungry)
    here.run(3)
    plant.tenants.insert(0, hungry)
    hungry.seen_generation = 0
    here.run(1)
    assert memory_of(here).trial is trial and "/hungry" in trial.members and not trial.left
    here.run(40)
    found = here.events("/hungry")
    assert found[:2] == ["trial", "kept"] and hungry.limit_bytes > 128 * MIB


def test_a_member_that_comes_and_goes_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    here = true_three(tmp_path)
    plant, steady = here.plant, here.plant.of("/steady")
    until(here, lambda: memory_of(here).trial is not None)
    here.run(2)
    trial = memory_of(here).trial
    for _ in range(3 * int(here.config.guard.patience_s)):
        plant.tenants.remove(steady)
        here.run(1)
        plant.tenants.append(steady)
        steady.seen_generation = 0
        here.run(1)
    assert memory_of(here).trial is not trial


def test_memory_goes_back_to_who_comes_back_long_after(tmp_path: Path) -> None:
    here = three(tmp_path)
    plant, steady = here.plant, here.plant.of("/steady")
    until(here, lambda: steady.limit_bytes < 128 * MIB)
    plant.tenants.remove(steady)
    until(here, lambda: "/liar" in memory_of(here).restore)
    here.run(4 * RETURN_INTERVALS)
    assert steady.limit_bytes < 128 * MIB and "/steady" in memory_of(here).absent
    here.restart()
    steady.seen_generation = 0
    plant.tenants.append(steady)
    here.run(1)
    assert "/steady" in memory_of(here).restore or steady.limit_bytes == 128 * MIB


def test_what_is_remembered_of_who_is_gone_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    here = three(tmp_path)
    monkeypatch.setattr(memory_return, "ABSENT_MAX", 0)
    plant, steady = here.plant, here.plant.of("/steady")
    until(here, lambda: steady.limit_bytes < 128 * MIB)
    plant.tenants.remove(steady)
    until(here, lambda: "/liar" in memory_of(here).restore)
    here.run(40)
    assert not memory_of(here).absent
    assert "/steady: gone, and its limit of 128 MiB is forgotten" in caplog.text
