# SPDX-License-Identifier: Apache-2.0
"""Whatever is planned between moves, a rollout ends, and no tenant moves back."""

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from moved_fleet import MovedFleet, as_ordered, tenant

from cachepilot.domain.consolidation import Drain, Move, Plans, Rest
from cachepilot.domain.json_values import decode, encode
from cachepilot.domain.moving import Moved, MoveState, Rollout, RolloutState

NODES = ("a", "b", "c", "d")
TENANTS = ("/1", "/2", "/3", "/4", "/5")


def _move(cgroup: str, from_node: str, to_node: str, limit_bytes: int = 4096) -> Move:
    return Move(cgroup, from_node, to_node, limit_bytes, "default", 100.0, 10, 1.0)


def _fleet(homes: list[str], targets: dict[str, str]) -> MovedFleet:
    """Return a fleet in which all tenants of a node go to its target, node by node."""
    where: dict[str, str | None] = dict(zip(TENANTS, homes, strict=True))
    moves = tuple(
        Moved(_move(cgroup, node, target), node)
        for node, target in targets.items()
        for cgroup, home in where.items()
        if home == node
    )
    there = {name: {one: tenant() for one in TENANTS} for name in NODES}
    return MovedFleet(Rollout(1, 0.0, "alice", moves, rehearses=True), where, there)


@st.composite
def _ordered(draw: st.DrawFn) -> MovedFleet:
    homes = draw(st.lists(st.sampled_from("abc"), min_size=5, max_size=5))
    drained = draw(st.sets(st.sampled_from(sorted(set(homes))), min_size=1, max_size=2))
    rest = sorted(set(NODES) - drained)
    targets = {one: draw(st.sampled_from(rest)) for one in sorted(drained)}
    return _fleet(homes, targets)


def _any_drains(data: st.DataObject, here: MovedFleet) -> list[Drain]:
    """Draw drains of any nodes to anywhere, which no planner would make."""
    found = []
    for node in data.draw(st.permutations(NODES)):
        own = [cgroup for cgroup, at in here.where.items() if at == node]
        moves = tuple(
            _move(
                cgroup,
                node,
                data.draw(st.sampled_from(NODES)),
                data.draw(st.sampled_from((4096, 8192))),
            )
            for cgroup in own
        )
        is_planned: bool = data.draw(st.booleans())
        if moves and is_planned:
            found.append(Drain(node, moves, 0))
    return found


@given(
    here=_ordered(),
    data=st.data(),
    missed=st.sets(st.sampled_from(TENANTS), max_size=1),
    restarts=st.sets(st.integers(1, 300), max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_no_tenant_moves_back_whatever_is_planned(
    here: MovedFleet, data: st.DataObject, missed: set[str], restarts: set[int]
) -> None:
    def plan(rest: Rest) -> Plans:
        if data.draw(st.booleans()):
            return as_ordered(rest)
        return Plans(_any_drains(data, here), _any_drains(data, here))

    here.plan, here.crashes = plan, restarts
    for one in missed:
        here.squeezed[one] = replace(tenant(met=False), limit_bytes=1 << 20)
    while not here.rollout.is_over:
        assert here.ticks < 2000
        here.tick()
        if here.ticks in restarts:
            # After a restart, the controller has only what was stored.
            here.rollout = decode(Rollout, json.loads(encode(here.rollout)))
    _require_one_way(here)
    _require_empty(here)


def _require_one_way(here: MovedFleet) -> None:
    """Check that no tenant moves twice, and that no node both gives tenants and takes them in."""
    moved, was_left, took_in = set[str](), set[str](), set[str]()
    for order in here.orders:
        assert order.cgroup not in moved
        assert order.to_node not in was_left and order.from_node not in took_in
        moved.add(order.cgroup)
        was_left.add(order.from_node)
        took_in.add(order.to_node)


def _require_empty(here: MovedFleet) -> None:
    """Check that kept moves are where they were ordered to be, and drained nodes are empty."""
    over = here.rollout
    assert over.state in (RolloutState.DONE, RolloutState.STOPPED) and over.why
    for one in over.moves:
        assert one.state in (MoveState.KEPT, MoveState.SKIPPED)
        if one.state is MoveState.KEPT:
            assert here.where[one.move.cgroup] == one.move.to_node
    assert set(over.emptied).isdisjoint({at for at in here.where.values() if at})
