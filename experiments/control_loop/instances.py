# SPDX-License-Identifier: Apache-2.0
"""Random nodes whose curves have cliffs, plateaus and slopes; each policy has its own curve."""

import numpy as np

from cachepilot.domain.snapshot import (
    Curves,
    Demand,
    Device,
    FloatArray,
    Indicators,
    IntArray,
    Node,
    Snapshot,
    Tenant,
)
from cachepilot.sizes import PAGE_BYTES

MIB = 1 << 20
UNLIMITED_IOPS = 1e12


def _curve(random: np.random.Generator, sizes: IntArray) -> FloatArray:
    """Return a falling curve over `sizes`: steps between plateaus, a power law, or both."""
    levels = np.sort(random.random(random.integers(2, 5)))[::-1]
    edges = np.sort(random.integers(sizes.size, size=levels.size - 1))
    steps = levels[np.searchsorted(edges, np.arange(sizes.size), side="right")]
    slope = np.minimum(1.0, (sizes[0] / sizes) ** random.uniform(0.1, 1.5))
    kind = random.integers(3)
    found: FloatArray = (steps, slope, 0.5 * steps + 0.5 * slope)[kind] * random.uniform(0.3, 1)
    return found


def _grid(random: np.random.Generator, points: int, share_bytes: int) -> IntArray:
    """Return `points` sizes from a twentieth to eight times a fair share, in whole pages."""
    sizes = np.geomspace(share_bytes / 20, share_bytes * 8, points) * random.uniform(0.8, 1.2)
    pages = np.maximum(1, sizes / PAGE_BYTES).astype(np.int64)
    return np.unique(pages) * PAGE_BYTES


def snapshot(
    seed: int,
    tenants: int,
    policies: int,
    points: int = 16,
    capacity_iops: float = UNLIMITED_IOPS,
) -> Snapshot:
    """Return a node of `tenants` tenants.

    Their curves have `policies` policies and up to `points` sizes.

    Present limits are random shares of the budget. Together they use at least nine tenths of it.
    """
    random = np.random.default_rng(seed)
    share_bytes = 64 * MIB
    budget = tenants * share_bytes
    shares = random.dirichlet(np.full(tenants, 2.0)) * budget * random.uniform(0.9, 1.0)
    names = tuple(f"policy{i}" for i in range(policies))
    found = []
    for i, share in enumerate(shares):
        limit = max(1, int(share) // PAGE_BYTES) * PAGE_BYTES
        sizes = _grid(random, points, share_bytes)
        curves = Curves(names, sizes, np.array([_curve(random, sizes) for _ in names]))
        demand = Demand(
            service_us=float(random.uniform(5, 500)),
            accesses_per_op=float(random.uniform(1, 10)),
            concurrency=float(random.integers(1, 9)),
        )
        readings = Indicators(
            throughput_ops=float(random.uniform(100, 10_000)),
            miss_ratio=float(random.random()),
            device_iops=float(random.uniform(100, 10_000)),
        )
        policy = names[int(random.integers(policies))]
        floor = limit // PAGE_BYTES // 4 * PAGE_BYTES
        found.append(Tenant(f"/t{i:05}", policy, limit, floor, curves, demand, readings))
    device = Device(capacity_iops=capacity_iops, miss_cost_us=float(random.uniform(20, 5000)))
    return Snapshot(seed, 0.0, Node("node", budget), device, tuple(found))
