# SPDX-License-Identifier: Apache-2.0
"""What tenants needed, per quarter of an hour (a slot), so that sums over tenants are possible.

A day is the shortest time that includes all of the daily cycle of most workloads: office hours,
nightly batches, backups. A quarter of an hour is long compared with the minutes in which curves
follow a new regime, and short compared with the hours that regimes of such a cycle last.
"""

from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from cachepilot.domain.snapshot import BoolArray, FloatArray, IntArray
from cachepilot.domain.units import DAY_S

SLOT_S = 900.0
SLOTS = int(DAY_S // SLOT_S) + 1
"""The present slot, and a whole day before it."""


def slot_of(time_s: float) -> int:
    """The number of the slot of a time, which is in seconds since 1970."""
    return int(time_s // SLOT_S)


class Need(NamedTuple):
    """What one tenant needs at one time.

    `device_iops` are the reads per second that remain with that memory. `cpus` is its CPU time per
    second, None if not known.
    """

    size_bytes: float
    device_iops: float
    cpus: float | None = None


@dataclass(frozen=True, eq=False)
class PastNeeds:
    """What one tenant needed, arrays of shape (K,), by rising `slots`; only slots that are known.

    The need of a slot is that of its regime with the greatest need. `device_iops` are the reads per
    second that remained with that memory. `cpus` is CPU time per second, NaN if not known. Rows
    that are `moved` are from another node: they are the difference from the tenant's last need
    there. `last` are these last needs, (K, 3), of memory, reads and CPUs; NaN if not known, and in
    rows of the tenant's own node.
    """

    slots: IntArray
    size_bytes: FloatArray
    device_iops: FloatArray
    cpus: FloatArray
    moved: BoolArray
    last: FloatArray

    @classmethod
    def of_node(
        cls,
        slots: IntArray,
        size_bytes: FloatArray,
        device_iops: FloatArray,
        cpus: FloatArray | None = None,
    ) -> "PastNeeds":
        """Needs on the tenant's present node; without `cpus` its CPUs are not known."""
        cpus = np.full(slots.size, np.nan) if cpus is None else cpus
        moved = np.zeros(slots.size, dtype=np.bool_)
        last = np.full((slots.size, 3), np.nan)
        return cls(slots, size_bytes, device_iops, cpus, moved, last)

    def within(self, slots: range) -> "PastNeeds":
        """The needs of a range of slots."""
        kept = (self.slots >= slots.start) & (self.slots < slots.stop)
        return PastNeeds(**{one.name: getattr(self, one.name)[kept] for one in fields(self)})
