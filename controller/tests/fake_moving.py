# SPDX-License-Identifier: Apache-2.0
"""Rollouts of the fake controller, in memory. Nothing in it is measured."""

from dataclasses import replace

from cachepilot.api.moving.rehearsals import rollout_view
from cachepilot.api.shapes.rollout import Consolidate, RolloutView
from cachepilot.domain.consolidation import Move
from cachepilot.domain.moving import (
    Check,
    Moved,
    MoveState,
    Rehearsal,
    Rehearsed,
    Rollout,
    RolloutState,
    Verdict,
)
from cachepilot.errors import ConflictError, InputError

BEGUN_S = 1_790_000_000.0


class FakeMoving:
    """Implements `cachepilot.api.moving.moving.Moving`. A rollout advances whenever it is read."""

    def __init__(self) -> None:
        self.asked: list[Consolidate] = []
        self.last: Rollout | None = None

    def begin(self, asked: Consolidate) -> RolloutView:
        if self.last is not None and not self.last.is_over:
            raise ConflictError("consolidation: rollout 1 runs (allowed: stop it first)")
        if not asked.drains:
            raise InputError("consolidation: no node can be drained (allowed: none)")
        self.asked.append(asked)
        moves = tuple(
            Moved(Move(**move.model_dump()), one.node) for one in asked.drains for move in one.moves
        )
        self.last = Rollout(1, BEGUN_S, "alice", moves, spreads=asked.spreads)
        return rollout_view(self.last, BEGUN_S, 1.0)

    def rollout(self) -> RolloutView | None:
        if self.last is None:
            return None
        shown = rollout_view(self.last, BEGUN_S, 1.0)
        checks = (
            Check("/db", "throughput_ops", 5000.0, 5200.0, 5150.0, 15, 15, 0.0, Verdict.MET),
            Check("/web", "keep", 900.0, 1000.0, 980.0, 15, 15, 0.0, Verdict.MET),
        )
        kept = replace(
            self.last.moves[0],
            state=MoveState.KEPT,
            checks=checks,
            begun_s=BEGUN_S + 10,
            arrived_s=BEGUN_S + 12,
            warm_s=BEGUN_S + 14,
            ended_s=BEGUN_S + 29.5,
            rehearsal=Rehearsal(
                (Rehearsed("beta", checks=checks[:1]),), BEGUN_S, BEGUN_S + 3, BEGUN_S + 18
            ),
        )
        moves = (kept, *self.last.moves[1:])
        self.last = replace(
            self.last,
            moves=moves,
            at=1,
            state=RolloutState.DONE,
            ended_s=BEGUN_S + 29.5,
            why="all moves were confirmed",
            changes=("/web goes to alpha, not to gamma",),
            rehearses=not self.last.spreads,
        )
        return shown

    def stop(self) -> RolloutView:
        if self.last is None or self.last.is_over:
            raise ConflictError("consolidation: no rollout runs")
        self.last = replace(self.last, is_stopping=True)
        return rollout_view(self.last, BEGUN_S, 1.0)
