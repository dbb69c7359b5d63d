# SPDX-License-Identifier: Apache-2.0
"""Fleets of random tenants, each node with memory to spare."""

from dataclasses import replace

import numpy as np
from experiments.control_loop.instances import snapshot

from cachepilot.domain.snapshot import Snapshot
from cachepilot.sizes import PAGE_BYTES

POLICIES = 4


def fleet_of(seed: int, nodes: int, tenants: int, capacity_iops: float) -> list[Snapshot]:
    """Nodes with 1 to 1.6 times the memory that their tenants have, and devices a little unlike."""
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
