# SPDX-License-Identifier: Apache-2.0
"""What every node of a fleet carries, and which of them have room for one tenant more."""

from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import BoolArray, FloatArray, IntArray
from cachepilot.plan.consolidation.least.sharing_reads import SLACK
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds


@dataclass
class Loads:
    """N nodes with what they have; memory and reads of their tenants at each read time, (N, G).

    `runs` is at which read times a node can run at all. CPUs, (N,), are inf where not known.
    """

    budget_bytes: IntArray
    capacity_iops: FloatArray
    cpus: FloatArray
    runs: BoolArray
    size_bytes: IntArray
    device_iops: FloatArray
    used_cpus: FloatArray

    @classmethod
    def of(cls, needs: FleetNeeds, cpus: FloatArray, used_cpus: FloatArray) -> "Loads":
        """The nodes with the tenants that they have.

        Of a tenant whose SLO cannot be met where it is nobody asks that it be met.
        """
        places = needs.places
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
            used_cpus=np.array([float(used_cpus[rows].sum()) for rows in own]),
        )

    def copy(self) -> "Loads":
        """The same, to be changed."""
        return Loads(
            self.budget_bytes, self.capacity_iops, self.cpus, self.runs,
            self.size_bytes.copy(), self.device_iops.copy(), self.used_cpus.copy(),
        )  # fmt: skip

    def spare(
        self, nodes: IntArray, more_bytes: IntArray, more_iops: FloatArray, more_cpus: float
    ) -> tuple[FloatArray, IntArray]:
        """Of K nodes with one tenant more, which needs `more_*` at each read time, (G,).

        The least share of memory, device and CPUs that is left, (K,), negative where there is no
        room, and the index of the read time at which most is.
        """
        budget, capacity = self.budget_bytes[nodes, None], self.capacity_iops[nodes, None]
        memory = 1 - (self.size_bytes[nodes] + more_bytes) / budget
        reads = 1 - (self.device_iops[nodes] + more_iops) / capacity
        left = np.where(self.runs[nodes], np.minimum(memory, reads), -1.0)
        at = left.argmax(axis=1)
        most = left[np.arange(nodes.size), at]
        cpus = 1 - (self.used_cpus[nodes] + more_cpus) / self.cpus[nodes]
        return np.minimum(most, cpus), at

    def spare_now(self, nodes: IntArray) -> tuple[FloatArray, IntArray]:
        """`spare` of nodes as they are."""
        nothing = np.zeros(self.size_bytes.shape[1])
        return self.spare(nodes, nothing.astype(np.int64), nothing, 0.0)

    def roomiest(self, node: int) -> int:
        """The read time at which a node has most to spare, by index."""
        return int(self.spare_now(np.array([node]))[1][0])

    def add(self, node: int, more_bytes: IntArray, more_iops: FloatArray, more_cpus: float) -> None:
        """A tenant comes to a node."""
        self.size_bytes[node] += more_bytes
        self.device_iops[node] += more_iops
        self.used_cpus[node] += more_cpus
