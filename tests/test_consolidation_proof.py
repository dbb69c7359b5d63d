# SPDX-License-Identifier: Apache-2.0
"""What counts as a false prediction, including tenants that stop and moves that were undone."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from experiments.consolidation.moving import proof
from experiments.consolidation.moving.day import Scale, _Day
from experiments.consolidation.moving.virtual import Look, World

from cachepilot.domain.consolidation import Move
from cachepilot.domain.moving import Check, Moved, MoveState, Rollout
from cachepilot.domain.objectives.objective import Objective, Objectives

MOVE = Move("/kv", "a", "b", 4096, "default", 100.0, 1, 1.0)
STATED = Objectives((Objective("/kv", throughput_ops=60.0), Objective("*")))


def _world(*met: bool | None) -> World:
    """Return a world after the last second. `/kv` has an SLO, `/free` has none."""
    looks = [Look(float(at), "b", 100.0, one, 1) for at, one in enumerate(met, 1)]
    free = [replace(one, met=None) for one in looks]
    mover: Any = SimpleNamespace(rollout=None)
    service: Any = SimpleNamespace(objectives=lambda: STATED)
    controller: Any = None
    known = {"/kv": looks, "/free": free}
    return World(controller, mover, service, now_s=float(len(met)), looks=known)


@pytest.mark.parametrize(("met", "missed"), [(True, 0), (False, 1), (None, 1)])
def test_a_tenant_that_stands_still_misses_its_slo(
    monkeypatch: pytest.MonkeyPatch, met: bool | None, missed: int
) -> None:
    world = _world(*[met] * 40)
    monkeypatch.setattr(proof, "_needed", lambda *_: 1)
    found, tenants = proof.Found(2), {one: SimpleNamespace(limit_bytes=1) for one in world.looks}
    judged: Any = tenants
    proof._judge(found, world, dict.fromkeys(tenants, 100.0), judged, 10, 40)
    assert found.broken == missed
    assert _Day(Scale(), ["/free", "/kv"])._met(world, 0.0, 40.0)[1] == missed


@pytest.mark.parametrize(
    ("state", "errors", "moves"),
    [(MoveState.KEPT, [0.4], 1), (MoveState.RETURNED, [0.4], 0), (MoveState.FAILED, [], 0)],
)
def test_predictions_of_moves_that_were_undone_count(
    state: MoveState, errors: list[float], moves: int
) -> None:
    check = Check("/kv", "throughput_ops", 60.0, 100.0, after_ops=60.0)
    cold = replace(check, after_ops=None)
    ended = Moved(MOVE, "a", state, checks=(check,), begun_s=1.0, ended_s=9.0)
    found = proof.Found(2)
    proof._judge_moves(found, Rollout(1, 0.0, "", (ended, replace(ended, checks=(cold,)))))
    assert found.errors == pytest.approx(errors)
    assert len(found.move_s) == 2 * moves
