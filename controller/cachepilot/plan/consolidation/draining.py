# SPDX-License-Identifier: Apache-2.0
"""Which nodes the others could take over: bin packing in two dimensions, memory and device.

The smallest node first: it is drained if its tenants, and again those of all nodes drained before,
fit into the rest by best fit decreasing (Johnson, 1974, for one dimension): the greatest first, by
the larger of its shares of memory and of the device, each to the node that it leaves with least to
spare. A node is drained whole or not at all. It is a heuristic: an exact packing can drain more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import FloatArray, IntArray, Snapshot
from cachepilot.plan.consolidation.needs import Needs, Targets
from cachepilot.plan.consolidation.wait_table import WaitTable
from cachepilot.plan.problem.config import Config

TARGETS_MAX = 16
"""So many nodes, those with most to spare, take tenants in."""


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

    def spare(self, more_bytes: IntArray, more_iops: FloatArray) -> float:
        """The share of memory or device, whichever is less, that is left; negative: no room."""
        table = self.table
        memory = 1 - (table.needed_bytes + more_bytes) / table.budget_bytes
        reads = 1 - (table.device_iops + more_iops) / table.capacity_iops
        room = table.has_room(more_bytes, more_iops)
        least = np.maximum(np.minimum(memory, reads), 0.0)
        return float(np.where(room, least, -1.0).max())


@dataclass(frozen=True)
class _Guests:
    """What N tenants would need on another node at each wait of its table, (G, N)."""

    size_bytes: IntArray
    device_iops: FloatArray

    @classmethod
    def of(cls, targets: Targets, place: Place, config: Config) -> "_Guests":
        """The needs of the tenants of another node at a place."""
        needs = Needs.of(targets, place.snapshot, config)
        points = [needs.at(float(wait)) for wait in place.table.waits_us]
        # Where a tenant would not be kept, no device is large enough.
        iops = [np.where(one.kept, one.device_iops, np.inf) for one in points]
        return cls(np.array([one.size_bytes for one in points]), np.array(iops))


@dataclass(frozen=True)
class _Load:
    """What a node takes in at each wait of its table, (G,), and what it then has to spare."""

    more_bytes: IntArray
    more_iops: FloatArray
    spare: float

    @classmethod
    def of(cls, place: Place, more_bytes: IntArray, more_iops: FloatArray) -> "_Load":
        """A load with its room on a place."""
        return cls(more_bytes, more_iops, place.spare(more_bytes, more_iops))


class _Packing:
    """Packs the tenants of some nodes into others; what they need there is computed once."""

    def __init__(self, places: Sequence[Place], config: Config) -> None:
        self._places = {place.name: place for place in places}
        self._config = config
        self._guests: dict[tuple[str, str], _Guests] = {}
        self._roomy = sorted(places, key=lambda one: (-self._empty(one).spare, one.name))

    @staticmethod
    def _empty(place: Place) -> _Load:
        waits = place.table.waits_us.size
        return _Load.of(place, np.zeros(waits, dtype=np.int64), np.zeros(waits))

    def _with(self, load: _Load, home: str, row: int, to: Place) -> _Load:
        """The load of a node with one more tenant."""
        if (home, to.name) not in self._guests:
            targets = self._places[home].targets
            self._guests[home, to.name] = _Guests.of(targets, to, self._config)
        guest = self._guests[home, to.name]
        more_bytes = load.more_bytes + guest.size_bytes[:, row]
        return _Load.of(to, more_bytes, load.more_iops + guest.device_iops[:, row])

    def _order(self, homes: Sequence[str]) -> list[tuple[float, str, int]]:
        """All tenants of some nodes, the greatest first: less its share, its home, its row."""
        found = []
        for name in homes:
            table = self._places[name].table
            memory = table.least.size_bytes / table.budget_bytes
            reads = table.least.device_iops / table.capacity_iops
            shares = np.maximum(memory, reads).tolist()
            found += [(-share, name, row) for row, share in enumerate(shares)]
        return sorted(found)

    def into_others(self, homes: Sequence[str]) -> dict[str, dict[int, str]] | None:
        """Where the tenants of some nodes would go, by node and row; None where one has no room."""
        to = [one for one in self._roomy if one.name not in homes][:TARGETS_MAX]
        loads = {place.name: self._empty(place) for place in to}
        found: dict[str, dict[int, str]] = {name: {} for name in homes}
        for _, home, row in self._order(homes):
            tried = {place.name: self._with(loads[place.name], home, row, place) for place in to}
            fits = [(one.spare, name) for name, one in tried.items() if one.spare >= 0]
            if not fits:
                return None
            best = min(fits)[1]
            loads[best] = tried[best]
            found[home][row] = best
        return found


def drain(places: Sequence[Place], config: Config) -> dict[str, dict[str, str]]:
    """Of each node that can be drained, where each of its cgroups would go, all at once."""
    packing = _Packing(places, config)
    drained: list[str] = []
    moves: dict[str, dict[int, str]] = {}
    for place in sorted(places, key=lambda one: (one.table.budget_bytes, one.name)):
        if len(drained) + 1 == len(places):
            break
        found = packing.into_others([*drained, place.name])
        if found is not None:
            drained, moves = [*drained, place.name], found
    cgroups = {one.name: [t.cgroup for t in one.targets.asked.tenants] for one in places}
    return {
        home: {cgroups[home][row]: name for row, name in sorted(rows.items())}
        for home, rows in moves.items()
    }
