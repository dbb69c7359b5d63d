# SPDX-License-Identifier: Apache-2.0
"""A drain of several tenants on simulated nodes in virtual time, planned again after each move."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from experiments.consolidation.moving.processes import Fleet, Node, Tenant
from experiments.consolidation.moving.virtual import World, play

from cachepilot import agent
from cachepilot.domain.consolidation import Drain, Move, Plans, Rest
from cachepilot.domain.moving import MoveState, Rollout, RolloutState
from cachepilot.errors import InputError
from cachepilot.fleet.moving.replan import NO_ROOM
from cachepilot.node.shown.report import Report

MIB = 1 << 20
LEARNT_S, MOST_S = 40, 400
ZIPF = {"kind": "zipf", "alpha": 0.9, "pages": 1200}
FITS = {"kind": "loop", "pages": 200}
SLO_OPS = 500.0


def _tenants(node: str) -> list[Tenant]:
    return [
        Tenant(f"/{node}/kv", ZIPF, 6 * MIB, throughput_ops=SLO_OPS),
        Tenant(f"/{node}/loop", FITS, 3 * MIB, throughput_ops=SLO_OPS),
        Tenant(f"/{node}/rest", ZIPF, 6 * MIB),
    ]


def _played(folder: Path, between: Callable[[World], None]) -> tuple[Rollout, list[Plans]]:
    """Play a drain. `between` runs after the first kept move.

    Returns the rollout and the plans that were made between its moves.
    """
    try:
        agent.find(os.environ)
    except InputError as error:
        pytest.skip(f"there is no agent: {error}")
    nodes = [Node(name, _tenants(name), 24 * MIB, seed=at) for at, name in enumerate("ab", 1)]
    plans: list[Plans] = []

    def script(world: World) -> Iterator[None]:
        plan = world.mover.plan
        assert plan is not None

        def noted(rest: Rest, reports: Sequence[Report]) -> Plans:
            plans.append(plan(rest, reports))
            return plans[-1]

        world.mover.plan = noted
        for _ in range(LEARNT_S):
            yield
        shown = world.service.consolidation().drains
        assert [len(one.moves) for one in shown] == [3]
        moves = tuple(Move(**vars(one)) for one in shown[0].moves)
        world.mover.begin([Drain(shown[0].node, moves, shown[0].freed_bytes)])
        was_kept = False
        for _ in range(MOST_S):
            running = world.mover.rollout
            assert running is not None
            if running.is_over:
                return
            if running.kept and not was_kept:
                was_kept = True
                between(world)
            yield

    world = play(Fleet(folder, nodes, 1000, "virtual"), script)
    assert world.mover.rollout is not None
    return world.mover.rollout, plans


def test_an_unchanged_fleet_keeps_the_order_with_one_rehearsal(
    tmp_path: Path,
) -> None:
    over, plans = _played(tmp_path, lambda _: None)
    assert (over.state, over.why) == (RolloutState.DONE, "all moves were confirmed")
    assert len(over.emptied) == 1 and len(plans) == 2
    assert [[len(one.moves) for one in found.as_ordered] for found in plans] == [[2], [1]]
    assert sum(one.rehearsal is not None for one in over.moves) == 1 and not over.changes


def test_a_changed_objective_that_leaves_no_room_ends_the_drain(tmp_path: Path) -> None:
    def raised(world: World) -> None:
        rollout = world.mover.rollout
        assert rollout is not None
        waits = {one.move.cgroup for one in rollout.going(rollout.left[0])}
        stated = world.service.objectives()
        tenants = tuple(
            replace(one, throughput_ops=100 * SLO_OPS) if one.pattern in waits else one
            for one in stated.tenants
        )
        world.service.set_objectives(replace(stated, tenants=tenants))

    over, plans = _played(tmp_path, raised)
    states = [one.state for one in over.moves]
    assert states == [MoveState.KEPT, MoveState.SKIPPED, MoveState.SKIPPED]
    assert over.state is RolloutState.STOPPED and NO_ROOM in over.why
    assert len(plans) == 1 and not plans[0].as_ordered and not plans[0].anew
