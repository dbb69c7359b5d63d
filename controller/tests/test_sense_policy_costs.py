# SPDX-License-Identifier: Apache-2.0
"""The costs of policies on a node: how agents report them, their memory, and their effect."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, flat
from experiments.control_loop.world import World

from cachepilot.decide.config import DecideConfig
from cachepilot.node import node_state
from cachepilot.node.deciding.decider import NodeState
from cachepilot.sense.counters import Pages
from cachepilot.sense.policy_costs import HALF_LIFE_S, PolicyCosts
from cachepilot.sense.validate import POLICIES_MAX, ProtocolError, check_snapshot
from cachepilot.v1 import session_pb2 as wire

SIZES = tuple(MIB * size for size in (32, 64, 128))


def seen(policy: str, cpu_us: float | None, accesses: int = 100) -> Any:
    tenant = wire.Tenant(policy=policy)
    if cpu_us is not None:
        tenant.policy_cpu_us_per_access = cpu_us
    return SimpleNamespace(wire=tenant, pages=Pages(accesses, 0))


def known(**us_per_access: float) -> PolicyCosts:
    return PolicyCosts(us_per_access)


def test_tenants_count_by_their_accesses_and_intervals_by_their_age() -> None:
    costs = known()
    costs.take([seen("lru", 1.0, 300), seen("lru", 3.0, 100), seen("mru", 7.0)], 1.0)
    assert costs.us_per_access == {"lru": 1.5, "mru": 7.0}
    costs.take([seen("lru", 2.5)], HALF_LIFE_S)
    assert costs.us_per_access == {"lru": 2.0, "mru": 7.0}


def test_missing_costs_and_intervals_without_accesses_are_ignored() -> None:
    costs = known(lru=1.0)
    nothing = SimpleNamespace(wire=seen("lru", 9.0).wire, pages=None)
    costs.take([seen("lru", None), seen("lru", 9.0, 0), nothing, seen("default", 9.0)], 1.0)  # type: ignore[list-item]
    assert costs.us_per_access == {"lru": 1.0}


def test_the_default_costs_nothing_and_what_was_never_in_force_what_others_do() -> None:
    costs = known(lru=1.0, mru=4.0)
    found = costs.of(("default", "lru", "sieve", "mru"))
    assert found is not None and np.array_equal(found, [0.0, 1.0, 2.5, 4.0])
    assert known().of(("default", "lru")) is None
    assert known(lru=0.0).of(("default", "lru", "mru")) is None


def test_no_more_policies_are_remembered_than_a_node_may_have() -> None:
    costs = known()
    for at in range(POLICIES_MAX + 5):
        costs.take([seen(f"p{at}", 1.0), seen("p0", 1.0)], 1.0)
    assert len(costs.us_per_access) == POLICIES_MAX
    assert "p0" in costs.us_per_access and "p1" not in costs.us_per_access


def test_costs_survive_a_restart() -> None:
    text = node_state.to_json(NodeState(costs=known(lru=0.25)))
    assert node_state.from_json(text, "node").costs.of(("default", "lru")) is not None
    # A store of a version without costs.
    assert node_state.from_json('{"tenants": {}}', "node").costs == known()


@pytest.mark.parametrize("cpu_us", [-0.1, math.nan, math.inf, 1.1e6])
def test_a_cost_that_cannot_be_is_refused(cpu_us: float) -> None:
    def snapshot(cpu_us: float) -> wire.Snapshot:
        tenant = wire.Tenant(cgroup="/a", policy="lru", policy_cpu_us_per_access=cpu_us)
        return wire.Snapshot(sequence=1, budget_bytes=1 << 30, tenants=[tenant])

    for fine in (0.0, 0.3, 1e6):
        check_snapshot(snapshot(fine), 0)
    with pytest.raises(
        ProtocolError, match=r"policy_cpu_us_per_access: .* \(allowed: 0 to 1000000"
    ):
        check_snapshot(snapshot(cpu_us), 0)


class CostlyPlant(Plant):
    """A plant whose policies take CPU time, which it reports like an agent."""

    cpu_us: dict[str, float]

    def ops(self, tenant: PlantTenant, wait_us: float = 0.0) -> float:
        found = super().ops(tenant, wait_us)
        more_us = tenant.accesses_per_op * self.cpu_us.get(tenant.policy, 0.0)
        return 1e6 * tenant.threads / (1e6 * tenant.threads / found + more_us)

    def snapshot(self) -> wire.Snapshot:
        found = super().snapshot()
        for one in found.tenants:
            if one.policy != "default":
                one.policy_cpu_us_per_access = self.cpu_us.get(one.policy, 0.0)
        return found


def world(path: Path, cpu_us: float, reads: float = 1.0) -> World:
    """Return a world in which `lru` saves a fiftieth of the misses.

    That is 5 microseconds per access, if each miss is a read.
    """
    curves = {"default": flat(0.5), "lru": flat(0.49)}
    tenant = PlantTenant("/a", curves, 64 * MIB, reads_per_miss=dict.fromkeys(curves, reads))
    plant = CostlyPlant([tenant], 64 * MIB, SIZES, noise=0.001)
    plant.cpu_us = {"lru": cpu_us}
    return World(path, plant, decide=DecideConfig(least_gain=0.0))


@pytest.mark.parametrize(
    ("cpu_us", "reads", "events"),
    [
        (0.0, 1.0, ["trial", "kept"]), (2.0, 1.0, ["trial", "kept"]),
        (15.0, 1.0, ["trial", "reverted"]), (2.0, 0.125, ["trial", "reverted"]),
    ],
)  # fmt: skip
def test_a_policy_is_kept_or_undone_by_misses_and_cpu_time_together(
    tmp_path: Path, cpu_us: float, reads: float, events: list[str]
) -> None:
    """If a read brings eight pages, as many missed pages take an eighth of the time."""
    here = world(tmp_path, cpu_us, reads)
    here.run(900)
    assert here.events() == events
    assert here.plant.of("/a").policy == ("lru" if events[-1] == "kept" else "default")


def test_the_cost_learnt_from_one_tenant_applies_to_the_node(tmp_path: Path) -> None:
    here = world(tmp_path, 15.0)
    here.loop._decider.state.costs = known(lru=15.0)
    here.run(900)
    assert here.events() == []
