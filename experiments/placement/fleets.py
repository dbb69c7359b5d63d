# SPDX-License-Identifier: Apache-2.0
"""Fleets of random tenants, each node with spare memory, and the past needs of a day."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from experiments.control_loop.instances import snapshot

from cachepilot.domain.past.need import SLOT_S, SLOTS, PastNeeds
from cachepilot.domain.snapshot import Snapshot
from cachepilot.plan.consolidation.least.past import PastByTenant
from cachepilot.sizes import PAGE_BYTES

POLICIES = 4
HOURS = 24


def fleet_of(seed: int, nodes: int, tenants: int, capacity_iops: float) -> list[Snapshot]:
    """Return nodes with 1 to 1.6 times their tenants' memory, and devices that differ a little."""
    random = np.random.default_rng(seed)
    found = []
    for i in range(nodes):
        seen = snapshot(
            seed * 10_000 + i, tenants, POLICIES, capacity_iops=capacity_iops * random.uniform(1, 2)
        )
        pages = int(seen.node.budget_bytes * random.uniform(1.0, 1.6)) // PAGE_BYTES
        found.append(
            replace(
                seen,
                node=replace(seen.node, name=f"n{i:04}", budget_bytes=pages * PAGE_BYTES),
                device=replace(seen.device, miss_cost_us=float(random.integers(180, 221))),
                tenants=tuple(replace(one, cgroup=f"/n{i}{one.cgroup}") for one in seen.tenants),
            )
        )
    return found


def day_of(seed: int, fleet: Sequence[Snapshot]) -> PastByTenant:
    """Return the needs of tenants over a day, in which each needs most in two to eight hours.

    These hours differ by tenant. In them it needs 0.6 to 1 times its present memory, otherwise 0.1
    to 0.5 times.
    """
    random = np.random.default_rng(seed)
    slots = np.arange(SLOTS)
    hours = slots * SLOT_S / 3600
    found = {}
    for seen in fleet:
        for one in seen.tenants:
            begin, length = random.uniform(0, HOURS), random.uniform(2, 8)
            is_large = (hours - begin) % HOURS < length
            share = np.where(is_large, random.uniform(0.6, 1.0), random.uniform(0.1, 0.5))
            noise = random.uniform(0.98, 1.02, SLOTS)
            iops = np.full(SLOTS, one.indicators.device_iops)
            size = one.limit_bytes * share * noise
            found[seen.node.name, one.cgroup] = PastNeeds.of_node(slots, size, iops)
    return found


def all_at_once(before: PastByTenant) -> PastByTenant:
    """Return the needs as if every tenant needed its most at the same time."""
    return {
        tenant: PastNeeds.of_node(
            past.slots[-1:], past.size_bytes.max(keepdims=True), past.device_iops[:1]
        )
        for tenant, past in before.items()
    }
