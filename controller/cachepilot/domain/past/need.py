# SPDX-License-Identifier: Apache-2.0
"""What tenants needed, by the quarter of an hour, so that it can be added up over tenants.

A day is the shortest time that holds every part of the daily cycle that most workloads have: office
hours, nightly batches, backups. A quarter of an hour is long beside the minutes that curves take to
follow a new regime, and short beside the hours that regimes of such a cycle last.
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
    """The number of the quarter of an hour of a time, seconds since 1970."""
    return int(time_s // SLOT_S)


class Need(NamedTuple):
    """What one tenant needs at one time.

    `device_iops` are the reads per second that are left with that memory, `cpus` its CPU time per
    second; None where that is not known.
    """

    size_bytes: float
    device_iops: float
    cpus: float | None = None


@dataclass(frozen=True, eq=False)
class PastNeeds:
    """What one tenant needed, arrays of shape (K,): by rising `slots`, those that are known.

    The need of a slot is that of the regime of it that needed most. `device_iops` are the reads per
    second that were left with that memory, `cpus` CPU time per second, NaN where it is not known.
    Rows that `moved` are of another node: they are what was needed more there than the last time.
    Their `last` are those needs, (K, 3), of memory, reads and CPUs; NaN where not known, as of rows
    of the tenant's own node.
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
        """Needs on the node where the tenant is; of its CPUs nothing is known without `cpus`."""
        cpus = np.full(slots.size, np.nan) if cpus is None else cpus
        moved = np.zeros(slots.size, dtype=np.bool_)
        last = np.full((slots.size, 3), np.nan)
        return cls(slots, size_bytes, device_iops, cpus, moved, last)

    def within(self, slots: range) -> "PastNeeds":
        """Those of some slots, one after another."""
        kept = (self.slots >= slots.start) & (self.slots < slots.stop)
        return PastNeeds(**{one.name: getattr(self, one.name)[kept] for one in fields(self)})
