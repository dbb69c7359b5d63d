# SPDX-License-Identifier: Apache-2.0
"""Needed memory joins a change for gain: each part is decided by its own rule."""

import pytest
from memory_node import Node, Tenant, pair

from cachepilot.decide.memory import asked
from cachepilot.domain.decisions import Event

SHORT: dict[str, object] = {"is_short": True, "reached": 0.8, "reached_planned": 1.0, "priority": 1}


@pytest.mark.parametrize(("knee_mib", "event"), [(400.0, Event.KEPT), (110.0, Event.REVERTED)])
def test_what_is_needed_joins_a_change_for_gain_which_is_judged_all_the_same(
    knee_mib: float, event: Event
) -> None:
    taker, donor = pair(knee_mib=knee_mib)
    other = Tenant(400.0, 400.0, planned_mib=128.0)
    node = Node(taker, donor, other)
    node.begin()
    node.run(1)
    taker.planned_mib, other.planned_mib, other.changes = 176.0, 144.0, SHORT
    node.run(1)
    other.changes = {"reached": 1.0}
    assert node.run(3) == []
    told = [(one.event, one.why.partition("; this")[0]) for one in node.told if one.cgroup == "/2"]
    assert [event for event, _ in told] == [Event.TRIAL, Event.KEPT]
    assert told[1][1] == "the tenants that need memory have it"
    taker.planned_mib, donor.planned_mib = taker.limit_mib, donor.limit_mib
    found = node.run(1)
    while not found:
        found = node.run(1)
    assert found == [event]
    taker.planned_mib, donor.planned_mib = (176.0, 64.0) if event is Event.KEPT else (128.0, 112.0)
    node.run(12)
    # What was needed stays. It comes from what the change moved, or else from the donor.
    ends = (176.0, 64.0, 144.0) if event is Event.KEPT else (128.0, 112.0, 144.0)
    assert (taker.limit_mib, donor.limit_mib, other.limit_mib) == ends


def test_a_donor_that_needs_its_memory_gets_it_and_the_rest_of_the_change_is_judged() -> None:
    taker, donor = pair(knee_mib=110.0)
    node = Node(taker, donor)
    node.begin()
    node.run(2)
    taker.planned_mib, donor.planned_mib = 160.0, 96.0
    donor.changes, donor.needs_mib = SHORT, 90.0
    node.run(1)
    donor.changes = {"reached": 1.0}
    assert Event.KEPT not in node.run(2)
    found = node.run(1)
    while not found:
        found = node.run(1)
    assert found == [Event.REVERTED]
    taker.planned_mib = donor.planned_mib = 128.0
    node.run(12)
    assert (taker.limit_mib, donor.limit_mib) == (128.0, 128.0)


def test_what_a_change_gained_is_taken_back_with_its_goal_and_what_is_needed_stays() -> None:
    taker, donor = pair()
    other = Tenant(400.0, 400.0, planned_mib=128.0)
    node = Node(taker, donor, other)
    node.begin()
    taker.planned_mib, other.planned_mib, other.changes = 176.0, 144.0, SHORT
    node.run(1)
    other.changes = {"reached": 1.0}
    taker.planned_mib, donor.planned_mib = 128.0, 112.0
    node.run(30, goal="total_throughput")
    assert (taker.limit_mib, donor.limit_mib, other.limit_mib) == (128.0, 112.0, 144.0)


def test_what_is_needed_beyond_a_gain_stays_when_the_goal_changes() -> None:
    taker, donor = pair()
    node = Node(taker, donor)
    change = node.begin()
    taker.planned_mib, donor.planned_mib, taker.changes = 208.0, 48.0, SHORT
    node.run(1)
    taker.changes = {"reached": 1.0}
    taker.planned_mib, donor.planned_mib = 144.0, 112.0
    node.run(1, goal="total_throughput")
    assert not change.for_gain()
    node.run(30, goal="total_throughput")
    assert (taker.limit_mib, donor.limit_mib) == (144.0, 112.0)


def test_policies_stay_only_while_a_change_of_memory_is_judged() -> None:
    taker, donor = pair()
    node = Node(taker, donor)
    node.begin()
    node.run(1)
    members = {"/0", "/1"}
    assert asked.keeping_policy(node.state, node.time_s) == members
    taker.changes = {"is_doubted": True}
    node.run(4)
    assert asked.keeping_policy(node.state, node.time_s) == members
    node.run(3)
    assert not asked.keeping_policy(node.state, node.time_s)
    assert asked.under_way(node.state, node.time_s) == members
    taker.changes = {}
    node.run(1)
    assert asked.keeping_policy(node.state, node.time_s) == members
