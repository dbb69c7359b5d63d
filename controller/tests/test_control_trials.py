# SPDX-License-Identifier: Apache-2.0
"""Trials on loads that change meanwhile, what trials may cost, and who gets memory back."""

from collections.abc import Callable
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Curve, Plant, PlantTenant, flat, linear, scan
from experiments.control_loop.world import World

from cachepilot.api.shapes.questions import Pin
from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.memory_gain import STEP_SHARE_MIN
from cachepilot.control.memory_trial import Member, MemoryTrial, worse_sum
from cachepilot.control.verdict import stats
from cachepilot.domain.decisions import Event, Reading
from cachepilot.domain.objectives.objective import Goal
from cachepilot.sense.counters import Sample

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256, 384, 512))


def three(tmp_path: Path, lies: bool = True) -> World:
    """Two donors to one that gains by memory; `/liar` falls apart when it gives, `/steady` not."""
    hungry = PlantTenant("/hungry", {"default": linear(400 * MIB)}, 128 * MIB, threads=64)
    liar = PlantTenant("/liar", {"default": linear(16 * MIB, 0.02)}, 128 * MIB)
    steady = PlantTenant("/steady", {"default": linear(16 * MIB, 0.02)}, 128 * MIB)
    if lies:
        liar.told = dict(liar.curves)
        liar.curves = {"default": linear(120 * MIB, 0.02)}
    return World(tmp_path, Plant([hungry, liar, steady], 384 * MIB, SIZES))


def pin_policy(world: World, tenant: PlantTenant) -> None:
    world.service.pin(Pin(cgroup=tenant.cgroup, policy="default"))


def distrust(_: World, tenant: PlantTenant) -> None:
    tenant.distrust = "events were dropped"


def change(_: World, tenant: PlantTenant) -> None:
    tenant.phase += 1


@pytest.mark.parametrize("leave", [pin_policy, distrust, change])
def test_memory_goes_back_to_a_member_that_left_the_trial(
    tmp_path: Path, leave: Callable[[World, PlantTenant], None]
) -> None:
    world = three(tmp_path)
    plant, steady = world.plant, world.plant.of("/steady")
    until_given(world)
    leave(world, steady)
    world.run(2)
    until_reverted(world)
    world.run(10)
    assert steady.limit_bytes == 128 * MIB
    assert plant.of("/liar").limit_bytes == 128 * MIB
    assert plant.most_promised_bytes <= plant.budget_bytes


def until_given(world: World) -> None:
    """Until `/steady` has given memory, and its trial goes on."""
    for _ in range(10):
        world.run(1)
        if world.plant.of("/steady").limit_bytes < 128 * MIB:
            break
    assert "/steady" in members(world)


def members(world: World) -> set[str]:
    trial = world.loop._guard.state.memory.trial
    return set() if trial is None else set(trial.members)


def until_reverted(world: World) -> None:
    memory = world.loop._guard.state.memory
    for _ in range(60):
        if memory.restore:
            break
        world.run(1)
    assert memory.restore


def test_memory_goes_back_to_a_member_that_was_away_meanwhile(tmp_path: Path) -> None:
    world = three(tmp_path)
    plant, steady = world.plant, world.plant.of("/steady")
    until_given(world)
    plant.tenants.remove(steady)
    until_reverted(world)
    memory = world.loop._guard.state.memory
    world.run(2)
    assert "/steady" in memory.absent
    plant.tenants.append(steady)
    steady.seen_generation = 0
    world.run(10)
    assert steady.limit_bytes == 128 * MIB and not memory.restore


def test_memory_is_not_given_back_to_another_cgroup_of_that_name(tmp_path: Path) -> None:
    world = three(tmp_path)
    steady = world.plant.of("/steady")
    until_given(world)
    steady.cgroup_id += 1
    until_reverted(world)
    memory = world.loop._guard.state.memory
    limit = steady.limit_bytes
    world.run(1)
    assert steady.limit_bytes == limit and "/steady" not in memory.restore


def one(tmp_path: Path, guard: GuardConfig | None = None, **changes: object) -> World:
    """A loop over 200 MiB in 128 MiB: everything misses but under `mru`."""
    curves = {"default": scan(200 * MIB), "mru": linear(200 * MIB), "lfu": scan(210 * MIB)}
    tenant = PlantTenant("/scan", curves, 128 * MIB)
    for name, value in changes.items():
        setattr(tenant, name, value)
    return World(tmp_path, Plant([tenant], 128 * MIB, SIZES), guard=guard)


def begin_phase(tenant: PlantTenant, curves: dict[str, Curve]) -> None:
    """As the agent tells it: at first that a phase began, its curves when they are known."""
    tenant.phase += 1
    tenant.told, tenant.curves = dict(tenant.curves), curves
    tenant.distrust = "warming up: the working set was not yet seen once"


def learn(tenant: PlantTenant) -> None:
    tenant.told, tenant.distrust = {}, ""
    tenant.generation += 1


WORSE = {"default": flat(0.95), "mru": flat(0.9), "lfu": flat(0.95)}


def test_a_neighbour_that_takes_the_device_is_not_blamed_on_memory(tmp_path: Path) -> None:
    world = three(tmp_path, lies=False)
    plant = world.plant
    plant.capacity_iops = 40_000
    plant.tenants.append(PlantTenant("/loud", {"default": flat(0.9)}, 64 * MIB))
    plant.budget_bytes += 64 * MIB
    while not members(world):
        world.run(1)
    loud = plant.of("/loud")
    while world.loop._guard.state.memory.trial and not settling(world):
        world.run(1)
    world.run(2)
    loud.threads, loud.phase = 400.0, loud.phase + 1
    world.run(15)
    assert Event.REVERTED not in world.events()


def settling(world: World) -> bool:
    trial = world.loop._guard.state.memory.trial
    return trial is not None and trial.phase == "settling"


def never_settles(tmp_path: Path, guard: GuardConfig) -> float:
    """Throughput of a load whose curves ever promise another policy, against its default's."""
    names = [f"p{i}" for i in range(8)]
    truth = {"default": flat(0.4)} | {name: flat(0.7) for name in names}
    world = one(tmp_path, guard, curves=truth)
    tenant = world.plant.of("/scan")
    for i in range(20):
        promised = {name: flat(0.8) for name in names} | {names[i % 8]: flat(0.1 + i / 100)}
        tenant.told, tenant.phase = promised, tenant.phase + 1
        tenant.generation += 1
        world.run(60)
    default_ops = 4e6 / (50 + 500 * 0.4)
    return tenant.totals.read_calls_total / (20 * 60 * default_ops)


def test_memory_moves_no_further_than_was_promised_at_first(tmp_path: Path) -> None:
    """Curves that promise ever more while memory moves do not lead a trial on."""
    world = three(tmp_path, lies=False)
    until_given(world)
    first = trial = world.loop._guard.state.memory.trial
    while trial is first and trial is not None:
        world.run(1)
        if trial.phase == "moving":
            for donor in ("/liar", "/steady"):
                end = trial.ends[donor]
                assert world.plant.of(donor).target_bytes >= end
                trial.ends[donor] = max(end, 100 * MIB)
        trial = world.loop._guard.state.memory.trial
    given = min(world.plant.of(name).limit_bytes for name in ("/liar", "/steady"))
    assert given == pytest.approx(100 * MIB, rel=STEP_SHARE_MIN) and given >= 100 * MIB


def member(policy: str, limits: tuple[int, int], ops: tuple[float, float]) -> Member:
    def at(amount: float, miss: float) -> Sample:
        return Sample(0.0, 1.0, amount, miss, 1000, 100.0, 50.0)

    before = stats([at(ops[0], 0.5)] * 4)
    found = Member(1, policy, *limits, before, Reading(), 0.1, 1.0, None)
    found.samples = [at(ops[1], 0.5 + (ops[0] - ops[1]) / 5000)] * 4
    return found


@pytest.mark.parametrize("goal", [Goal.PROPORTIONAL_FAIRNESS, Goal.TOTAL_THROUGHPUT])
def test_those_who_give_are_not_summed_up_without_those_who_got_it(goal: Goal) -> None:
    members = {
        "/giver": member("default", (128 * MIB, 64 * MIB), (1000.0, 900.0)),
        "/taker": member("default", (128 * MIB, 192 * MIB), (1000.0, 1500.0)),
    }
    trial = MemoryTrial(0.0, members, ways={"/giver": False, "/taker": True})
    assert worse_sum(trial, goal, GuardConfig()) is None
    taker = trial.members.pop("/taker")
    assert worse_sum(trial, goal, GuardConfig()) is not None
    trial.members["/taker"] = taker
    trial.leave("/taker")
    assert worse_sum(trial, goal, GuardConfig()) is None
    assert trial.origins()["/taker"].limit_bytes == 128 * MIB
