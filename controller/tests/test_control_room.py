# SPDX-License-Identifier: Apache-2.0
"""What is agreed, urgent, in the way, waited for or infeasible, and when it is so no longer."""

from dataclasses import replace
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat, linear
from experiments.control_loop.world import World

from cachepilot.control import make_room, memory_guard, proposals
from cachepilot.control.collect import Collected
from cachepilot.control.constraints import constrained
from cachepilot.control.decisions import Reading
from cachepilot.control.guard import Guard
from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.make_room import ASK_S, Asked, Room
from cachepilot.control.memory_course import Course
from cachepilot.control.memory_gain import Patience, grows, worth_it
from cachepilot.control.memory_member import MemoryLook
from cachepilot.control.memory_trial import MemoryTrial, Phase
from cachepilot.control.plan_step import plan_ahead
from cachepilot.control.policy_guard import Proposal, TenantState
from cachepilot.control.report import Report
from cachepilot.control.standing import NOBODY, Standing
from cachepilot.planner.config import Config
from cachepilot.planner.decision import Plan, SloOutcome, SloState
from cachepilot.planner.objectives import Objective, Objectives
from cachepilot.sizes import PAGE_BYTES, parse_size

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256, 384))
CONFIG = GuardConfig()
FREE = Objectives((Objective("*"),))
PROMISED = Objectives((Objective("/a", throughput_ops=1e5), Objective("*")))
SHORT = Standing(short=frozenset({"/a"}))


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


def asked(world: World, plan: Plan, **changes: object) -> Asked:
    report, _ = report_of(world)
    found = Asked(report.collected, FREE, SHORT, lambda: plan, lambda: plan, may_move=True)
    return replace(found, **changes)  # type: ignore[arg-type]


def test_what_was_agreed_is_forgotten_where_memory_rests_or_does_not_move(tmp_path: Path) -> None:
    world = a_world(tmp_path, 128)
    report, plan = report_of(world)
    patience = Patience(until_s=report.collected.time_s + 10, agreed=2)
    assert worth_it(patience, report.collected, FREE, lambda: plan, CONFIG) is None
    assert patience.agreed == 0
    memory = world.loop._guard.state.memory
    memory.patience.agreed = 2
    world.run(1)
    assert memory.patience.agreed == 0
    memory.patience.agreed = 2
    world.loop._guard.step(report.collected, plan, FREE, 0, {}, {}, limits_fixed=True)
    assert memory.patience.agreed == 0


def test_what_was_agreed_is_forgotten_when_memory_must_move(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    report, plan = report_of(world)
    grown = growing(plan, 16 * MIB, slo(SloState.APPROACHING))
    guard = Guard(CONFIG)
    guard.state.memory.patience.agreed = 2
    guard.step(report.collected, grown, PROMISED, MIB, {}, {})
    assert guard.state.memory.patience.agreed == 0


@pytest.mark.parametrize("standing", [NOBODY, SHORT])
def test_room_that_nobody_wants_or_holds_is_asked_for_anew(
    tmp_path: Path, standing: Standing
) -> None:
    world = a_world(tmp_path)
    room = Room(agreed=2)
    wanted = asked(world, report_of(world)[1], standing=standing, may_move=False)
    assert make_room.to_end(room, wanted, {}, CONFIG) == {}
    assert room.agreed == 0


def test_a_step_that_is_not_made_is_not_waited_for(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    _, plan = report_of(world)
    tiny, real = growing(plan, PAGE_BYTES), growing(plan, 16 * MIB)
    assert make_room._for_promise(tiny, asked(world, tiny)) is None
    assert make_room._for_promise(real, asked(world, real)) == "/a"
    assert not proposals.waits_for_memory(tiny, SHORT, ())
    assert proposals.waits_for_memory(real, SHORT, ())


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


def test_memory_that_may_not_move_ends_no_trial(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    _, plan = report_of(world)
    kept = growing(plan, 16 * MIB, slo(SloState.KEPT))
    must = growing(plan, 16 * MIB, slo(SloState.APPROACHING))
    for found, trial, needy in (
        (must, None, "/a"),
        (replace(kept, slos=()), None, None),
        (must, MemoryTrial(0.0, {}, phase=Phase.SETTLING), "/a"),
        (must, MemoryTrial(0.0, {}, phase=Phase.SETTLING, serves={"/a"}), None),
        (must, MemoryTrial(0.0, {}, ways={"/a": True}), "/a"),
        (must, MemoryTrial(0.0, {}, ways={"/a": False}), None),
    ):
        wanted = asked(world, found, may_move=False, trial=trial)
        assert make_room._for_promise(found, wanted) == needy


def curious() -> PlantTenant:
    """A tenant of which another policy is told to be better by little more than the noise."""
    tenant = PlantTenant("/curious", {"default": flat(0.5), "lfu": flat(0.5)}, 128 * MIB)
    tenant.told = {"default": flat(0.5), "lfu": flat(0.47)}
    tenant.error_bar = 0.02
    return tenant


def begun(world: World) -> bool:
    return world.loop._guard.state.tenants["/curious"].trial is not None


def test_who_is_never_known_better_is_waited_for_a_limited_time(tmp_path: Path) -> None:
    hidden = PlantTenant("/hidden", {"default": flat(0.5)}, 128 * MIB, distrust="never seen")
    plant = Plant([hidden, curious()], 256 * MIB, SIZES, miss_cost_us=50_000.0)
    world = World(tmp_path, plant, (Objective("/hidden", throughput_ops=1e6), Objective("*")))
    for _ in range(int(CONFIG.cool_down_s)):
        world.run(1)
        assert not begun(world)
    for _ in range(60):
        world.run(1)
        if begun(world):
            return
    raise AssertionError("no policy was tried")


def test_a_trial_is_ended_once_its_swap_is_over_and_once_in_a_cool_down(tmp_path: Path) -> None:
    world = World(tmp_path, Plant([curious()], 128 * MIB, SIZES, miss_cost_us=50_000.0))
    world.run(1)
    while not begun(world):
        world.run(1)
    _, plan = report_of(world)
    states = world.loop._guard.state.tenants
    trial = states["/curious"].trial
    assert trial is not None and trial.effective_s is None
    actions = tuple(replace(one, limit_bytes=192 * MIB) for one in plan.actions)
    moved, room = replace(plan, actions=actions), Room()
    wanted = asked(world, moved, standing=Standing(short=frozenset({"/curious"})))
    for _ in range(CONFIG.confirm_intervals + 1):
        assert make_room.to_end(room, wanted, states, CONFIG) == {}
    trial.effective_s = 1.0
    assert list(make_room.to_end(room, wanted, states, CONFIG)) == ["/curious"]
    again = replace(wanted, collected=later(wanted.collected, CONFIG.cool_down_s - 1))
    for _ in range(CONFIG.confirm_intervals + 1):
        assert make_room.to_end(room, again, states, CONFIG) == {}
    again = replace(wanted, collected=later(wanted.collected, CONFIG.cool_down_s + ASK_S))
    ended = [make_room.to_end(room, again, states, CONFIG) for _ in range(CONFIG.confirm_intervals)]
    assert list(ended[-1]) == ["/curious"]


@pytest.mark.parametrize("is_clearing", [True, False])
def test_memory_on_trial_is_not_kept_unjudged_for_what_does_not_begin(
    tmp_path: Path, is_clearing: bool
) -> None:
    world = a_world(tmp_path)
    report, plan = report_of(world)
    states, recents = world.loop._guard.state.tenants, world.loop._guard._recent
    state = memory_guard.MemoryState()
    # Nothing forces memory to move where nothing is promised.
    objectives = PROMISED if is_clearing else FREE
    first = growing(plan, 16 * MIB, slo(SloState.APPROACHING))

    def look(plan: Plan, objectives: Objectives, is_clearing: bool = False) -> MemoryLook:
        return MemoryLook(
            report.collected, plan, objectives, 1.0, MIB, (), lambda: plan,
            standing=SHORT, is_clearing=is_clearing,
        )  # fmt: skip

    memory_guard.step(state, look(first, PROMISED), states, recents, CONFIG)
    trial = state.trial
    assert trial is not None
    trial.phase, trial.serves = Phase.SETTLING, set()
    slos = (
        first.slos if is_clearing else (replace(slo(SloState.KEPT), kind="hit_ratio", target=0.01),)
    )
    again = look(growing(plan, 24 * MIB, *slos), objectives, is_clearing)
    assert memory_guard.step(state, again, states, recents, CONFIG) == ({}, [])
    assert state.trial is trial


def test_who_left_a_trial_is_not_served_by_it(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    report, plan = report_of(world)
    guard = world.loop._guard
    state = memory_guard.MemoryState()
    first = growing(plan, 16 * MIB, slo(SloState.APPROACHING))
    look = MemoryLook(
        report.collected, first, PROMISED, 1.0, MIB, (), lambda: first, standing=SHORT
    )
    memory_guard.step(state, look, guard.state.tenants, guard._recent, CONFIG)
    assert state.trial is not None and state.trial.serves == {"/a"}
    state.trial.leave("/a")
    assert state.trial.serves == set()


def test_a_clock_that_goes_back_takes_what_is_remembered_with_it(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    report, plan = report_of(world)
    collected, guard = report.collected, Guard(CONFIG)
    now_s = collected.time_s
    lost = growing(plan, 0, slo(SloState.UNATTAINABLE), slo(SloState.HELD))
    guard.step(collected, lost, PROMISED, 0, {}, {})
    guard._room = Room(now_s + 3, kept_until_s=now_s + 10, served={"/a": now_s})
    guard._elapsed(later(collected, -500))
    assert guard._room == Room(now_s - 497, 0, now_s - 490, {"/a": now_s - 500})
    assert guard._lost["/a"].since_s == guard._lost["/a"].last_s == now_s - 500
    assert guard._unknown_since_s == {"/a": now_s - 500}


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


def test_a_missed_promise_that_a_policy_keeps_has_it_tried(tmp_path: Path) -> None:
    _, plan = report_of(a_world(tmp_path))
    action = next(one for one in plan.actions if one.cgroup == "/a")
    little = Proposal("lfu", Reading(100.0, 0.25), Reading(104.0, 0.2), is_far=True)
    outcome = SloOutcome("/a", "hit_ratio", 0.78, SloState.KEPT, 0.8, 0.8, 104.0, "")
    by_policy = replace(plan, slos=(outcome,))
    standing = replace(SHORT, near=SHORT.short)

    def comes_first(kept: frozenset[str], growing: frozenset[str] = frozenset()) -> bool:
        before = proposals.Before(standing, False, frozenset(), frozenset(), growing, kept)
        return before.comes_first(action, little)

    assert proposals.kept(by_policy) == {"/a"} and proposals.kept(plan) == frozenset()
    assert not comes_first(proposals.kept(by_policy))
    # Not where the plan keeps it with memory too, or does not keep it.
    assert comes_first(proposals.kept(by_policy), frozenset({"/a"}))
    assert comes_first(frozenset())
