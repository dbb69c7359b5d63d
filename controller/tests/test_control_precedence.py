# SPDX-License-Identifier: Apache-2.0
"""The order of precedence: a missed SLO, then memory with large gains, then policies."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat, linear
from experiments.control_loop.world import World

from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.slos import SloStatus
from cachepilot.sizes import parse_size

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256, 384, 512))
SLOW_US = 50_000.0
"""Time of a miss. Operations are so few that a policy is on trial for a minute."""
REST = Objective("*")


def world(
    path: Path, *tenants: PlantTenant, stated: tuple[Objective, ...] = (), noise: float = 0.01
) -> World:
    budget = sum(one.limit_bytes for one in tenants)
    plant = Plant(list(tenants), budget, SIZES, miss_cost_us=SLOW_US, noise=noise)
    return World(path, plant, (*stated, REST))


def ask(world: World, *stated: Objective) -> None:
    world.service.set_objectives(Objectives((*stated, REST)))


def told(world: World, cgroup: str) -> SloStatus:
    report = world.loop.report
    assert report is not None
    return report.slos[cgroup][0]


def test_a_tenant_that_misses_its_slo_gives_no_memory_whatever_is_predicted(tmp_path: Path) -> None:
    """The tenant's curve says that much less memory would meet its SLO."""
    missing = PlantTenant("/missing", {"default": linear(256 * MIB)}, 128 * MIB)
    missing.told = {"default": linear(160 * MIB)}
    taker = PlantTenant("/taker", {"default": linear(256 * MIB)}, 128 * MIB, threads=64)
    stated = Objective("/missing", throughput_ops=170.0)
    here = world(tmp_path, missing, taker, stated=(stated,))
    for _ in range(40):
        here.run(1)
        assert missing.limit_bytes >= 128 * MIB


def test_excess_memory_goes_to_an_slo_that_is_missed(tmp_path: Path) -> None:
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


def test_protected_memory_comes_back_as_soon_as_no_slo_needs_it(tmp_path: Path) -> None:
    """A tenant that hits nothing gives more than half for an SLO. Its return gains nothing.

    The return takes as long as reading again what the other tenant gives: minutes here.
    """
    promised = PlantTenant("/promised", {"default": linear(256 * MIB)}, 128 * MIB)
    idle = PlantTenant("/idle", {"default": flat(1.0)}, 128 * MIB)
    stated = Objective("/promised", throughput_ops=600.0)
    here = world(tmp_path, promised, idle, stated=(stated,))
    here.run(60)
    assert idle.limit_bytes < 40 * MIB and told(here, "/promised").met
    ask(here, Objective("/promised", throughput_ops=150.0))
    here.run(400)
    assert idle.limit_bytes >= 63 * MIB and told(here, "/promised").met


@pytest.mark.parametrize("priority", [0, 1])
def test_only_the_margin_of_a_higher_priority_takes_protected_memory(
    tmp_path: Path, priority: int
) -> None:
    promised = PlantTenant("/promised", {"default": linear(256 * MIB)}, 128 * MIB)
    other = PlantTenant("/other", {"default": flat(0.5)}, 128 * MIB)
    stated = Objective("/promised", throughput_ops=260.0, priority=priority)
    here = world(tmp_path, promised, other, stated=(stated,), noise=0.1)
    here.run(120)
    assert told(here, "/promised").state == "met"
    assert (other.limit_bytes < 60 * MIB) == (priority > 0)


def test_an_infeasible_slo_stays_infeasible_while_confidence_is_low(tmp_path: Path) -> None:
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
    assert told(here, "/greedy").state == "unknown"
    greedy.distrust = ""
    ask(here, Objective("/greedy", throughput_ops=100.0))
    here.run(5)
    assert told(here, "/greedy").state == "met"


def test_attainable_is_what_the_limits_give_in_the_end(tmp_path: Path) -> None:
    """It is predicted by optimistic curves before memory moves, and measured afterwards."""
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


def test_a_stated_minimum_comes_before_a_missed_slo(tmp_path: Path) -> None:
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
