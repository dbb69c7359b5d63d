# SPDX-License-Identifier: Apache-2.0
"""A change of memory that gains less than intervals scatter does not keep a better plan waiting."""

from dataclasses import replace
from itertools import cycle
from math import inf

import pytest
from memory_node import CONFIG, MIB, Node, Tenant, pair

from cachepilot.decide.memory.interval import MemoryInterval
from cachepilot.decide.memory.judging import at_stake
from cachepilot.decide.memory.rollout import held
from cachepilot.decide.memory.state import MemoryChange
from cachepilot.domain.decisions import Event

SCATTER = 1.0
"""Standard deviation of the worth of an interval. The plan gains some 0.1 per interval."""


def idle_donor() -> Tenant:
    """Return a tenant that hits nothing, so that giving memory costs it nothing."""
    found = Tenant(1000.0, 1000.0)
    found.changes = {"worth_at": lambda _: 1.0, "worth_now": 1.0, "worth_planned": 1.0}
    found.changes |= {"worth_measured": 1.0, "reread_at": lambda _: 0.0}
    return found


def settled(node: Node) -> MemoryChange:
    """Run until the first change has moved its limits, and return it."""
    change = node.begin()
    while change.settled_s is None:
        node.run(1)
    return change


def scattered(taker: Tenant, *, gains: bool) -> Node:
    """Return a node whose first change has settled and gains nothing or what was predicted."""
    donor, idle = pair()[1], idle_donor()
    node = Node(taker, donor, idle)
    change = settled(node)
    limit_bytes = int(taker.limit_mib * MIB)
    before = change.members["/0"].from_bytes
    for side in cycle((-1.0, 1.0)):
        now = taker.seen(0.0)
        worth = now.worth_at(limit_bytes if gains else before) + side * SCATTER
        taker.changes["worth_measured"] = worth
        node.run(1)
        if change.since.intervals >= 40 or node.state.change is not change:
            break
    taker.planned_mib, idle.planned_mib = 224.0, 96.0
    return node


@pytest.mark.parametrize("gains", [True, False])
def test_a_change_is_accepted_for_a_better_plan_only_if_it_fits_its_prediction(gains: bool) -> None:
    taker = pair()[0]
    node = scattered(taker, gains=gains)
    change, sides = node.state.change, cycle((-1.0, 1.0))
    assert change is not None and change.since.total < change.since.sure_bound(0.01)
    told = len(node.told)
    for _ in range(400):
        limit = int((taker.limit_mib if gains else 128.0) * MIB)
        taker.changes["worth_measured"] = taker.seen(0.0).worth_at(limit) + next(sides) * SCATTER
        node.run(1)
    begun = [one for one in node.told[told:] if one.event is Event.TRIAL and one.cgroup == "/2"]
    assert bool(begun) is gains
    kept = [one for one in node.told[told:] if one.event is Event.KEPT and one.cgroup == "/0"]
    assert bool(kept) is gains
    why = "kept without confirmation: its gain so far fits the prediction"
    assert not kept or (kept[0].why.startswith(why) and "a better plan" in kept[0].why)


def test_the_cost_and_the_possible_loss_of_a_change_are_at_stake_when_it_is_accepted() -> None:
    node = Node(*pair(), seed=1, scatter=SCATTER)
    change = settled(node)
    tenants = {name: one.seen(0.0) for name, one in node.tenants.items()}
    seen = MemoryInterval(node.time_s, 1.0, tenants, MIB, "proportional_fairness")
    assert change.cost > 0 and at_stake(change, seen, CONFIG) == inf
    node.run(5)
    assert change.since.intervals >= 5 and change.expected is not None
    change.gained.total = -3.0
    change.since.total = change.expected * change.since.intervals
    loss = 3.0 + change.gained.standard_error()
    assert at_stake(change, seen, CONFIG) == pytest.approx(change.cost + loss)
    assert at_stake(change, replace(seen, tenants={}), CONFIG) == inf
    change.since.total *= 0.2
    assert at_stake(change, seen, CONFIG) == inf and at_stake(None, seen, CONFIG) == 0.0
    change.since.total *= 5
    change.idle_s = 1.0
    assert at_stake(change, seen, CONFIG) == inf


def test_a_limit_that_is_stuck_is_not_moved_by_the_plan_for_which_a_change_is_accepted() -> None:
    taker, donor = pair()
    node = Node(taker, donor, seed=1, scatter=SCATTER)
    change = node.begin()
    while node.state.change is change and node.time_s < 3000:
        node.run(1)
        donor.limit_mib, taker.limit_mib = max(120.0, donor.limit_mib), min(136.0, taker.limit_mib)
        if change.settled_s is not None and change.expected is not None:
            change.since.total = change.expected * change.since.intervals
    assert node.state.change is None and held(node.state, node.time_s) == {"/1"}
    assert [one.event for one in node.told if one.cgroup == "/1"] == [Event.TRIAL, Event.KEPT]
