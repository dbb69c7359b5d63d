# SPDX-License-Identifier: Apache-2.0
"""The next limits of a change that is under way: who gives first, and how fast."""

from random import Random

import pytest
from memory_node import Node, Tenant

STEP_MIB = 16.0


def node() -> Node:
    """A tenant grows by 64 MiB: half comes from one that needs 8 MiB, half from one that hits."""
    taker = Tenant(400.0, 400.0, planned_mib=192.0)
    idle, busy = Tenant(8.0, 8.0, planned_mib=96.0), Tenant(500.0, 500.0, planned_mib=96.0)
    return Node(taker, busy, idle)


def test_who_loses_least_gives_first_and_no_faster_than_others_grow() -> None:
    world = node()
    world.begin()
    taker, busy, idle = world.tenants.values()
    for done in (1, 2):
        assert idle.limit_mib == 128 - done * STEP_MIB and busy.limit_mib == 128
        assert taker.limit_mib == 128 + done * STEP_MIB
        world.run(1)
    world.run(1)
    assert (taker.limit_mib, busy.limit_mib, idle.limit_mib) == (192, 96, 96)


def test_what_an_operator_asks_for_is_given_at_once() -> None:
    world = node()
    world.run(1, is_forced=True)
    _, busy, idle = world.tenants.values()
    assert busy.limit_mib == idle.limit_mib == 128 - STEP_MIB


def test_if_the_tenant_that_is_to_give_first_is_stuck_another_is_asked() -> None:
    world = node()
    world.begin()
    taker, busy, idle = world.tenants.values()
    for _ in range(4):
        taker.limit_mib = idle.limit_mib = 128.0
        world.run(1)
    assert busy.limit_mib < 128.0


@pytest.mark.parametrize("is_slow", [False, True])
def test_nothing_is_taken_for_a_page_cache_that_has_not_filled(is_slow: bool) -> None:
    world = node()
    world.begin()
    taker, busy, idle = world.tenants.values()
    taker.changes = {"is_filling": is_slow}
    before = idle.limit_mib
    world.run(1)
    assert (idle.limit_mib == before) == is_slow and busy.limit_mib == 128


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("changes", [{}, {"is_forced": True}])
def test_a_stuck_tenant_keeps_nobody_else_from_giving(
    seed: int, changes: dict[str, object]
) -> None:
    """Growth is granted an interval later, and intervals are not exactly of one length."""
    world, random = node(), Random(seed)
    taker, busy, idle = world.tenants.values()
    granted = taker.limit_mib
    if changes:
        world.run(1, **changes)
    else:
        world.begin()
    for _ in range(12):
        idle.limit_mib, granted, taker.limit_mib = 128.0, taker.limit_mib, granted
        world.time_s += random.gauss(0, 1e-3)
        world.run(1, elapsed_s=1.0 + random.gauss(0, 1e-3), **changes)
    assert busy.limit_mib == 96 and world.state.stuck.keys() <= {"/2"}


def test_a_tenant_that_gives_slowly_does_not_slow_down_the_receiver() -> None:
    world = node()
    world.begin()
    taker, busy, idle = world.tenants.values()
    for _ in range(4):
        idle.limit_mib = max(idle.limit_mib, 127.0)
        world.run(1)
    assert taker.limit_mib == 192 and busy.limit_mib == 96
