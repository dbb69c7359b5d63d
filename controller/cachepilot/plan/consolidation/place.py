# SPDX-License-Identifier: Apache-2.0
"""A node that may take tenants of others in, and what those would need there."""

from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import FloatArray, IntArray, Snapshot
from cachepilot.plan.consolidation.needs import Needs, Point, Targets
from cachepilot.plan.consolidation.wait_table import WaitTable
from cachepilot.plan.problem.config import Config


@dataclass(frozen=True)
class Place:
    """A node, the SLOs of its tenants, and what they need there."""

    snapshot: Snapshot
    targets: Targets
    table: WaitTable

    @property
    def name(self) -> str:
        """The node's."""
        return self.snapshot.node.name

    @property
    def count(self) -> int:
        """How many tenants it has."""
        return len(self.targets.asked.tenants)

    def spare(self, more_bytes: IntArray, more_iops: FloatArray) -> tuple[float, int]:
        """The share of memory or device, whichever is less, that is left, and at which wait.

        Negative where there is no room; `more_bytes` and `more_iops` are of each wait, (G,).
        """
        table = self.table
        memory = 1 - (table.needed_bytes + more_bytes) / table.budget_bytes
        reads = 1 - (table.device_iops + more_iops) / table.capacity_iops
        room = table.has_room(more_bytes, more_iops)
        least = np.maximum(np.minimum(memory, reads), 0.0)
        shares = np.where(room, least, -1.0)
        at = int(shares.argmax())
        return float(shares[at]), at


@dataclass(frozen=True)
class Guests:
    """What N tenants would need on another node at each wait of its table, (G, N)."""

    points: tuple[Point, ...]
    size_bytes: IntArray
    device_iops: FloatArray

    @classmethod
    def of(cls, targets: Targets, place: Place, config: Config) -> "Guests":
        """The needs of the tenants of another node at a place."""
        needs = Needs.of(targets, place.snapshot, config)
        points = tuple(needs.at(float(wait)) for wait in place.table.waits_us)
        # Where a tenant would not be kept, no device is large enough.
        iops = [np.where(one.kept, one.device_iops, np.inf) for one in points]
        return cls(points, np.array([one.size_bytes for one in points]), np.array(iops))
