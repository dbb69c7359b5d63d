# SPDX-License-Identifier: Apache-2.0
"""Changes on trial carry their rollback, are renewed while on trial, and confirmed at the end."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat, scan
from experiments.control_loop.world import World
from worlds import SIZES, fooled, hungry, liar, looping, sated, settles, until

from cachepilot.api.shapes.questions import Pin
from cachepilot.domain.objectives.objective import Objective
from cachepilot.node.acting.on_trial import OnTrial
from cachepilot.node.deciding.wish import Wish
from cachepilot.v1 import session_pb2 as wire

TTL_MS = 40_000


KINDS = ("policy", "limit_bytes")


@dataclass
class Waits:
    """The part of an agent that keeps unconfirmed changes and undoes them, in front of a plant.

    `changes` and `undone` are by cgroup and setting.
    """

    plant: Plant
    changes: dict[tuple[str, str], wire.Action] = field(default_factory=dict)
    deadlines_s: dict[tuple[str, str], float] = field(default_factory=dict)
    undone: set[tuple[str, str]] = field(default_factory=set)
    plans: list[wire.Plan] = field(default_factory=list)
    deaf: bool = False
    """Whether plans are lost."""

    def __post_init__(self) -> None:
        self._apply, self._snapshot = self.plant.apply, self.plant.snapshot
        self.plant.apply = self.apply  # type: ignore[method-assign]
        self.plant.snapshot = self.snapshot  # type: ignore[method-assign]

    @property
    def waiting(self) -> dict[str, wire.Action]:
        """Return, by cgroup, the waiting change with the earliest deadline.

        If none waits, return one that was undone.
        """
        keys = sorted(self.changes, key=lambda key: (key in self.undone, self.deadlines_s[key]))
        return {cgroup: self.changes[cgroup, kind] for cgroup, kind in reversed(keys)}

    def apply(self, plan: wire.Plan) -> wire.Ack:
        if self.deaf:
            return wire.Ack(epoch=plan.epoch)
        self.plans.append(plan)
        for one in plan.actions:
            for key in ((one.cgroup, kind) for kind in KINDS):
                self._take(one, key)
        return self._apply(plan)

    def _take(self, one: wire.Action, key: tuple[str, str]) -> None:
        known, kind = self.changes.get(key), key[1]
        sets_nothing = not any(one.HasField(name) for name in KINDS)
        if one.HasField(kind) and one.revert_to.HasField(kind):
            self.changes[key] = one
            self.undone.discard(key)
        elif one.HasField(kind):
            self.changes.pop(key, None)
        elif not sets_nothing or known is None or known.change_epoch != one.change_epoch:
            return
        elif not one.ttl_ms:
            del self.changes[key]
        self.deadlines_s[key] = self.plant.time_s + one.ttl_ms / 1000

    def _undo(self) -> None:
        for key, one in self.changes.items():
            if key in self.undone or self.plant.time_s < self.deadlines_s[key]:
                continue
            self.undone.add(key)
            back, tenant = one.revert_to, self.plant.of(one.cgroup)
            if key[1] == "policy":
                tenant.swap(back.policy)
            else:
                tenant.limit_bytes = tenant.target_bytes = back.limit_bytes

    def snapshot(self) -> wire.Snapshot:
        self._undo()
        found = self._snapshot()
        waiting = self.waiting
        for tenant_seen in found.tenants:
            first = waiting.get(tenant_seen.cgroup)
            if first is None:
                continue
            limit = tenant_seen.target_limit_bytes or tenant_seen.limit_bytes
            back = wire.Setting(policy=tenant_seen.policy, limit_bytes=limit)
            told = wire.Unconfirmed(epoch=first.change_epoch, revert_to=back)
            for kind in KINDS:
                one = self.changes.get((tenant_seen.cgroup, kind))
                if one is not None and one.change_epoch == first.change_epoch:
                    setattr(told.revert_to, kind, getattr(one.revert_to, kind))
                    told.undone = (tenant_seen.cgroup, kind) in self.undone
            tenant_seen.unconfirmed.CopyFrom(told)
        return found

    def actions(self, since: int = 0) -> list[wire.Action]:
        return [one for plan in self.plans[since:] for one in plan.actions]


def world(path: Path, *tenants: PlantTenant, keep: float = 0.9) -> tuple[World, Waits]:
    plant = Plant(list(tenants), sum(one.limit_bytes for one in tenants), SIZES)
    waits = Waits(plant)
    return World(path, plant, (Objective("*", keep=keep),)), waits


def lost(here: World, cycles: int) -> None:
    """Run so many cycles whose plans do not reach the node."""
    for _ in range(cycles):
        here.plant.pass_time()
        here.loop.cycle(here.plant.snapshot())
        here.loop.after()


def silence(here: World, seconds: float) -> None:
    """Pass a time in which node and controller do not hear from each other."""
    for _ in range(round(seconds)):
        here.plant.pass_time()


def test_a_policy_on_trial_carries_its_rollback_is_renewed_and_confirmed(tmp_path: Path) -> None:
    here, waits = world(tmp_path, looping())
    until(here, lambda: waits.waiting, 150)
    plan, change = waits.plans[-1], waits.waiting["/scan"]
    assert (change.policy, change.revert_to.policy) == ("mru", "default")
    assert not change.revert_to.HasField("limit_bytes")
    assert (change.ttl_ms, change.change_epoch) == (TTL_MS, plan.epoch)
    began = len(waits.plans)
    until(here, lambda: not waits.waiting, 150)
    assert here.events() == ["trial", "kept"]
    *renewed, confirmed = waits.plans[began:]
    expected = wire.Action(cgroup="/scan", cgroup_id=1, change_epoch=plan.epoch, ttl_ms=TTL_MS)
    assert renewed and all(list(one.actions) == [expected] for one in renewed)
    expected.ttl_ms = 0
    assert list(confirmed.actions) == [expected]
    here.run(5)
    assert not waits.actions(len(waits.plans) - 5)


def test_lost_plans_are_sent_again(tmp_path: Path) -> None:
    tenant = looping()
    here, waits = world(tmp_path, tenant)
    until(here, lambda: waits.waiting, 150)
    name = waits.waiting["/scan"].change_epoch
    while here.events() == ["trial"]:
        lost(here, 1)
    assert here.events() == ["trial", "kept"] and waits.waiting["/scan"].change_epoch == name
    lost(here, 3)
    here.run(1)
    assert not waits.waiting and tenant.policy == "mru"


def test_a_change_that_is_rolled_back_is_neither_renewed_nor_confirmed(tmp_path: Path) -> None:
    tenant = fooled()
    here, waits = world(tmp_path, tenant)
    until(here, lambda: waits.waiting, 150)
    while here.events() == ["trial"]:
        lost(here, 1)
    assert here.events() == ["trial", "reverted"]
    here.run(1)
    (back,) = waits.plans[-1].actions
    assert back.policy == "default" and not back.HasField("revert_to") and not waits.waiting
    assert tenant.policy == "default"


def test_a_pin_of_what_is_on_trial_confirms_it(tmp_path: Path) -> None:
    tenant = looping()
    here, waits = world(tmp_path, tenant)
    until(here, lambda: waits.waiting, 150)
    here.service.pin(Pin(cgroup="/scan", policy="mru"))
    here.run(2)
    assert not waits.waiting
    silence(here, TTL_MS / 1000)
    here.run(1)
    assert tenant.policy == "mru"


def test_memory_on_trial_has_one_rollback_for_all_its_steps(tmp_path: Path) -> None:
    here, waits = world(tmp_path, sated(), hungry())
    until(here, lambda: waits.waiting, 150)
    names = {cgroup: one.change_epoch for cgroup, one in waits.waiting.items()}
    until(here, lambda: here.loop._decider.state.memory.change is None, 150)
    steps = [one for one in waits.actions() if one.HasField("limit_bytes")]
    assert len(steps) > 4
    for one in steps:
        assert one.revert_to.limit_bytes == 128 * MIB and not one.revert_to.HasField("policy")
        assert one.change_epoch == names.setdefault(one.cgroup, one.change_epoch)
    assert here.events("/hungry") == ["trial", "kept"]
    here.run(1)
    assert not waits.waiting


def test_memory_that_goes_back_is_given_back_by_the_node_if_the_controller_dies(
    tmp_path: Path,
) -> None:
    donor, taker = liar(), hungry()
    here, waits = world(tmp_path, taker, donor, keep=0.0)
    until(here, lambda: here.loop._decider.state.memory.restore, 150)
    here.run(1)
    assert donor.limit_bytes < 128 * MIB and waits.waiting.keys() == {"/liar", "/hungry"}
    silence(here, TTL_MS / 1000)
    here.plant.snapshot()
    assert donor.limit_bytes == taker.limit_bytes == 128 * MIB


def test_a_controller_that_is_restarted_goes_on_renewing(tmp_path: Path) -> None:
    tenant = looping()
    here, waits = world(tmp_path, tenant)
    until(here, lambda: waits.waiting, 150)
    here.restart()
    here.run(1)
    (renewed,) = waits.plans[-1].actions
    assert (renewed.change_epoch, renewed.ttl_ms) == (waits.waiting["/scan"].change_epoch, TTL_MS)
    until(here, lambda: not waits.waiting, 150)
    assert tenant.policy == "mru" and not waits.undone


def test_a_controller_without_its_store_prolongs_nothing(tmp_path: Path) -> None:
    donor, taker = sated(), hungry()
    one = PlantTenant("/scan", {"default": scan(200 * MIB), "mru": flat(0.9)}, 128 * MIB)
    here, waits = world(tmp_path, one, donor, taker)
    until(here, lambda: donor.limit_bytes < 128 * MIB, 150)
    limits = {tenant.cgroup: tenant.target_bytes for tenant in here.plant.tenants}
    (tmp_path / "new").mkdir()
    after = World(tmp_path / "new", here.plant)
    since, named = len(waits.plans), {one.change_epoch for one in waits.waiting.values()}
    after.run(TTL_MS // 1000 - 2)
    about = [one for one in waits.actions(since) if one.cgroup in waits.waiting]
    assert not about, "nothing is said of what is not known"
    assert limits == {tenant.cgroup: tenant.target_bytes for tenant in here.plant.tenants}
    after.run(3)
    assert donor.limit_bytes == 128 * MIB
    assert not named & {one.change_epoch for one in waits.waiting.values()}


def test_a_change_that_the_node_undid_ends_its_trial(tmp_path: Path) -> None:
    here, waits = world(tmp_path, sated(), hungry())
    until(here, lambda: settles(here), 150)
    silence(here, TTL_MS / 1000)
    here.run(3)
    assert here.events("/hungry") == ["trial", "abandoned"]
    assert "for want of plans" in here.service.history("/hungry")[0].why
    assert not waits.waiting


MOVES = wire.Action(cgroup="/scan", limit_bytes=96 * MIB)
POLICY = wire.Setting(policy="default", limit_bytes=128 * MIB)
LIMIT = wire.Setting(policy="mru", limit_bytes=160 * MIB)


@pytest.mark.parametrize(
    ("told", "is_judged", "moves", "expected"),
    [
        (POLICY, True, False, [TTL_MS]),
        (POLICY, True, True, [TTL_MS]),
        (POLICY, False, True, [0]),
        (LIMIT, True, False, [0]),
        (LIMIT, True, True, []),
    ],
)
def test_a_policy_and_a_limit_on_trial_wait_each_for_itself(
    tmp_path: Path, told: wire.Setting, is_judged: bool, moves: bool, expected: list[int]
) -> None:
    """Each may move, be judged and be confirmed while the other is on trial."""
    here, waits = world(tmp_path, looping())
    until(here, lambda: waits.waiting, 150)
    here.run(1)
    report, state = here.loop.report, here.loop._decider.state
    assert report is not None and state.memory.change is None
    seen, known = report.collected.seen["/scan"], state.tenants["/scan"]
    assert seen.tenant.policy == "mru" and known.policy.trial is not None
    if not is_judged:
        known.policy.trial = None
    seen.wire.unconfirmed.CopyFrom(wire.Unconfirmed(epoch=known.changes[-1], revert_to=told))
    wish = Wish(limit_bytes=96 * MIB) if moves else Wish()
    found = OnTrial(state, {}, TTL_MS).about(
        report.collected, {"/scan": wish}, {"/scan": MOVES} if moves else {}
    )
    assert [one.ttl_ms for one in found] == expected
