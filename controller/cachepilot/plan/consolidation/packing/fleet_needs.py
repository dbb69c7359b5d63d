# SPDX-License-Identifier: Apache-2.0
"""What every tenant of a fleet needs on any of its nodes, over one grid of read times.

A read time is how long one read takes, the idle time of the device and the wait together. A device
affects what a tenant needs only by this time, so one table of needs over read times serves all
nodes. A node can run at any read time that is at least the idle time of its device. The longer the
read time, the more memory its tenants need, and the less they read. A `memory_min` or `memory_max`
that is a share counts as that share of the node where the tenant is now.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cachepilot.domain.snapshot import BoolArray, FloatArray, IntArray
from cachepilot.plan.consolidation.least.cpus import CpuNeeds
from cachepilot.plan.consolidation.least.needs import Needs
from cachepilot.plan.consolidation.least.past import Past
from cachepilot.plan.consolidation.least.place import Place

POINTS = 12
IDLE_TIMES_MAX = 6
"""The most idle times of devices that are points of the grid.

If there are more, idle times between these points are rounded up to the next one.
"""
LONGEST = 8.0
"""The end of the grid, as a multiple of the longest idle time.

It is twice the longest present read time if that is more.
"""


def read_times(places: Sequence[Place]) -> FloatArray:
    """The grid of read times, (G,), microseconds, rising."""
    idle = np.array([one.snapshot.device.miss_cost_us for one in places])
    now = np.array([one.snapshot.device.miss_cost_us + one.table.waits_us[0] for one in places])
    least, most = float(idle.min()), max(LONGEST * float(idle.max()), 2 * float(now.max()))
    own = np.unique(idle)
    if own.size > IDLE_TIMES_MAX:
        own = np.unique(np.quantile(idle, np.linspace(0, 1, IDLE_TIMES_MAX), method="higher"))
    return np.unique(np.concatenate((own, np.geomspace(least, most, POINTS))))


@dataclass(frozen=True)
class FleetNeeds:
    """I tenants of N nodes at G read times; arrays have shape (G, I) unless another is given.

    `start`, (N + 1,), is the index at which the tenants of each node begin. Tenants with an SLO
    count with their present policies, see `Needs.in_force`. `kept` marks where a tenant has what it
    must keep, and `must`, (I,), the tenants that have it on their present nodes. `cpus` are the
    CPUs that tenants need on any node. `past` is how much more they needed.
    """

    places: tuple[Place, ...]
    start: IntArray
    read_us: FloatArray
    size_bytes: IntArray
    device_iops: FloatArray
    policy: IntArray
    kept: BoolArray
    must: BoolArray
    cpus: CpuNeeds
    past: Past

    @classmethod
    def of(cls, places: Sequence[Place]) -> "FleetNeeds":
        """The needs of the tenants of at least one node."""
        counts = [one.count for one in places]
        start = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
        times = read_times(places)
        needs = Needs.joined([one.needs for one in places]).in_force()
        points = [needs.at(float(time)) for time in times]
        kept = np.array([one.kept for one in points])
        size = np.array([one.size_bytes for one in points])
        iops = np.array([one.device_iops for one in points])
        past = Past.joined([one.past for one in places])
        return cls(
            places=tuple(places),
            start=start,
            read_us=times,
            size_bytes=size,
            device_iops=iops,
            policy=np.array([one.policy for one in points]),
            kept=kept,
            must=np.concatenate([one.table.least.kept for one in places]) & kept.any(axis=0),
            cpus=CpuNeeds.joined([CpuNeeds.of(one.targets.asked) for one in places]),
            past=past.no_less_than(size.min(axis=0), iops.min(axis=0)),
        )

    @property
    def count(self) -> int:
        """The number of tenants."""
        return int(self.start[-1])

    def rows(self, node: int) -> range:
        """The indices of the tenants of a node."""
        return range(int(self.start[node]), int(self.start[node + 1]))

    @cached_property
    def homes(self) -> IntArray:
        """The node where each tenant is now, (I,)."""
        return np.repeat(np.arange(len(self.places)), np.diff(self.start))
