# SPDX-License-Identifier: Apache-2.0
"""Policies are compared at one size: an interval in which the limit moved tells nothing of them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear, scan
from experiments.control_loop.world import World

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.outcome import Outcome
from cachepilot.decide.state import Interval, PolicyState
from cachepilot.decide.step import step_all
from cachepilot.domain.objectives.objective import Objective
from cachepilot.node.deciding import policies

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 128))


def test_of_an_interval_in_which_the_limit_moved_nothing_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page cache is cut when it begins; what the agent simulates is cut when it ends."""
    shown: list[Interval] = []

    def stepped(
        states: Sequence[PolicyState], intervals: Sequence[Interval], config: DecideConfig
    ) -> list[list[Outcome]]:
        shown.extend(intervals)
        return step_all(states, intervals, config)

    monkeypatch.setattr(policies, "step_all", stepped)
    curves = {"default": scan(100 * MIB), "lirs": linear(100 * MIB)}
    web = PlantTenant("/web", curves, 64 * MIB)
    here = World(tmp_path, Plant([web], 128 * MIB, SIZES), (Objective("*"),))
    here.run(3)
    web.limit_bytes = web.target_bytes = 32 * MIB
    here.run(2)
    assert [one.limit_bytes // MIB for one in shown[-3:]] == [64, 32, 32]
    assert [one.counterfactual is not None for one in shown[-3:]] == [True, False, True]
    assert all(one.accesses > 0 for one in shown[-3:])
