# SPDX-License-Identifier: Apache-2.0
"""Several nodes in virtual time: all are at the same second, and a tenant moves between them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from experiments.consolidation.moving.packed import hosts
from experiments.consolidation.moving.processes import Fleet, Node, Tenant
from experiments.consolidation.moving.virtual import World, play
from hypothesis import given, settings
from hypothesis import strategies as st

from cachepilot import agent
from cachepilot.errors import InputError

MIB = 1 << 20
FITS = {"kind": "loop", "pages": 200}


def test_nodes_share_their_seconds_and_a_tenant_moves(tmp_path: Path) -> None:
    try:
        agent.find({})
    except InputError as error:
        pytest.skip(f"there is no agent: {error}")
    nodes = [Node(name, [Tenant(f"/{name}", FITS, 2 * MIB)], 16 * MIB) for name in "abc"]
    fleet = Fleet(tmp_path, nodes, 1000, "virtual")

    def script(_: World) -> Iterator[None]:
        for _second in range(4):
            yield
        (fleet.workloads / "a" / "a.toml").rename(fleet.workloads / "b" / "a.toml")
        for _second in range(5):
            yield

    world = play(fleet, script)
    times = [[look.time_s for look in world.looks[name]] for name in ("/b", "/c")]
    assert times[0] == times[1] and len(times[0]) == 10
    assert [round(one - times[0][0]) for one in times[0]] == list(range(10))
    where = [look.node for look in world.looks["/a"]]
    assert where == sorted(where) and set(where) == {"a", "b"}
    ops = [look.ops for look in world.between("/c", times[0][2], times[0][-1])]
    assert all(one is not None and 900 < one <= 1010 for one in ops)


@given(st.lists(st.integers(1, 10), min_size=1, max_size=8))
@settings(max_examples=25, deadline=None)
def test_the_number_of_hosts_is_minimal(sizes: list[int]) -> None:
    found = hosts(sizes, 10, len(sizes))
    assert found >= -(-sum(sizes) // 10)
    first_fit: list[int] = []
    for size in sorted(sizes, reverse=True):
        room = next((i for i, held in enumerate(first_fit) if held + size <= 10), None)
        if room is None:
            first_fit.append(size)
        else:
            first_fit[room] += size
    assert found <= len(first_fit) and (found == len(first_fit) or len(first_fit) > 1)


def test_a_tenant_that_fits_on_no_host_takes_one_alone() -> None:
    assert hosts([30, 10, 10], 10, 3) == 3
