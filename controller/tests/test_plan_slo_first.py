# SPDX-License-Identifier: Apache-2.0
"""The order of memory: an SLO, what others keep, and the margin above the SLO."""

from dataclasses import replace

import numpy as np
import pytest
from experiments.control_loop.instances import MIB, snapshot

from cachepilot.domain.objectives.objective import Goal, Objective, Objectives
from cachepilot.domain.planned import Plan, SloState
from cachepilot.domain.snapshot import Curves, Snapshot
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.config import Config

CLIFF_MIB = 90
SLO, AIM = 0.5, 0.75


def a_node(budget_mib: int) -> Snapshot:
    """Return a node of two tenants: one hits in proportion up to 200 MiB, one has a cliff."""
    seen = snapshot(2, 2, 1)
    sizes = np.array([1, 200]) * MIB
    even = Curves(("lru",), sizes, np.array([[1.0 - 1 / 200, 0.0]]))
    at_cliff = np.array([CLIFF_MIB * MIB - 4096, CLIFF_MIB * MIB])
    cliff = Curves(("lru",), at_cliff, np.array([[1.0, 0.1]]))
    had = CLIFF_MIB * MIB
    tenants = tuple(
        replace(
            one,
            policy="lru",
            limit_bytes=had,
            first_bytes=had,
            floor_bytes=10 * MIB,
            curves=curves,
        )
        for one, curves in zip(seen.tenants, (even, cliff), strict=True)
    )
    return replace(seen, tenants=tenants, node=replace(seen.node, budget_bytes=budget_mib * MIB))


def planned(
    budget_mib: int,
    priority: int = 0,
    hit_ratio: float = SLO,
    goal: Goal = Goal.TOTAL_THROUGHPUT,
) -> Plan:
    promised = Objective("/t00000", hit_ratio=hit_ratio, slo_margin=0.5, priority=priority)
    asked = Objectives((promised, Objective("*")), goal)
    return plan(a_node(budget_mib), asked, Config(movement_share=1.0))


def sizes_mib(found: Plan) -> list[float]:
    return [one.limit_bytes / MIB for one in found.actions]


def test_with_enough_memory_an_slo_has_its_margin_and_others_keep_theirs() -> None:
    first, other = sizes_mib(planned(260))
    assert first >= 200 * AIM and other >= CLIFF_MIB


@pytest.mark.parametrize("goal", list(Goal))
def test_kept_memory_comes_before_the_margin_above_an_slo(
    goal: Goal,
) -> None:
    found = planned(200, goal=goal)
    first, other = sizes_mib(found)
    assert other >= CLIFF_MIB and first == pytest.approx(110, abs=1)
    assert found.slos[0].state is SloState.MET


def test_keep_is_a_share_of_the_throughput_under_the_default() -> None:
    node = a_node(200)
    first, cliff = node.tenants
    assert cliff.curves is not None
    sizes, ratios = cliff.curves.sizes_bytes, cliff.curves.miss_ratio
    found = {}
    for default in (0.99, 0.1):
        at_first = np.vstack((ratios, [[1.0, default]]))
        curves = Curves(("lru", "default"), sizes, at_first)
        changed = replace(node, tenants=(first, replace(cliff, curves=curves)))
        promised = Objective("/t00000", hit_ratio=SLO, slo_margin=0.5)
        asked = Objectives((promised, Objective("*", policies=("lru",))))
        found[default] = sizes_mib(plan(changed, asked, Config(movement_share=1.0)))
    assert found[0.99][0] >= 200 * AIM and found[0.99][1] < CLIFF_MIB
    assert found[0.1][1] >= CLIFF_MIB and found[0.1][0] < 200 * AIM


def test_an_slo_of_a_higher_priority_has_its_margin_before_others_keep() -> None:
    first, other = sizes_mib(planned(200, priority=1))
    assert first >= 200 * AIM - 1 and other < CLIFF_MIB


def test_an_slo_comes_before_what_others_keep() -> None:
    first, other = sizes_mib(planned(150))
    assert first >= 200 * SLO - 1 and other < CLIFF_MIB


@pytest.mark.parametrize(("priority", "is_kept"), [(0, True), (1, False)])
def test_an_slo_that_cannot_be_kept_takes_what_others_keep_by_its_priority_alone(
    priority: int, is_kept: bool
) -> None:
    found = planned(150, priority, hit_ratio=0.95)
    assert found.slos[0].state is SloState.UNATTAINABLE
    assert (sizes_mib(found)[1] >= CLIFF_MIB) == is_kept


def test_an_slo_that_can_be_kept_lets_nothing_else_overtake_one_that_cannot() -> None:
    seen = a_node(170)
    easy = replace(seen.tenants[0], cgroup="/easy")
    seen = replace(seen, tenants=(*seen.tenants, easy))
    lost = Objective("/t00000", hit_ratio=0.95, priority=10)
    asked = (lost, Objective("/easy", hit_ratio=0.1, slo_margin=0.9), Objective("*"))
    found = plan(seen, Objectives(asked, Goal.TOTAL_THROUGHPUT), Config(movement_share=1.0))
    sizes = {one.cgroup: one.limit_bytes / MIB for one in found.actions}
    assert sizes["/easy"] == pytest.approx(20, abs=1) and sizes["/t00000"] >= 138
