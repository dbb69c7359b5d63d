# SPDX-License-Identifier: Apache-2.0
"""Drains: packings are feasible and nearly optimal, and their moves are predicted well."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product

from drained_fleets import (
    CAPACITIES,
    EVERYBODY,
    after,
    busy,
    fits,
    fleet_of,
    moves_of,
    present_ops,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.snapshot import Snapshot
from cachepilot.plan.consolidation.consolidate import consolidate, places_of
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds
from cachepilot.plan.problem.config import Config
from cachepilot.sizes import PAGE_BYTES, pages_down


@settings(max_examples=8)
@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from(CAPACITIES))
@example(160, 4, 3000.0)
@example(831, 2, 3000.0)
def test_drained_tenants_fit_on_their_new_nodes(seed: int, nodes: int, capacity: float) -> None:
    fleet = fleet_of(seed, nodes, capacity)
    names = {name: 0.9 * ops for seen in fleet for name, ops in present_ops(seen).items()}
    asked = Objectives(tuple(Objective(name, throughput_ops=ops) for name, ops in names.items()))
    found = consolidate(fleet, asked, Config())
    drained = moves_of(found)
    assert len(drained) == len(found.drains) < nodes
    for seen in fleet:
        if seen.node.name in drained:
            moves = drained[seen.node.name]
            assert set(moves) == {one.cgroup for one in seen.tenants}
            assert set(moves.values()).isdisjoint(drained)
    for move in (move for one in found.drains for move in one.moves):
        assert 0 <= move.cold_pages * PAGE_BYTES <= move.limit_bytes
        assert 0 <= move.cold_s < float("inf")
    # On a device that is short already, SLOs may be out of reach where the tenants are, one by one
    # or, for want of memory, together. Then no tenant goes there.
    is_kept = {row.cgroup: row.kept for row in found.tenants}
    targets = {to for moves in drained.values() for to in moves.values()}
    for seen in after(fleet, drained):
        if seen.node.name not in targets:
            continue
        assert fits(seen, asked, [is_kept[one.cgroup] for one in seen.tenants])


def test_the_prediction_of_a_move_agrees_with_the_planner() -> None:
    fleet = fleet_of(160, 4, 3000.0)
    names = {name: 0.5 * ops for seen in fleet for name, ops in present_ops(seen).items()}
    asked = Objectives(tuple(Objective(name, throughput_ops=ops) for name, ops in names.items()))
    found = consolidate(fleet, asked, Config())
    moves = {move.cgroup: move for one in found.drains for move in one.moves}
    assert moves
    order = [one.cold_s / one.freed_bytes for one in found.drains]
    assert order == sorted(order)
    for one in found.drains:
        assert [move.cold_s for move in one.moves] == sorted(move.cold_s for move in one.moves)
    for move in moves.values():
        assert move.predicted_ops >= names[move.cgroup] * (1 - 1e-6)
    for seen in after(fleet, moves_of(found)):
        there = tuple(
            replace(one, policy=moves[one.cgroup].policy, limit_bytes=moves[one.cgroup].limit_bytes)
            if one.cgroup in moves
            else one
            for one in seen.tenants
        )
        ops = present_ops(replace(seen, tenants=there))
        for cgroup in set(ops) & set(moves):
            # The tenants that were there give up memory, so that all read somewhat more.
            assert moves[cgroup].predicted_ops <= ops[cgroup] * (1 + 1e-6)


def test_a_tenant_that_moves_with_its_floor_rereads_the_floor() -> None:
    fleet = [
        replace(
            seen,
            node=replace(seen.node, budget_bytes=8 * seen.node.budget_bytes),
            tenants=tuple(replace(one, floor_bytes=one.limit_bytes) for one in seen.tenants),
        )
        for seen in fleet_of(160, 4, 1e12)
    ]
    floors = {one.cgroup: one.floor_bytes for seen in fleet for one in seen.tenants}
    moves = [move for one in consolidate(fleet, EVERYBODY, Config()).drains for move in one.moves]
    assert [move for move in moves if move.limit_bytes == floors[move.cgroup]]
    assert all(move.cold_pages > 0 and move.cold_s > 0 for move in moves)


def test_unneeded_memory_is_shared_by_all_tenants_of_the_new_node() -> None:
    fleet = fleet_of(160, 4, 1e12)
    tight, roomy = (
        [replace(one, node=replace(one.node, budget_bytes=times * one.node.budget_bytes))
         for one in fleet]
        for times in (1, 64)
    )  # fmt: skip
    has = {one.cgroup: one.limit_bytes for seen in fleet for one in seen.tenants}
    found = FleetNeeds.of(places_of(tight, EVERYBODY, Config()))
    cgroups = [one.cgroup for place in found.places for one in place.targets.asked.tenants]
    needs = dict(zip(cgroups, found.size_bytes.min(axis=0).tolist(), strict=True))
    plan = consolidate(tight, EVERYBODY, Config())
    moves = [move for one in plan.drains for move in one.moves]
    shared = []
    for seen in after(tight, moves_of(plan)):
        come = [one for one in moves if one.to_node == seen.node.name]
        free = seen.node.budget_bytes - sum(needs[one.cgroup] for one in seen.tenants)
        share = pages_down(free // len(seen.tenants))
        for one in come:
            assert one.limit_bytes == max(
                needs[one.cgroup], min(has[one.cgroup], needs[one.cgroup] + share)
            )
            assert (one.need_bytes or one.limit_bytes) == needs[one.cgroup]
            shared.append(one.limit_bytes == needs[one.cgroup] + share)
    assert any(shared)
    plenty = consolidate(roomy, EVERYBODY, Config())
    for move in (move for one in plenty.drains for move in one.moves):
        assert move.limit_bytes >= has[move.cgroup]


def _most_drained(fleet: Sequence[Snapshot]) -> int:
    """Return the most nodes whose tenants fit on the others, by memory alone and enumeration."""
    needs = FleetNeeds.of(places_of(fleet, EVERYBODY, Config()))
    cgroups = [one.cgroup for place in needs.places for one in place.targets.asked.tenants]
    least = dict(zip(cgroups, needs.size_bytes.min(axis=0).tolist(), strict=True))
    homes = {seen.node.name: [one.cgroup for one in seen.tenants] for seen in fleet}
    free = {
        seen.node.name: seen.node.budget_bytes - sum(least[c] for c in homes[seen.node.name])
        for seen in fleet
    }
    for count in range(len(fleet) - 1, 0, -1):
        for drained in combinations(free, count):
            rest = [name for name in free if name not in drained]
            guests = [cgroup for name in drained for cgroup in homes[name]]
            for choice in product(rest, repeat=len(guests)):
                left = dict(free)
                for cgroup, name in zip(guests, choice, strict=True):
                    left[name] -= least[cgroup]
                if min(left[name] for name in rest) >= 0:
                    return count
    return 0


def test_nearly_as_many_nodes_are_drained_as_can_be() -> None:
    short, total, most = 0, 0, 0
    for seed in range(12):
        fleet = fleet_of(seed, 4, 1e12)
        found = consolidate(fleet, EVERYBODY, Config())
        best = _most_drained(fleet)
        assert len(found.drains) <= best
        short += len(found.drains) < best
        total, most = total + len(found.drains), most + best
    assert most > 0
    assert total >= 0.9 * most
    assert short <= 0.25 * 12


def test_the_device_keeps_a_node_from_being_drained_where_memory_would_not() -> None:
    fleet = fleet_of(7, 2, 1e12)
    free = consolidate(fleet, EVERYBODY, Config())
    loaded = consolidate([busy(seen, 1.05) for seen in fleet], EVERYBODY, Config())
    assert (len(free.drains), len(loaded.drains)) == (1, 0)
    for less, more in zip(loaded.tenants, free.tenants, strict=True):
        assert less.more_of_this_kind <= more.more_of_this_kind
    assert sum(row.more_of_this_kind for row in loaded.tenants) < sum(
        row.more_of_this_kind for row in free.tenants
    )
