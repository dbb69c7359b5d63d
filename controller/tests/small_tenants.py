# SPDX-License-Identifier: Apache-2.0
"""Tenants whose need is known without a plan, and their past needs."""

from collections.abc import Mapping

import numpy as np

from cachepilot.domain.past.need import PastNeeds
from cachepilot.domain.snapshot import Curves, Demand, Device, Indicators, Node, Snapshot, Tenant
from cachepilot.sizes import PAGE_BYTES

MIB = 1 << 20
NOON = 1_800_048
"""A time slot: noon in UTC."""


def loop_of(cgroup: str, need_mib: int, limit_mib: int, cpus: float | None = None) -> Tenant:
    """Return a tenant that reads a loop: with less than `need_mib` every access misses."""
    need = need_mib * MIB
    sizes = np.array([need - PAGE_BYTES, need, 4096 * MIB])
    curves = Curves(("default",), sizes, np.array([[1.0, 0.01, 0.01]]))
    readings = Indicators(throughput_ops=1000.0, miss_ratio=0.01, device_iops=10.0, cpus=cpus)
    demand = Demand(service_us=100.0, accesses_per_op=1.0, concurrency=1.0)
    return Tenant(cgroup, "default", limit_mib * MIB, 0, curves, demand, readings)


def node_of(name: str, memory_mib: int, *tenants: Tenant, cpus: float | None = None) -> Snapshot:
    """Return a node whose device is never short."""
    device = Device(capacity_iops=1e9, miss_cost_us=200.0)
    return Snapshot(1, 0.0, Node(name, memory_mib * MIB, cpus=cpus), device, tenants)


def past_of(
    mib: Mapping[int, float], iops: float = 50.0, cpus: Mapping[int, float] | None = None
) -> PastNeeds:
    """Return past needs, by slot relative to noon; slots before noon are negative."""
    slots = np.array(sorted(mib), dtype=np.int64)
    size = np.array([mib[one] * MIB for one in slots.tolist()])
    known = [(cpus or {}).get(one, np.nan) for one in slots.tolist()]
    return PastNeeds.of_node(slots + NOON, size, np.full(slots.size, iops), np.array(known))
