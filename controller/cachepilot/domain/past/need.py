# SPDX-License-Identifier: Apache-2.0
"""What tenants needed, by the quarter of an hour, so that it can be added up over tenants.

A day is the shortest time that holds every part of the daily cycle that most workloads have: office
hours, nightly batches, backups. A quarter of an hour is long beside the minutes that curves take to
follow a new regime, and short beside the hours that regimes of such a cycle last.
"""

from dataclasses import dataclass, fields
from typing import Any

from cachepilot.domain.snapshot import BoolArray, FloatArray, IntArray
from cachepilot.domain.units import DAY_S

SLOT_S = 900.0
SLOTS = int(DAY_S // SLOT_S) + 1
"""The present slot, and a whole day before it."""


def slot_of(time_s: float) -> int:
    """The number of the quarter of an hour of a time, seconds since 1970."""
    return int(time_s // SLOT_S)


@dataclass(frozen=True, eq=False)
class PastNeeds:
    """What one tenant needed, arrays of shape (K,): by rising `slots`, those that are known.

    The need of a slot is that of the regime of it that needed most. `device_iops` are the reads per
    second that were left with that memory. Rows that `moved` are of another node: they are what was
    needed more there than the last time; None where all are of this one.
    """

    slots: IntArray
    size_bytes: FloatArray
    device_iops: FloatArray
    moved: BoolArray | None = None

    def within(self, slots: range) -> "PastNeeds":
        """Those of some slots, one after another."""
        kept = (self.slots >= slots.start) & (self.slots < slots.stop)
        told = [(one.name, getattr(self, one.name)) for one in fields(self)]
        rows: dict[str, Any] = {
            name: None if values is None else values[kept] for name, values in told
        }
        return PastNeeds(**rows)
