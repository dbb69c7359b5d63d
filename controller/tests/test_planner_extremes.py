# SPDX-License-Identifier: Apache-2.0
"""Amounts at the ends of their ranges and beyond: refused by name, or planned within bounds."""

from dataclasses import replace

from experiments.control_loop.instances import snapshot

from cachepilot.planner.config import Config
from cachepilot.planner.objectives import Mode, Objective, Objectives
from cachepilot.planner.plan import plan
from cachepilot.sizes import parse_size


def test_a_recommendation_that_does_not_fit_stops_nobody_elses_plan() -> None:
    seen = snapshot(8, tenants=3, policies=2)
    wish = Objective("/t00000", mode=Mode.RECOMMEND, memory_min=parse_size("100%"))
    found = plan(seen, Objectives((wish, Objective("*"))), Config())
    alone = plan(seen, Objectives((replace(wish, mode=Mode.OBSERVE), Objective("*"))), Config())
    limits = [action.limit_bytes for action in found.actions]
    assert limits == [action.limit_bytes for action in alone.actions]
    assert found.actions[0].recommended is None
    assert any("nothing to recommend: node node: " in note for note in found.notes)
