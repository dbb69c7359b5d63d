# SPDX-License-Identifier: Apache-2.0
"""The rest of a rollout, planned by what is measured now."""

from dataclasses import replace

from drained_fleets import EVERYBODY, busy, fleet_of, present_ops

from cachepilot.domain.consolidation import Drain, Plans, Rest
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.objectives.pins import Pin
from cachepilot.domain.snapshot import Snapshot
from cachepilot.plan.consolidation.again import plan_again
from cachepilot.plan.consolidation.consolidate import consolidate
from cachepilot.plan.consolidation.packing.options import Options
from cachepilot.plan.problem.config import Config

FLEET = fleet_of(160, 4, 1e12)


def _ordered(fleet: list[Snapshot] = FLEET, asked: Objectives = EVERYBODY) -> list[Drain]:
    found = consolidate(fleet, asked, Config()).drains
    assert found
    return found


def _rest(drains: list[Drain]) -> Rest:
    return Rest(tuple(drains), frozenset(one.node for one in drains), frozenset(), {})


def _again(
    rest: Rest,
    fleet: list[Snapshot] = FLEET,
    asked: Objectives = EVERYBODY,
    pins: tuple[Pin, ...] = (),
) -> Plans:
    return plan_again(rest, fleet, asked, Config(), pins, Options(), {})


def _targets(drain: Drain) -> dict[str, str]:
    return {one.cgroup: one.to_node for one in drain.moves}


def test_an_unchanged_fleet_keeps_the_order() -> None:
    ordered = _ordered()
    plans = _again(_rest(ordered))
    told = {one.node: _targets(one) for one in ordered}
    assert {one.node: _targets(one) for one in plans.as_ordered} == told
    assert {one.node: _targets(one) for one in plans.anew} == told


def test_only_the_rest_is_drained_and_closed_nodes_receive_no_tenants() -> None:
    ordered = _ordered()
    rest = _rest(ordered[:1])
    closed = frozenset(move.to_node for move in ordered[0].moves)
    plans = _again(replace(rest, closed=closed))
    assert not plans.as_ordered
    for one in plans.anew:
        assert one.node == ordered[0].node
        assert closed.isdisjoint(move.to_node for move in one.moves)
    assert not _again(replace(rest, drainable=frozenset())).as_ordered


def test_a_node_to_which_a_tenant_came_is_not_drained_as_it_was_ordered() -> None:
    first = _ordered()[0]
    fewer = replace(first, moves=first.moves[1:])
    plans = _again(_rest([fewer]))
    assert not plans.as_ordered and [one.node for one in plans.anew] == [first.node]


def test_a_target_that_lost_its_room_changes_the_plan() -> None:
    first = _ordered()[0]
    targets = {move.to_node for move in first.moves}
    short = [
        replace(one, node=replace(one.node, budget_bytes=4096)) if one.node.name in targets else one
        for one in FLEET
    ]
    assert not _again(_rest([first]), short).as_ordered
    slow = [busy(one, 0.5) if one.node.name in targets else one for one in FLEET]
    assert not _again(_rest([first]), slow).as_ordered


def test_pins_of_the_rollout_alone_do_not_count() -> None:
    first = _ordered()[0]
    move = first.moves[0]
    pin = Pin(move.cgroup, first.node, None, 1 << 40, 9e9)
    rest = _rest([first])
    assert not _again(rest, pins=(pin,)).as_ordered
    assert _again(rest, pins=(replace(pin, rollout=3),)).as_ordered


def test_memory_proven_in_a_rehearsal_is_enough_while_the_curve_agrees() -> None:
    """By error bars and the model's error alone it would need more than it was given."""
    ops = {name: 0.9 * one for seen in FLEET for name, one in present_ops(seen).items()}
    asked = Objectives(tuple(Objective(name, throughput_ops=one) for name, one in ops.items()))
    first = _ordered(FLEET, asked)[0]
    move = first.moves[0]

    def world(error_pct: float) -> list[Snapshot]:
        return [
            replace(
                seen,
                tenants=tuple(
                    replace(
                        one,
                        limit_bytes=move.limit_bytes,
                        policy=move.policy,
                        demand=replace(one.demand, error_pct=error_pct),
                    )
                    if one.cgroup == move.cgroup
                    else one
                    for one in seen.tenants
                ),
            )
            for seen in FLEET
        ]

    rest = _rest([first])
    proven = replace(rest, proven={(move.from_node, move.cgroup): move.limit_bytes})
    assert not [one for one in _again(rest, world(40.0), asked).as_ordered if _same(one, first)]
    assert [one for one in _again(proven, world(40.0), asked).as_ordered if _same(one, first)]
    raised = Objectives(
        tuple(
            replace(one, throughput_ops=1.3 * ops[one.pattern])
            if one.pattern == move.cgroup
            else one
            for one in asked.tenants
        )
    )
    assert not [one for one in _again(proven, world(40.0), raised).as_ordered if _same(one, first)]


def _same(one: Drain, other: Drain) -> bool:
    """Whether no tenant of a drain needs more than the other drain gives."""
    limits = {move.cgroup: move.limit_bytes for move in other.moves}
    return one.node == other.node and all(
        (move.need_bytes or move.limit_bytes) <= limits[move.cgroup] for move in one.moves
    )
