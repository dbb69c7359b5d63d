# SPDX-License-Identifier: Apache-2.0
"""Which nodes the others could take over: bin packing in two dimensions, memory and device.

The smallest node first: it is drained if its tenants, and again those of all nodes drained before,
fit into the rest by best fit decreasing (Johnson, 1974, for one dimension): the greatest first, by
the larger of its shares of memory and of the device, each to the node that it leaves with least to
spare. A node is drained whole or not at all. It is a heuristic: an exact packing can drain more.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cachepilot.domain.snapshot import FloatArray, IntArray
from cachepilot.plan.consolidation.place import Guests, Place
from cachepilot.plan.problem.config import Config

TARGETS_MAX = 16
"""So many nodes, those with most to spare, take tenants in."""


@dataclass(frozen=True)
class Load:
    """What a node takes in at each wait of its table, (G,), and what it then has to spare.

    `at` is the wait at which it has most to spare.
    """

    more_bytes: IntArray
    more_iops: FloatArray
    spare: float
    at: int

    @classmethod
    def of(cls, place: Place, more_bytes: IntArray, more_iops: FloatArray) -> "Load":
        """A load with its room on a place."""
        return cls(more_bytes, more_iops, *place.spare(more_bytes, more_iops))


@dataclass(frozen=True)
class Guest:
    """A tenant that goes to another node: its home, its row there, and what it needs."""

    home: str
    row: int
    needs: Guests


@dataclass(frozen=True)
class Packing:
    """The nodes that are drained, and what each of the others takes in."""

    drained: tuple[str, ...] = ()
    guests: dict[str, list[Guest]] = field(default_factory=dict)
    loads: dict[str, Load] = field(default_factory=dict)


class _Packer:
    """Packs the tenants of some nodes into others; what they need there is computed once."""

    def __init__(self, places: Sequence[Place], config: Config) -> None:
        self._places = {place.name: place for place in places}
        self._config = config
        self._guests: dict[tuple[str, str], Guests] = {}
        self._roomy = sorted(places, key=lambda one: (-self._empty(one).spare, one.name))

    @staticmethod
    def _empty(place: Place) -> Load:
        waits = place.table.waits_us.size
        return Load.of(place, np.zeros(waits, dtype=np.int64), np.zeros(waits))

    def _needs(self, home: str, to: Place) -> Guests:
        """What the tenants of a node need on another."""
        if (home, to.name) not in self._guests:
            targets = self._places[home].targets
            self._guests[home, to.name] = Guests.of(targets, to, self._config)
        return self._guests[home, to.name]

    def _with(self, load: Load, home: str, row: int, to: Place) -> Load:
        """The load of a node with one more tenant."""
        guest = self._needs(home, to)
        more_bytes = load.more_bytes + guest.size_bytes[:, row]
        return Load.of(to, more_bytes, load.more_iops + guest.device_iops[:, row])

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

    def into_others(self, homes: Sequence[str]) -> Packing | None:
        """Where the tenants of some nodes would go; None where one has no room."""
        to = [one for one in self._roomy if one.name not in homes][:TARGETS_MAX]
        loads = {place.name: self._empty(place) for place in to}
        guests: dict[str, list[Guest]] = {place.name: [] for place in to}
        for _, home, row in self._order(homes):
            tried = {place.name: self._with(loads[place.name], home, row, place) for place in to}
            fits = [(one.spare, name) for name, one in tried.items() if one.spare >= 0]
            if not fits:
                return None
            best = min(fits)[1]
            loads[best] = tried[best]
            guests[best].append(Guest(home, row, self._needs(home, self._places[best])))
        return Packing(tuple(homes), guests, loads)


def pack(places: Sequence[Place], config: Config) -> Packing:
    """The nodes that can be drained all at once, and where their tenants would go."""
    packer = _Packer(places, config)
    found = Packing()
    for place in sorted(places, key=lambda one: (one.table.budget_bytes, one.name)):
        if len(found.drained) + 1 == len(places):
            break
        found = packer.into_others([*found.drained, place.name]) or found
    return found
