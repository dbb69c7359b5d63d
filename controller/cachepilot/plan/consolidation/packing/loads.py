# SPDX-License-Identifier: Apache-2.0
"""What every node of a fleet carries, and which nodes have room for one more tenant.

A node has room if it has what its tenants need now and what they needed together at any past time:
the sum of the present needs, plus the most by which they needed more at once. For measured CPUs a
margin stays free, see `least.cpus`.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from cachepilot.domain.snapshot import BoolArray, FloatArray, IntArray
from cachepilot.plan.consolidation.least.cpus import with_margin, without_margin
from cachepilot.plan.consolidation.least.sharing_reads import SLACK
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds


class Load(NamedTuple):
    """What one tenant needs at each read time, (G,), and how much more it needed, (T,)."""

    size_bytes: IntArray
    device_iops: FloatArray
    stated_cpus: float
    measured_cpus: float
    more_bytes: IntArray
    more_iops: FloatArray
    more_cpus: FloatArray


@dataclass
class Loads:
    """N nodes with their capacities, and what their tenants use.

    Memory and reads have shape (N, G), one column per read time. `runs` marks the read times at
    which a node can run. CPUs have shape (N,); `cpus` is inf if not known. `more_*`, (N, T), is how
    much more the tenants of a node needed in the past, see `Past`.
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
        """The nodes, with `cpus` CPUs each, (N,), and their present tenants.

        What a tenant cannot keep on its present node does not count.
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
        """A copy that may be changed."""
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
        """The load of a tenant that needs nothing."""
        times, past = np.zeros(self.size_bytes.shape[1]), np.zeros(self.more_bytes.shape[1])
        size, more = times.astype(np.int64), past.astype(np.int64)
        return Load(size, times, 0.0, 0.0, more, past, past)

    def cpu_shares(self, needs: FleetNeeds, node: int) -> FloatArray:
        """The share of a node's CPUs that each tenant needs, (I,), with the margin in proportion.

        The shares add up to at most 1 wherever `spare` leaves room. The converse need not be true.
        """
        cpus = self.cpus[node]
        found: FloatArray = needs.cpus.stated / cpus + needs.cpus.measured / without_margin(cpus)
        return found

    def spare(self, nodes: IntArray, load: Load) -> tuple[FloatArray, IntArray]:
        """What K nodes have to spare with one more tenant.

        Returns the least share of memory, device and CPUs that is left at any time, (K,), negative
        if there is no room, and the index of the read time at which most is left.
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
        """`spare` of nodes with their present load."""
        return self.spare(nodes, self._none())

    def roomiest(self, node: int) -> int:
        """The index of the read time at which a node has most to spare."""
        return int(self.spare_now(np.array([node]))[1][0])

    def clear(self, node: int) -> None:
        """Remove all tenants from a node."""
        for used in (self.size_bytes, self.device_iops, self.stated_cpus, self.measured_cpus):
            used[node] = 0
        for more in (self.more_bytes, self.more_iops, self.more_cpus):
            more[node] = 0

    def add(self, node: int, load: Load) -> None:
        """Add a tenant to a node."""
        self.size_bytes[node] += load.size_bytes
        self.device_iops[node] += load.device_iops
        self.stated_cpus[node] += load.stated_cpus
        self.measured_cpus[node] += load.measured_cpus
        self.more_bytes[node] += load.more_bytes
        self.more_iops[node] += load.more_iops
        self.more_cpus[node] += load.more_cpus
