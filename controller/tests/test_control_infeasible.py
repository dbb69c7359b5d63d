# SPDX-License-Identifier: Apache-2.0
"""What is infeasible, and what is under way, and when it is so no longer."""

from dataclasses import replace
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World

from cachepilot.control.constraints import constrained
from cachepilot.control.guard import Guard
from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.memory_course import Course
from cachepilot.control.memory_gain import grows
from cachepilot.control.plan_step import plan_ahead
from cachepilot.control.report import Report
from cachepilot.control.standing import Standing
from cachepilot.control.tenant_state import TenantState
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.planned import Plan, SloOutcome, SloState
from cachepilot.plan.problem.config import Config
from cachepilot.sense.collect import Collected
from cachepilot.sizes import parse_size

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256, 384))
CONFIG = GuardConfig()
FREE = Objectives((Objective("*"),))
PROMISED = Objectives((Objective("/a", throughput_ops=1e5), Objective("*")))


def a_world(path: Path, *limits_mib: int) -> World:
    """Tenants /a, /b, ... of these limits, which are the whole budget; 128 MiB each by default."""
    limits = [MIB * size for size in limits_mib or (128, 128)]
    tenants = [
        PlantTenant(f"/{chr(97 + i)}", {"default": linear(200 * MIB)}, limit)
        for i, limit in enumerate(limits)
    ]
    world = World(path, Plant(tenants, sum(limits), SIZES))
    world.run(5)
    return world


def report_of(world: World) -> tuple[Report, Plan]:
    report = world.loop.report
    assert report is not None and report.plan is not None
    return report, report.plan


def later(collected: Collected, seconds: float) -> Collected:
    snapshot = collected.snapshot
    return replace(collected, snapshot=replace(snapshot, time_s=snapshot.time_s + seconds))


def growing(plan: Plan, more_bytes: int, *slos: SloOutcome) -> Plan:
    """A plan that gives /a more and /b as much less."""
    signs = {"/a": 1, "/b": -1}
    actions = tuple(
        replace(one, limit_bytes=one.present.limit_bytes + signs.get(one.cgroup, 0) * more_bytes)
        for one in plan.actions
    )
    return replace(plan, actions=actions, slos=slos)


def slo(state: SloState, value: float = 1.0) -> SloOutcome:
    return SloOutcome("/a", "throughput_ops", 1e5, state, value, value, value, "")


def test_where_limits_never_move_memory_promises_nothing(tmp_path: Path) -> None:
    hungry = PlantTenant("/hungry", {"default": linear(300 * MIB)}, 64 * MIB)
    sated = PlantTenant("/sated", {"default": linear(32 * MIB)}, 192 * MIB)
    world = World(tmp_path, Plant([hungry, sated], 256 * MIB, SIZES))
    world.run(5)
    report, _ = report_of(world)
    collected = report.collected
    for share, moves in ((0.05, True), (0.0, False)):
        config = Config(movement_share=share)
        ahead = plan_ahead(collected, collected.snapshot, FREE, config)
        assert bool(grows(ahead)) is moves


def holds(guard: Guard, collected: Collected) -> bool:
    """Whether /a may not give, as who hardly keeps its promise."""
    tight = Standing(tight=frozenset({"/a"}))
    return guard.constrain(collected, PROMISED, tight).of("/a").memory_min is not None


def test_what_is_long_infeasible_holds_no_memory_until_it_was_feasible_for_a_while(
    tmp_path: Path,
) -> None:
    world = a_world(tmp_path)
    report, plan = report_of(world)
    guard, cool_s = Guard(CONFIG), int(CONFIG.cool_down_s)
    beyond = growing(plan, 0, slo(SloState.UNATTAINABLE))
    kept = growing(plan, 0, slo(SloState.KEPT, 1e6))

    def step(second: int, plan: Plan) -> bool:
        seen = later(report.collected, second)
        guard.step(seen, plan, PROMISED, 0, {}, {})
        return holds(guard, later(seen, 1))

    assert all(step(second, beyond) for second in range(cool_s // 2))
    assert step(cool_s // 2, kept), "not infeasible for long"
    first = cool_s // 2 + 1
    told = [step(second, beyond) for second in range(first, first + cool_s + 5)]
    assert told[0] and not told[-1]
    first += cool_s + 5
    told = [step(second, kept) for second in range(first, first + cool_s + 5)]
    assert not any(told[: cool_s - 1]) and told[-1]


@pytest.mark.parametrize("ago_s", [1.0, 10_000.0])
def test_a_limit_that_has_rested_is_under_way_no_more(tmp_path: Path, ago_s: float) -> None:
    """/c is to have 96 MiB, which only /b can give while /a is held."""
    world = a_world(tmp_path, 128, 64, 64)
    report, _ = report_of(world)
    collected = report.collected
    objectives = Objectives((Objective("/c", memory_min=parse_size("96MiB")), Objective("*")))
    states = {name: TenantState(seen.wire.cgroup_id) for name, seen in collected.seen.items()}
    assert collected.seen["/b"].tenant.floor_bytes == 32 * MIB
    moved_s = collected.time_s - ago_s
    states["/b"].course = Course(up=True, time_s=moved_s, mark=None)
    states["/b"].limit_cool_until_s = moved_s + 60
    tight = Standing(tight=frozenset({"/a"}))
    found = constrained(collected, objectives, states, (), (), tight, CONFIG)
    assert (found.of("/a").memory_min is not None) is (ago_s > 60)
