# SPDX-License-Identifier: Apache-2.0
"""Fleets to be consolidated, and a check of whether tenants fit that does not use packings."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace

import numpy as np
from experiments.control_loop.instances import snapshot
from small_tenants import NOON

from cachepilot.domain.consolidation import Consolidation
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.past.need import PastNeeds
from cachepilot.domain.snapshot import Snapshot
from cachepilot.plan.consolidation.least.needs import Needs, Targets
from cachepilot.plan.consolidation.least.past import PastByTenant
from cachepilot.plan.consolidation.least.sharing_reads import SLACK
from cachepilot.plan.consolidation.least.wait_table import WaitTable
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.asked import Asked
from cachepilot.plan.problem.config import Config
from cachepilot.sizes import PAGE_BYTES

EVERYBODY = Objectives((Objective("*"),))
STATIC = Config(allocator="static")
CAPACITIES = (1e12, 20_000.0, 3_000.0)


def present_ops(seen: Snapshot) -> dict[str, float]:
    """Return the predicted throughput of the present settings, at the device's fixed point."""
    return {one.cgroup: one.present.throughput_ops for one in plan(seen, EVERYBODY, STATIC).actions}


def fits(
    seen: Snapshot, asked: Objectives, kept: Sequence[bool], more_us: Set[float] = frozenset()
) -> bool:
    """Whether all tenants of a node, computed again as one, keep what they must in its budget.

    Tries many close waits of the device. Reads do not fall steadily with the wait where a
    tenant stops being kept, so a table that begins at the least wait may begin beyond the room.
    """
    everybody = Asked.of(seen, asked)
    needs = Needs.of(Targets.of(seen, everybody, Config()), seen, Config())
    most_iops = seen.device.capacity_iops * (1 + SLACK)
    waits_us = {*np.geomspace(1.0, 2e4, 600).tolist(), *WaitTable.of(needs, seen).waits_us.tolist()}
    waits_us |= more_us
    for wait_us in (0.0, *sorted(waits_us)):
        point = needs.at(wait_us)
        is_kept = all(now or not before for now, before in zip(point.kept, kept, strict=False))
        has_memory = point.size_bytes.sum() <= seen.node.budget_bytes
        if is_kept and has_memory and point.device_iops.sum() <= most_iops:
            return True
    return False


def fleet_of(seed: int, nodes: int, capacity: float) -> list[Snapshot]:
    """Return nodes with similar devices and disjoint tenants; some nodes have room to spare."""
    random = np.random.default_rng(seed)
    found = []
    for i in range(nodes):
        seen = snapshot(seed * 100 + i, int(random.integers(1, 4)), 2, capacity_iops=capacity)
        budget = int(seen.node.budget_bytes * random.uniform(0.9, 1.6)) // PAGE_BYTES * PAGE_BYTES
        tenants = tuple(replace(one, cgroup=f"/n{i}{one.cgroup}") for one in seen.tenants)
        node = replace(seen.node, name=f"n{i}", budget_bytes=budget)
        device = replace(seen.device, miss_cost_us=200.0)
        found.append(replace(seen, node=node, tenants=tenants, device=device))
    return found


def busy(seen: Snapshot, share: float) -> Snapshot:
    """Return the node with a device that serves only a share of the present demand."""
    reads = plan(seen, EVERYBODY, STATIC).device_share * seen.device.capacity_iops
    return replace(seen, device=replace(seen.device, capacity_iops=max(1.0, share * reads)))


def moves_of(found: Consolidation) -> dict[str, dict[str, str]]:
    """Return, for each node that can be drained, the target of each of its cgroups."""
    return {one.node: {move.cgroup: move.to_node for move in one.moves} for one in found.drains}


def after(fleet: Sequence[Snapshot], moves: Mapping[str, Mapping[str, str]]) -> list[Snapshot]:
    """Return the nodes that stay, with all tenants that move to them."""
    tenants = {one.cgroup: one for seen in fleet for one in seen.tenants}
    found = []
    for seen in fleet:
        if seen.node.name not in moves:
            guests = [
                tenants[cgroup]
                for to in moves.values()
                for cgroup, name in to.items()
                if name == seen.node.name
            ]
            found.append(replace(seen, tenants=(*seen.tenants, *guests)))
    return found


def random_past(fleet: Sequence[Snapshot], seed: int, times: int, most: float) -> PastByTenant:
    """Return random past needs of most tenants, in some of the time slots."""
    random = np.random.default_rng(seed)
    found = {}
    for seen in fleet:
        for one in seen.tenants:
            slots = np.flatnonzero(random.random(times) < 0.7) + NOON
            size = one.limit_bytes * random.uniform(0.1, most, slots.size)
            if slots.size:
                iops = random.uniform(0, 500, slots.size)
                found[seen.node.name, one.cgroup] = PastNeeds.of_node(slots, size, iops)
    return found


def needed_in(needs: FleetNeeds, row: int, before: PastByTenant, at: int, slot: int) -> int:
    """Return what a tenant needs at a read time, as it was in a slot.

    This is the present need at that read time, plus what the tenant needed more on its own node
    in that slot than it needs there now.
    """
    home = needs.places[int(needs.homes[row])]
    own = row - int(needs.start[int(needs.homes[row])])
    past = before.get((home.name, home.targets.asked.tenants[own].cgroup))
    now = int(needs.size_bytes[at, row])
    if past is None or slot not in past.slots.tolist():
        return now
    here = home.needs.in_force().at(home.targets.wait_us).size_bytes[own]
    then = float(past.size_bytes[past.slots.tolist().index(slot)])
    bounded = min(max(then, home.needs.least_bytes[own]), home.needs.most_bytes[own])
    return max(now + int(np.ceil(bounded)) - int(here), now - int(needs.size_bytes[:, row].min()))
