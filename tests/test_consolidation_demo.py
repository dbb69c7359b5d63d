# SPDX-License-Identifier: Apache-2.0
"""The table of `make run CONSOLIDATE=1`, from a literal rollout."""

import io
from dataclasses import replace

from experiments.consolidation.moving.demo import move_line
from experiments.consolidation.moving.measured import Windows, outcome, table
from rich.console import Console

from cachepilot.api.shapes.questions import Move
from cachepilot.api.shapes.rollout import MovedView, RolloutView
from cachepilot.api.shapes.views import NodeView
from cachepilot.domain.moving import MoveState, RolloutState


def _node(name: str, tenants: int) -> NodeView:
    return NodeView.model_construct(name=name, tenants=tenants)


def _rollout() -> RolloutView:
    move = Move(
        cgroup="/kv", from_node="a", to_node="b", limit_bytes=4096, policy="default",
        predicted_ops=95.0, cold_pages=1, cold_s=0.1,
    )  # fmt: skip
    moved = MovedView(
        move=move, drain="a", state=MoveState.KEPT, checks=[], begun_s=10.0, arrived_s=11.0,
        warm_s=12.0, ended_s=14.5, why="",
    )  # fmt: skip
    return RolloutView(
        id=1, spreads=False,
        state=RolloutState.DONE, by="alice", begun_s=5.0, ended_s=15.0, is_stopping=False,
        at=1, emptied=["a"], moves=[moved], why="all moves were confirmed",
        changes=[], rehearsals=[],
    )  # fmt: skip


BEFORE = {"/kv": Windows("a", [100.0, 110.0], 2, 2, 90.0), "/web": Windows("b", [50.0])}
AFTER = {"/kv": Windows("b", [96.0], 50, 50, 90.0), "/web": Windows("b", [46.0])}


def test_the_table_shows_the_measurements_before_and_after() -> None:
    found = outcome([_node("a", 0), _node("b", 2)], _rollout(), BEFORE, {}, AFTER)
    kv, web = found.tenants
    assert (kv.from_node, kv.to_node, kv.before_ops, kv.after_ops) == ("a", "b", 105.0, 96.0)
    assert (kv.move_s, kv.predicted_ops, kv.met_after, kv.is_kept) == (4.5, 95.0, 1.0, True)
    assert (web.move_s, web.slo_ops, web.is_kept) == (None, None, True)
    screen = Console(file=io.StringIO(), width=140)
    for part in table(found):
        screen.print(part)
    text = screen.file.getvalue()  # type: ignore[attr-defined]
    assert "a -> b" in text and "96 (95)" in text and "4.5" in text
    assert "1 of 2 nodes run all tenants; drained: a; 2 of 2 tenants keep" in text


def test_moves_are_told_in_the_words_of_the_commands() -> None:
    [move] = _rollout().moves
    undone = move.model_copy(update={"state": MoveState.RETURNED})
    assert [move_line(move), move_line(undone)] == ["/kv to b: confirmed", "/kv to b: undone"]


def test_an_slo_that_is_missed_and_a_throughput_that_falls_are_not_kept() -> None:
    after = {
        "/kv": replace(AFTER["/kv"], met=48),
        "/web": replace(AFTER["/web"], ops=[44.0]),
    }
    found = outcome([_node("a", 0), _node("b", 2)], _rollout(), BEFORE, {}, after)
    assert [one.is_kept for one in found.tenants] == [False, False]
