# SPDX-License-Identifier: Apache-2.0
"""Policies are compared at one size, never over an interval in which the limit moved."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat, linear, scan
from experiments.control_loop.world import World

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.state import Interval, PolicyState
from cachepilot.decide.step import step_all
from cachepilot.domain.decisions import Decision
from cachepilot.domain.objectives.objective import Objective
from cachepilot.node.deciding import policies
from cachepilot.sizes import PAGE_BYTES
from cachepilot.v1 import session_pb2 as wire

SIZES = tuple(MIB * size for size in (8, 16, 32, 64, 128))
ANYBODY = (Objective("*"),)


class Unlimited(Plant):
    """A plant without limits, whose page caches scatter by so many pages."""

    scatter_pages = 0

    def snapshot(self) -> wire.Snapshot:
        """Return a snapshot without limits."""
        found = super().snapshot()
        for one in found.tenants:
            one.limit_bytes = one.target_limit_bytes = 0
            one.current_bytes -= self.sequence % 7 * self.scatter_pages // 6 * PAGE_BYTES
            one.file_bytes = one.current_bytes
        return found

    def apply(self, plan: wire.Plan) -> wire.Ack:
        """Apply a plan without its limits."""
        before = [(one, one.limit_bytes, one.target_bytes) for one in self.tenants]
        ack = super().apply(plan)
        for one, limit_bytes, target_bytes in before:
            one.limit_bytes, one.target_bytes = limit_bytes, target_bytes
        for result in ack.results:
            result.limit_bytes = 0
        return ack


def test_an_interval_in_which_the_limit_moved_is_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page cache shrinks when the interval begins; the agent's simulations when it ends."""
    shown: list[Interval] = []

    def stepped(
        states: Sequence[PolicyState], intervals: Sequence[Interval], config: DecideConfig
    ) -> list[list[Decision]]:
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


@pytest.mark.parametrize("scatter_pages", [0, 8, 2000])
def test_policies_of_a_tenant_without_a_limit_are_compared(
    tmp_path: Path, scatter_pages: int
) -> None:
    """The page cache scatters. The simulations are as large as the node's memory."""
    web = PlantTenant("/web", {"default": flat(0.6), "lirs": flat(0.2)}, 64 * MIB)
    plant = Unlimited([web], 64 * MIB, SIZES)
    plant.scatter_pages = scatter_pages
    here = World(tmp_path, plant, ANYBODY)
    here.run(60)
    assert web.policy == "lirs"
    web.change({"default": flat(0.2), "lirs": flat(0.9)})
    here.run(600)
    assert web.policy == "default"
