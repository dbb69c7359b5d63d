# SPDX-License-Identifier: Apache-2.0
"""Limits on their way to what tenants need: where they stop, and for what they wait."""

import pytest
from memory_node import Node, Tenant, pair

from cachepilot.domain.decisions import Event


def begun(lacks: dict[str, object]) -> tuple[Node, Tenant, Tenant]:
    """Return a node with a change for a need that has begun, who needs it, and who gives."""
    taker, donor = pair()
    node = Node(taker, donor)
    node.begin().forced = True
    taker.changes = dict(lacks)
    return node, taker, donor


def test_what_is_needed_stops_where_the_plan_gives_no_more() -> None:
    node, taker, donor = begun({"is_short": True})
    node.run(1)
    taker.planned_mib = donor.planned_mib = 128.0
    stopped = taker.limit_mib
    assert node.run(1) == [Event.KEPT] and 128 < stopped < 192
    assert (taker.limit_mib, donor.limit_mib) == (stopped, 256 - stopped)


@pytest.mark.parametrize(
    "lacks", [{"is_short": True}, {"aimed": 0.9}, {"below": 0.1}, {"needs": True}], ids=str
)
def test_what_is_needed_stops_where_nobody_lacks_anything_though_the_plan_gives_more(
    lacks: dict[str, object],
) -> None:
    """A first prediction asked for more than is needed, and the plan gives more for a gain."""
    node, taker, donor = begun(lacks)
    donor.changes = {"spare_bytes": 0}
    assert node.run(2) == []
    stopped = taker.limit_mib
    assert 128 < stopped < 192
    taker.changes = {}
    assert node.run(5) == [Event.KEPT]
    assert (taker.limit_mib, donor.limit_mib) == (stopped, 256 - stopped)


def test_a_bound_and_a_gain_that_a_need_joined_are_carried_out_as_planned() -> None:
    for forced in (True, False):
        taker, donor = pair()
        node = Node(taker, donor)
        change = node.begin()
        change.force()
        if forced:
            change.members["/0"].meant_bytes = change.members["/1"].meant_bytes = None
        node.run(12, is_forced=forced)
        assert (taker.limit_mib, donor.limit_mib) == (192, 64)


def test_what_is_ordered_waits_for_no_page_cache() -> None:
    taker, donor = pair()
    taker.changes = {"is_filling": True}
    node = Node(taker, donor)
    node.run(5, is_forced=True)
    assert (taker.limit_mib, donor.limit_mib) == (192, 64)


def test_nobody_gives_what_those_who_get_it_have_not_filled() -> None:
    node, taker, donor = begun({"is_short": True})
    node.run(1)
    given_mib = donor.limit_mib
    taker.changes = {"is_short": True, "is_filling": True}
    node.run(9)
    assert given_mib < 128 and donor.limit_mib == given_mib
    taker.changes = {"is_short": True}
    assert node.run(1) == [] and node.run(9) == [Event.KEPT]
    assert donor.limit_mib == 64 and not node.state.stuck
