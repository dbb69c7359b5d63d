# SPDX-License-Identifier: Apache-2.0
"""What comes first: a promise that is missed, memory that promises much, policies that may help."""

from pathlib import Path

from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat, linear
from experiments.control_loop.world import World

from cachepilot.api.shapes import SloView
from cachepilot.control.decisions import Event
from cachepilot.planner.objectives import Objective, Objectives
from cachepilot.sizes import parse_size

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256, 384, 512))
SLOW_US = 50_000.0
"""A miss: operations are so few that a policy is on trial for a minute."""
REST = Objective("*")


def curious(cgroup: str, miss: float = 0.5, less: float = 0.03) -> PlantTenant:
    """A tenant of which another policy is told to be better by little more than the noise."""
    tenant = PlantTenant(cgroup, {"default": flat(miss), "lfu": flat(miss)}, 128 * MIB)
    tenant.told = {"default": flat(miss), "lfu": flat(miss - less)}
    tenant.error_bar = 0.02
    return tenant


def world(path: Path, *tenants: PlantTenant, stated: tuple[Objective, ...] = ()) -> World:
    budget = sum(one.limit_bytes for one in tenants)
    plant = Plant(list(tenants), budget, SIZES, miss_cost_us=SLOW_US)
    return World(path, plant, (*stated, REST))


def ask(world: World, *stated: Objective) -> None:
    world.service.set_objectives(Objectives((*stated, REST)))


def until_trial(world: World, cgroup: str) -> None:
    for _ in range(60):
        world.run(1)
        if world.loop._guard.state.tenants[cgroup].trial is not None:
            return
    raise AssertionError(f"no policy was tried on {cgroup}")


def why_abandoned(world: World, cgroup: str) -> list[str]:
    return [one.why for one in world.service.history(cgroup) if one.event == Event.ABANDONED]


def told(world: World, cgroup: str) -> SloView:
    report = world.loop.report
    assert report is not None
    return report.slos[cgroup][0]


def test_a_trial_that_promises_little_gives_way_to_a_promise_that_is_missed(tmp_path: Path) -> None:
    promised = PlantTenant("/promised", {"default": flat(0.5)}, 128 * MIB)
    here = world(tmp_path, promised, curious("/curious"))
    until_trial(here, "/curious")
    promised.change({"default": linear(256 * MIB)})
    ask(here, Objective("/promised", throughput_ops=200.0))
    here.run(25)
    assert why_abandoned(here, "/curious") == [
        "memory for the SLO of /promised: the trial is in its way"
    ]
    assert promised.limit_bytes > 150 * MIB
    assert here.plant.of("/curious").policy == "default"


def test_memory_that_promises_far_more_comes_from_the_best_donor(tmp_path: Path) -> None:
    taker = PlantTenant("/taker", {"default": flat(0.5)}, 128 * MIB, threads=32)
    costly = PlantTenant("/costly", {"default": linear(256 * MIB)}, 128 * MIB)
    stated = (Objective("/costly", memory_max=parse_size("128MiB")),)
    here = world(tmp_path, taker, costly, curious("/curious"), stated=stated)
    until_trial(here, "/curious")
    taker.change({"default": linear(256 * MIB, 0.1)})
    here.run(40)
    assert why_abandoned(here, "/curious") == ["memory promises far more: the trial is in its way"]
    assert here.plant.of("/curious").limit_bytes < 100 * MIB
    assert costly.limit_bytes >= here.plant.of("/curious").limit_bytes


def test_who_misses_its_own_promise_gives_no_memory_whatever_is_predicted(tmp_path: Path) -> None:
    """Its curve says that it keeps its promise with much less."""
    missing = PlantTenant("/missing", {"default": linear(256 * MIB)}, 128 * MIB)
    missing.told = {"default": linear(160 * MIB)}
    taker = PlantTenant("/taker", {"default": linear(256 * MIB)}, 128 * MIB, threads=64)
    stated = Objective("/missing", throughput_ops=170.0)
    here = world(tmp_path, missing, taker, stated=(stated,))
    for _ in range(40):
        here.run(1)
        assert missing.limit_bytes >= 128 * MIB


def test_no_policy_that_promises_little_is_tried_on_a_promise_just_kept(tmp_path: Path) -> None:
    near, far = (Objective("/curious", throughput_ops=ops) for ops in (150.0, 100.0))
    here = world(tmp_path, curious("/curious"), stated=(near,))
    here.run(60)
    assert here.events() == []
    ask(here, far)
    until_trial(here, "/curious")


def test_what_was_given_too_much_goes_back_to_a_promise_that_is_missed(tmp_path: Path) -> None:
    rich, poor = (
        PlantTenant(name, {"default": linear(256 * MIB)}, 128 * MIB) for name in ("/rich", "/poor")
    )
    here = world(tmp_path, rich, poor, stated=(Objective("/rich", throughput_ops=220.0),))
    here.run(60)
    assert rich.limit_bytes > 155 * MIB
    ask(
        here,
        Objective("/rich", throughput_ops=120.0),
        Objective("/poor", throughput_ops=180.0),
    )
    here.run(40)
    assert poor.limit_bytes > 140 * MIB
    assert told(here, "/rich").met and told(here, "/poor").met


def test_infeasible_stays_named_until_data_that_are_trusted_say_otherwise(tmp_path: Path) -> None:
    greedy = PlantTenant("/greedy", {"default": linear(512 * MIB, 0.3)}, 128 * MIB)
    other = PlantTenant("/other", {"default": flat(0.5)}, 128 * MIB)
    stated = Objective("/greedy", throughput_ops=20_000.0)
    here = world(tmp_path, greedy, other, stated=(stated,))
    here.run(10)
    named = told(here, "/greedy")
    assert named.state == "unattainable"
    greedy.distrust = "events were dropped"
    here.run(5)
    still = told(here, "/greedy")
    assert still.state == "unattainable" and still.attainable_ops == named.attainable_ops
    assert "events were dropped" in still.why
    ask(here, Objective("/greedy", throughput_ops=10_000.0))
    here.run(1)
    assert told(here, "/greedy").state == "held"
    greedy.distrust = ""
    ask(here, Objective("/greedy", throughput_ops=100.0))
    here.run(5)
    assert told(here, "/greedy").state == "kept"


def test_attainable_is_what_the_limits_give_in_the_end(tmp_path: Path) -> None:
    """Told before memory moved, by curves that promise too much; measured once it has."""
    greedy = PlantTenant("/greedy", {"default": linear(400 * MIB)}, 128 * MIB)
    greedy.told = {"default": lambda size: 0.9 * linear(400 * MIB)(size)}
    other = PlantTenant("/other", {"default": flat(0.5)}, 128 * MIB)
    here = world(tmp_path, greedy, other, stated=(Objective("/greedy", throughput_ops=20_000.0),))
    here.run(12)
    early = told(here, "/greedy").attainable_ops
    here.run(80)
    late = told(here, "/greedy")
    assert early is not None and late.measured is not None and late.attainable_ops is not None
    assert abs(early / late.measured - 1) < 0.1
    assert abs(late.attainable_ops / late.measured - 1) < 0.05


def test_a_minimum_that_is_stated_comes_before_who_misses_its_promise(tmp_path: Path) -> None:
    missing = PlantTenant("/missing", {"default": linear(256 * MIB)}, 128 * MIB)
    other = PlantTenant("/other", {"default": flat(0.5)}, 128 * MIB)
    stated = (
        Objective("/missing", throughput_ops=300.0),
        Objective("/other", memory_min=parse_size("160MiB")),
    )
    here = world(tmp_path, missing, other, stated=stated)
    here.run(40)
    assert other.limit_bytes == 160 * MIB
    assert told(here, "/missing").state == "unattainable"
