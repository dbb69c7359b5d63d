# SPDX-License-Identifier: Apache-2.0
"""What every node of a fleet carries, and which of them have room for one tenant more.

A node has room if it has what its tenants need now and what they needed together at any time of
the past: the sum of the present needs, and the most by which they needed more at once. Of CPUs
that are measured a margin stays free, see `least.cpus`.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cachepilot.domain.snapshot import BoolArray, FloatArray, IntArray
from cachepilot.plan.consolidation.least.cpus import with_margin, without_margin
from cachepilot.plan.consolidation.least.sharing_reads import SLACK
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds


class Load(NamedTuple):
    """What one tenant needs at each read time, (G,), and by how much more in the past, (T,)."""

    size_bytes: IntArray
    device_iops: FloatArray
    stated_cpus: float
    measured_cpus: float
    more_bytes: IntArray
    more_iops: FloatArray
    more_cpus: FloatArray


@dataclass
class Loads:
    """N nodes with what they have; memory and reads of their tenants at each read time, (N, G).

    `runs` is at which read times a node can run at all. CPUs, (N,), are inf where not known.
    `more_*`, (N, T), is by how much its tenants needed more in the past, see `Past`.
    """

    budget_bytes: IntArray
    capacity_iops: FloatArray
    cpus: FloatArray
    runs: BoolArray
    size_bytes: IntArray
    device_iops: FloatArray
    stated_cpus: FloatArray
    measured_cpus: FloatArray
    more_bytes: IntArray
    more_iops: FloatArray
    more_cpus: FloatArray

    @classmethod
    def of(cls, needs: FleetNeeds, cpus: FloatArray) -> "Loads":
        """The nodes, which have so many CPUs, (N,), with the tenants that they have.

        Of a tenant whose SLO cannot be met where it is nobody asks that it be met.
        """
        places, past = needs.places, needs.past
        own = [slice(*needs.start[node : node + 2]) for node in range(len(places))]
        devices = [one.snapshot.device for one in places]
        idle = np.array([one.miss_cost_us for one in devices])
        reads = np.where(needs.kept | ~needs.must, needs.device_iops, np.inf)
        return cls(
            budget_bytes=np.array([one.table.budget_bytes for one in places], dtype=np.int64),
            capacity_iops=np.array([one.capacity_iops for one in devices]) * (1 + SLACK),
            cpus=cpus,
            runs=needs.read_us[None, :] >= idle[:, None],
            size_bytes=np.array([needs.size_bytes[:, rows].sum(axis=1) for rows in own]),
            device_iops=np.array([reads[:, rows].sum(axis=1) for rows in own]),
            stated_cpus=np.array([needs.cpus.stated[rows].sum() for rows in own]),
            measured_cpus=np.array([needs.cpus.measured[rows].sum() for rows in own]),
            more_bytes=np.array([past.more_bytes[rows].sum(axis=0) for rows in own]),
            more_iops=np.array([past.more_iops[rows].sum(axis=0) for rows in own]),
            more_cpus=np.array([past.more_cpus[rows].sum(axis=0) for rows in own]),
        )

    def copy(self) -> "Loads":
        """The same, to be changed."""
        return replace(
            self,
            size_bytes=self.size_bytes.copy(),
            device_iops=self.device_iops.copy(),
            stated_cpus=self.stated_cpus.copy(),
            measured_cpus=self.measured_cpus.copy(),
            more_bytes=self.more_bytes.copy(),
            more_iops=self.more_iops.copy(),
            more_cpus=self.more_cpus.copy(),
        )

    def _none(self) -> Load:
        """A tenant that needs nothing."""
        times, past = np.zeros(self.size_bytes.shape[1]), np.zeros(self.more_bytes.shape[1])
        size, more = times.astype(np.int64), past.astype(np.int64)
        return Load(size, times, 0.0, 0.0, more, past, past)

    def cpu_shares(self, needs: FleetNeeds, node: int) -> FloatArray:
        """What share of a node's CPUs each tenant needs, (I,), with the margin in proportion.

        Their sum is at most 1 wherever `spare` leaves room; the converse need not hold.
        """
        cpus = self.cpus[node]
        found: FloatArray = needs.cpus.stated / cpus + needs.cpus.measured / without_margin(cpus)
        return found

    def spare(self, nodes: IntArray, load: Load) -> tuple[FloatArray, IntArray]:
        """Of K nodes with one tenant more.

        The least share of memory, device and CPUs that is left at any time, (K,), negative where
        there is no room, and the index of the read time at which most is.
        """
        budget, capacity = self.budget_bytes[nodes, None], self.capacity_iops[nodes, None]
        more_bytes = (self.more_bytes[nodes] + load.more_bytes).max(axis=1, keepdims=True)
        more_iops = (self.more_iops[nodes] + load.more_iops).max(axis=1, keepdims=True)
        memory = 1 - (self.size_bytes[nodes] + load.size_bytes + more_bytes) / budget
        reads = 1 - (self.device_iops[nodes] + load.device_iops + more_iops) / capacity
        left = np.where(self.runs[nodes], np.minimum(memory, reads), -1.0)
        at = left.argmax(axis=1)
        most = left[np.arange(nodes.size), at]
        more_cpus = (self.more_cpus[nodes] + load.more_cpus).max(axis=1)
        measured = with_margin(self.measured_cpus[nodes] + load.measured_cpus + more_cpus)
        cpus = 1 - (self.stated_cpus[nodes] + load.stated_cpus + measured) / self.cpus[nodes]
        return np.minimum(most, cpus), at

    def spare_now(self, nodes: IntArray) -> tuple[FloatArray, IntArray]:
        """`spare` of nodes as they are."""
        return self.spare(nodes, self._none())

    def roomiest(self, node: int) -> int:
        """The read time at which a node has most to spare, by index."""
        return int(self.spare_now(np.array([node]))[1][0])

    def clear(self, node: int) -> None:
        """All tenants leave a node."""
        for used in (self.size_bytes, self.device_iops, self.stated_cpus, self.measured_cpus):
            used[node] = 0
        for more in (self.more_bytes, self.more_iops, self.more_cpus):
            more[node] = 0

    def add(self, node: int, load: Load) -> None:
        """A tenant comes to a node."""
        self.size_bytes[node] += load.size_bytes
        self.device_iops[node] += load.device_iops
        self.stated_cpus[node] += load.stated_cpus
        self.measured_cpus[node] += load.measured_cpus
        self.more_bytes[node] += load.more_bytes
        self.more_iops[node] += load.more_iops
        self.more_cpus[node] += load.more_cpus
