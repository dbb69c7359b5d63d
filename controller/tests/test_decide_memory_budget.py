# SPDX-License-Identifier: Apache-2.0
"""A donor whose budget is too small for the whole plan gives a part, and delays nobody."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from experiments.control_loop.plant import Curve, Plant, PlantTenant, flat, linear, scan
from experiments.control_loop.world import World
from memory_node import MIB, Node, Tenant, pair

from cachepilot.domain.decisions import Event
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.snapshot import Demand, Device
from cachepilot.model.throughput import ModelKind, tenant_throughput
from cachepilot.node.deciding.worth import Worth
from cachepilot.sense.counters import Pages
from cachepilot.sense.turnover import Turnover
from cachepilot.sizes import PAGE_BYTES

GIB = 1 << 30


def test_who_cannot_afford_all_of_a_plan_gives_a_part_of_it_and_later_more() -> None:
    taker, donor = pair()
    donor.changes = {"spare_bytes": 24 * MIB}
    node = Node(taker, donor)
    change = node.begin()
    assert change.cost == pytest.approx(24 * 256 * 500e-6)
    while node.run(1) != [Event.KEPT]:
        pass
    assert (taker.limit_mib, donor.limit_mib) == (152, 104)
    node.run(200)
    assert (taker.limit_mib, donor.limit_mib) == (192, 64)


def test_who_cannot_afford_anything_keeps_nobody_else_from_giving() -> None:
    taker, donor = pair()
    donor.planned_mib, donor.changes = 96.0, {"spare_bytes": 0}
    other = Tenant(40.0, 40.0, planned_mib=96.0)
    node = Node(taker, donor, other)
    assert Event.KEPT in node.run(200)
    assert [one.limit_mib for one in (taker, donor, other)] == [160, 128, 96]
    assert not [one for one in node.told if one.cgroup == "/1"]


@pytest.mark.parametrize(
    ("most_s", "kept_ops", "pages"),
    [
        # Without any hit it does 6,667 operations per second, which is enough.
        (0.0, 6_000.0, 100_000),
        (-1.0, 6_000.0, 0),
        # A read takes 100 us. The loss between 20,000 op/s and what the tenant keeps does not
        # count.
        (1.0, 20_000.0, 10_000),
        (1.0, 18_000.0, 10_588),
        (10.0, 20_000.0, 100_000),
    ],
)
def test_a_budget_is_spent_by_what_takes_a_tenant_below_what_it_keeps(
    most_s: float, kept_ops: float, pages: int
) -> None:
    objectives, demand = Objectives(()), Demand(service_us=50.0, accesses_per_op=1.0)
    tenant, device = SimpleNamespace(demand=demand), Device(1e9, miss_cost_us=100.0)
    model = tenant_throughput(cast(Any, tenant), device, ModelKind.SERVICE)
    seen = SimpleNamespace(tenant=tenant, limit_bytes=100_000 * PAGE_BYTES)
    cycle = SimpleNamespace(
        objectives=objectives,
        plan=SimpleNamespace(device_wait_us=0.0),
        read_us=device.miss_cost_us,
        throughput=lambda _: model,
    )
    worth = Worth(cast(Any, cycle), cast(Any, seen), 1.0)
    assert worth.spare_bytes(most_s, 20_000.0, kept_ops) == pages * PAGE_BYTES


def taken(known: Turnover, *pages: tuple[int, int]) -> int | None:
    for one in pages:
        known.take("lru", 1000 * PAGE_BYTES, Pages(*one), True)
    return known.hits


def test_hits_are_those_of_a_page_cache_that_is_read_again_once() -> None:
    known = Turnover()
    assert taken(known, *[(500, 400)] * 3) is None
    assert taken(known, (500, 400)) == 300
    # If a tenant begins to hit, that is known before it has read its page cache again.
    assert taken(known, *[(500, 0)] * 2) == 1100


@pytest.mark.parametrize(
    ("curve", "given_bytes"), [(flat(1.0), 4 * GIB), (scan(2 * GIB, 0.3), 180 * MIB)]
)
def test_gigabytes_move_within_minutes(tmp_path: Path, curve: Curve, given_bytes: int) -> None:
    batch = PlantTenant("/batch", {"default": curve}, 8 * GIB, threads=1)
    needs = PlantTenant("/needs", {"default": linear(8 * GIB)}, 2 * GIB)
    sizes = tuple(GIB * size // 2 for size in (1, 2, 4, 8, 12, 16, 20, 24, 32))
    plant = Plant([batch, needs], 10 * GIB, sizes, miss_cost_us=100.0)
    World(tmp_path, plant, (Objective("*"),)).run(600)
    assert batch.limit_bytes <= 8 * GIB - given_bytes
    assert needs.limit_bytes >= 2 * GIB + given_bytes - PAGE_BYTES
