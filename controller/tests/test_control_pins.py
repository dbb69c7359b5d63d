# SPDX-License-Identifier: Apache-2.0
"""Pins in the whole control loop: they take effect at once, in every mode, without a trial."""

from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear, scan
from experiments.control_loop.world import World

from cachepilot.api.fleet_service import REVERTED_S
from cachepilot.api.service import UnknownError
from cachepilot.api.shapes.questions import Pin, WhatIf
from cachepilot.api.shapes.rollout import Consolidate
from cachepilot.api.shapes.views import DecisionView
from cachepilot.domain.decisions import Decision, Event, Setting
from cachepilot.domain.objectives.objective import Mode, Objective
from cachepilot.domain.past.change import ChangeFilter, ChangeKind, ChangeRow, ChangeState
from cachepilot.domain.recorded import RecordedDecision
from cachepilot.errors import InputError, OutOfRangeError
from cachepilot.store.store import Store

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 96, 128, 192, 256, 384))
EVERYBODY = (Objective("*"),)


def a_world(path: Path, *objectives: Objective, distrust: str = "") -> World:
    curves = {"default": linear(200 * MIB), "lfu": linear(300 * MIB)}
    first = PlantTenant("/a", curves, 128 * MIB, distrust=distrust)
    other = PlantTenant("/b", {"default": linear(16 * MIB, 0.02)}, 128 * MIB)
    world = World(path, Plant([first, other], 256 * MIB, SIZES), objectives or EVERYBODY)
    world.run(3)
    return world


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("distrust", ["", "too few samples"])
def test_a_pin_is_obeyed_within_two_cycles_in_every_mode(
    tmp_path: Path, mode: Mode, distrust: str
) -> None:
    world = a_world(tmp_path, Objective("*", mode=mode), distrust=distrust)
    before = world.events("/a")
    world.service.pin(Pin(cgroup="/a", policy="lfu", limit_bytes=64 * MIB))
    world.run(2)
    pinned = world.plant.of("/a")
    assert (pinned.policy, pinned.limit_bytes) == ("lfu", 64 * MIB)
    row = world.service.tenant("/a").tenant
    assert (row.pinned_policy, row.pinned_limit_bytes) == ("lfu", 64 * MIB)
    world.run(40)
    assert (pinned.policy, pinned.limit_bytes) == ("lfu", 64 * MIB)
    assert Event.TRIAL not in world.events("/a")[len(before) :]
    world.service.unpin("/a")
    world.run(40)
    assert world.service.tenant("/a").tenant.pinned_policy is None
    assert pinned.policy == "default"
    assert mode is Mode.AUTO or pinned.limit_bytes == 128 * MIB


def test_a_limit_above_what_is_free_is_made_room_for(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    world.service.pin(Pin(cgroup="/b", limit_bytes=180 * MIB))
    world.run(40)
    assert world.plant.of("/b").limit_bytes == 180 * MIB
    assert world.plant.of("/a").limit_bytes <= 76 * MIB


def test_a_pinned_policy_that_the_node_refuses_is_told_once_with_the_reason(
    tmp_path: Path,
) -> None:
    world = a_world(tmp_path, Objective("*", mode=Mode.OBSERVE))
    world.plant.refuse = {"/a": "no memory is left for it"}
    world.service.pin(Pin(cgroup="/a", policy="lfu"))
    world.run(20)
    assert world.events("/a").count(Event.REFUSED) == 1
    told = world.service.tenant("/a").tenant
    assert (told.policy, told.pinned_policy) == ("default", "lfu")
    assert "refused" in told.last_decision and "no memory is left for it" in told.last_decision
    asked = ChangeFilter(cgroup="/a", state=ChangeState.REFUSED)
    (row,) = world.service.past.changes(asked, 10)[0]
    assert (row.from_policy, row.to_policy) == ("default", "lfu")
    world.plant.refuse = {}
    world.run(80)
    assert world.plant.of("/a").policy == "lfu"


def test_a_pinned_limit_leaves_the_policy_to_the_autopilot(tmp_path: Path) -> None:
    curves = {"default": scan(200 * MIB), "mru": linear(200 * MIB)}
    world = World(tmp_path, Plant([PlantTenant("/a", curves, 64 * MIB)], 128 * MIB, SIZES))
    world.run(1)
    world.service.pin(Pin(cgroup="/a", limit_bytes=96 * MIB))
    world.run(40)
    assert (world.plant.of("/a").policy, world.plant.of("/a").limit_bytes) == ("mru", 96 * MIB)
    assert world.events("/a") == [Event.TRIAL, Event.KEPT]


def test_a_pin_of_a_policy_holds_up_no_memory(tmp_path: Path) -> None:
    hungry = PlantTenant("/a", {"default": linear(400 * MIB)}, 128 * MIB, threads=64)
    sated = PlantTenant("/b", {"default": linear(16 * MIB, 0.02)}, 128 * MIB)
    world = World(tmp_path, Plant([hungry, sated], 256 * MIB, SIZES))
    world.run(1)
    world.service.pin(Pin(cgroup="/a", policy="default"))
    world.run(100)
    assert hungry.limit_bytes > 150 * MIB


def test_one_pin_of_a_tenant_adds_to_the_other(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    world.service.pin(Pin(cgroup="/a", policy="lfu"))
    world.service.pin(Pin(cgroup="/a", limit_bytes=64 * MIB))
    world.run(2)
    row = world.service.tenant("/a").tenant
    assert (row.policy, row.pinned_policy) == ("lfu", "lfu")
    assert (row.limit_bytes, row.pinned_limit_bytes) == (64 * MIB, 64 * MIB)
    world.service.unpin("/a")
    world.run(1)
    assert world.service.tenant("/a").tenant.pinned_policy is None


def test_what_if_and_consolidation_take_pins_into_account(tmp_path: Path) -> None:
    world = a_world(tmp_path, Objective("/b", hit_ratio=0.9), Objective("*"))
    world.service.pin(Pin(cgroup="/a", node="plant", limit_bytes=100 * MIB))
    world.run(2)
    answer = world.service.what_if(WhatIf(node="plant", budget_bytes=512 * MIB))
    assert {one.cgroup: one.to_limit_bytes for one in answer.tenants}["/a"] == 100 * MIB
    rows = {one.cgroup: one for one in world.service.consolidation().tenants}
    assert rows["/a"].least_bytes == 100 * MIB and rows["/b"].least_bytes < 100 * MIB


@pytest.mark.parametrize("spreads", [False, True])
def test_a_node_that_no_tenant_can_leave_is_refused_by_name(tmp_path: Path, spreads: bool) -> None:
    world = a_world(tmp_path)
    can = "has tenants that can leave it" if spreads else "can be drained"
    with pytest.raises(InputError) as refused:
        world.service.moving.begin(Consolidate(node="plant", spreads=spreads))
    told = f"consolidation: node: plant: not one that {can} (allowed: none)"
    assert str(refused.value) == told


def test_a_limit_that_is_not_whole_pages_is_refused_at_once(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    with pytest.raises(InputError, match=r"pin /a: limit .*8388609 bytes, .* not whole pages"):
        world.service.pin(Pin(cgroup="/a", limit_bytes=8 * MIB + 1))
    world.run(1)


def test_a_limit_below_the_floor_is_refused_at_once(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    with pytest.raises(OutOfRangeError) as refused:
        world.service.pin(Pin(cgroup="/a", limit_bytes=4096))
    assert str(refused.value) == (
        "pin /a: limit 4 KiB is below 1 MiB, what cannot be reclaimed and a margin "
        "(allowed: 256pages to 65536pages: 1 MiB to 256 MiB)"
    )
    told = refused.value
    assert (told.key, told.value, told.least, told.most) == ("limit_bytes", 4096, MIB, 256 * MIB)
    assert world.store.pins() == []


def test_a_pin_and_a_what_if_may_go_below_protected_memory(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    row = world.service.tenant("/a").tenant
    assert (row.floor_bytes, row.least_limit_bytes) == (64 * MIB, MIB)
    asked = {"/a": 20 * MIB}
    answer = world.service.what_if(WhatIf(node="plant", limit_bytes=asked))
    assert {one.cgroup: one.to_limit_bytes for one in answer.tenants}["/a"] == 20 * MIB
    world.service.pin(Pin(cgroup="/a", limit_bytes=20 * MIB))
    world.run(40)
    assert world.plant.of("/a").limit_bytes == 20 * MIB
    with pytest.raises(OutOfRangeError, match=r"^what-if: /a: limit 4 KiB is below 1 MiB, what"):
        world.service.what_if(WhatIf(node="plant", limit_bytes={"/a": 4096}))


def a_kept_policy(path: Path, wall: list[float]) -> tuple[World, DecisionView]:
    """Return a world with the wall clock `wall[0]`, and the decision that kept "mru" for /a."""
    curves = {"default": scan(200 * MIB), "mru": linear(200 * MIB)}
    world = World(path, Plant([PlantTenant("/a", curves, 64 * MIB)], 128 * MIB, SIZES))
    world.store.close()
    world.store = Store(world.path, clock=lambda: wall[0])
    world.begin()
    for _ in range(40):
        world.run(5)
        kept = world.service.history("/a", event=Event.KEPT)
        if any(one.from_policy != one.to_policy for one in kept):
            break
    return world, next(one for one in kept if one.from_policy != one.to_policy)


def test_a_revert_holds_for_the_longest_cool_down_and_ends_by_itself(tmp_path: Path) -> None:
    wall = [1e9]
    world, decision = a_kept_policy(tmp_path, wall)
    tenant = world.plant.of("/a")
    before, after = decision.from_policy, decision.to_policy
    assert (tenant.policy, before == after) == (after, False)
    pin = world.service.revert(decision.id)
    hold_s = REVERTED_S
    assert pin.until_s == wall[0] + hold_s
    world.run(2)
    assert tenant.policy == before
    assert world.service.tenant("/a").tenant.pinned_until_s == pin.until_s
    wall[0] += hold_s - 1
    world.restart()
    world.store.close()
    world.store = Store(world.path, clock=lambda: wall[0])
    world.begin()
    world.run(60)
    assert tenant.policy == before
    wall[0] += 2
    world.run(1)
    assert world.service.tenant("/a").tenant.pinned_until_s is None
    assert world.store.pins() == []
    for _ in range(40):
        world.run(5)
        if tenant.policy != before:
            break
    assert tenant.policy == after, "the autopilot decides again"


def test_a_revert_leaves_what_an_operator_pinned(tmp_path: Path) -> None:
    wall = [1e9]
    world, decision = a_kept_policy(tmp_path, wall)
    with pytest.raises(UnknownError, match="decision 12345: unknown"):
        world.service.revert(12345)
    world.service.pin(Pin(cgroup="/a", limit_bytes=64 * MIB))
    pins = world.store.pins()
    with pytest.raises(InputError, match="/a: until_s: it is pinned: unpin it first"):
        world.service.revert(decision.id)
    assert world.store.pins() == pins
    world.service.unpin("/a")
    for node in ("plant", None):
        world.service.revert(decision.id)
        world.service.pin(Pin(cgroup="/a", node=node, policy=decision.to_policy))
        assert [one.until_s for one in world.store.pins()] == [None], "a pin is for good"
        world.service.unpin("/a", node)


def test_a_pin_that_is_on_one_node_is_named_with_it(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    world.service.pin(Pin(cgroup="/a", node="plant", policy="default"))
    told = "pin /a on all nodes: unknown .known: /a on node plant."
    with pytest.raises(UnknownError, match=told):
        world.service.unpin("/a")
    world.service.unpin("/a", "plant")


@pytest.mark.parametrize("until_s", [1e9, 0.0, 4e9, float("nan")])
def test_a_pin_that_ends_at_no_sensible_time_is_refused(tmp_path: Path, until_s: float) -> None:
    world = a_world(tmp_path)
    world.store.close()
    world.store = Store(world.path, clock=lambda: 1e9)
    world.begin()
    world.run(1)
    with pytest.raises(InputError, match="pin /a: until_s"):
        world.service.pin(Pin(cgroup="/a", policy="lfu", until_s=until_s))
    assert world.store.pins() == []


def test_a_change_is_reverted_by_its_id_as_long_as_it_is_in_force(tmp_path: Path) -> None:
    world, decision = a_kept_policy(tmp_path, [1e9])
    asked = ChangeFilter(cgroup="/a", state=ChangeState.CONFIRMED, kind=ChangeKind.POLICY)
    rows, _ = world.service.past.changes(asked, 10)
    change = next(one for one in rows if one.in_force)
    assert (change.from_policy, change.to_policy) == (decision.from_policy, decision.to_policy)
    pin = world.service.revert_change(change.id)
    assert (pin.policy, pin.limit_bytes) == (change.from_policy, None)
    assert pin.until_s == 1e9 + REVERTED_S
    world.run(2)
    assert world.plant.of("/a").policy == change.from_policy
    with pytest.raises(InputError, match=f"change {change.id}: not in force any more"):
        world.service.revert_change(change.id)
    with pytest.raises(UnknownError, match="change 12345: unknown"):
        world.service.revert_change(12345)


def test_a_changed_objective_cannot_be_reverted_as_a_setting(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    world.run(1)
    row = ChangeRow(ChangeKind.OBJECTIVE, ChangeState.DONE, "", "/a*", 1e9)
    world.store.save_changes([(row, None)])
    assert row.id > 0
    with pytest.raises(InputError, match="no setting of a tenant"):
        world.service.revert_change(row.id)


def test_a_pin_for_good_does_not_take_over_what_a_revert_pinned(tmp_path: Path) -> None:
    world, decision = a_kept_policy(tmp_path, [1e9])
    world.service.revert(decision.id)
    mine = Pin(cgroup="/a", node="plant", limit_bytes=64 * MIB)
    world.service.pin(mine)
    assert [Pin.of(one) for one in world.store.pins()] == [mine]


def test_a_pin_that_ends_leaves_one_for_good(tmp_path: Path) -> None:
    world, _ = a_kept_policy(tmp_path, [1e9])
    for node in ("plant", None):
        mine = Pin(cgroup="/a", node=node, policy="default")
        world.service.pin(mine)
        for where in {node, "plant"}:
            with pytest.raises(InputError, match="/a: until_s: it is pinned: unpin it first"):
                world.service.pin(
                    Pin(cgroup="/a", node=where, limit_bytes=64 * MIB, until_s=1e9 + 5)
                )
        assert [Pin.of(one) for one in world.store.pins()] == [mine]
        world.service.unpin("/a", node)


def _decided(world: World, *events: tuple[Event, str, str]) -> list[RecordedDecision]:
    """Store decisions about the policy of /a, each of an earlier cycle. Return them in order."""
    for event, before, after in events:
        one = Decision(0.0, "/a", event, Setting(before, 64 * MIB), Setting(after, 64 * MIB), "why")
        world.store.save("plant", 1, 0.0, [one])
    return world.store.history("/a", None, len(events))[::-1]


@pytest.mark.parametrize("event", list(Event))
def test_only_what_is_in_force_is_reverted(tmp_path: Path, event: Event) -> None:
    world = a_world(tmp_path)
    (decision,) = _decided(world, (event, "lfu", "default"))
    (listed,) = world.service.history("/a", limit=1)
    assert listed.in_force is (event is Event.KEPT)
    if listed.in_force:
        assert world.service.revert(decision.id).policy == "lfu"
        return
    why = "its trial is over" if event is Event.TRIAL else r"\(allowed: trial, confirmed\)"
    with pytest.raises(InputError, match=f"decision {decision.id}: .*not in force.*{why}"):
        world.service.revert(decision.id)
    assert world.store.pins() == []


def test_the_last_of_several_decisions_with_the_same_result_is_reverted(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    old, away, taken_back, last, empty = _decided(
        world,
        (Event.KEPT, "lfu", "default"),
        (Event.KEPT, "default", "lfu"),
        (Event.REVERTED, "lfu", "default"),
        (Event.KEPT, "lfu", "default"),
        (Event.KEPT, "default", "default"),
    )
    listed = world.service.history("/a", limit=5)
    assert [one.id for one in listed if one.in_force] == [last.id]
    refused = {
        old.id: f"decision {last.id} is",
        away.id: "policy is default, it led to lfu",
        taken_back.id: "undone: not in force",
        empty.id: "it changed nothing",
    }
    for decision, why in refused.items():
        with pytest.raises(InputError, match=f"decision {decision}: .*{why}"):
            world.service.revert(decision)
    assert world.service.revert(last.id).policy == "lfu"


def _swaps(world: World, event: Event | None = None) -> list[DecisionView]:
    found = world.service.history("/a", event=event)
    return [one for one in found if one.from_policy != one.to_policy]


def test_a_trial_can_be_reverted_while_it_runs_and_not_once_it_was_kept(tmp_path: Path) -> None:
    wall = [1e9]
    world, kept = a_kept_policy(tmp_path, wall)
    trial = _swaps(world, Event.TRIAL)[0]
    assert trial.to_policy == kept.to_policy
    with pytest.raises(InputError, match=f"decision {trial.id}: .*its trial is over"):
        world.service.revert(trial.id)
    assert [one.id for one in _swaps(world) if one.in_force] == [kept.id]
    world.service.revert(kept.id)
    world.run(2)
    with pytest.raises(InputError, match=f"decision {kept.id}: not in force any more"):
        world.service.revert(kept.id)
    wall[0] += REVERTED_S + 1
    for _ in range(200):
        world.run(1)
        running = [one for one in _swaps(world, Event.TRIAL) if one.in_force]
        if running:
            break
    assert running[0].id > kept.id
    assert world.service.revert(running[0].id).policy == running[0].from_policy


def test_memory_that_moves_on_trial_can_be_reverted(tmp_path: Path) -> None:
    world = a_world(tmp_path)
    for _ in range(200):
        world.run(1)
        listed = world.service.history("/b", event=Event.TRIAL)
        if listed:
            break
    world.run(3)
    trial = world.service.history("/b", event=Event.TRIAL)[0]
    assert trial.in_force
    pin = world.service.revert(trial.id)
    assert (pin.policy, pin.limit_bytes) == (None, trial.from_limit_bytes)
