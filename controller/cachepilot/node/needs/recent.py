# SPDX-License-Identifier: Apache-2.0
"""What one tenant needed in each quarter of an hour of the last day, regime by regime.

Needs are estimates, and those of one regime differ only by noise. Within a slot (a quarter of an
hour) the need of a regime is the median of its estimates, because its first estimates still contain
the regime before. A slot with several regimes has the largest of their needs, for memory, reads and
CPUs separately.
"""

from collections.abc import Iterable
from statistics import median

import numpy as np

from cachepilot.domain.past.need import SLOTS, Need, PastNeeds

NOBODY = -1
NOTHING = Need(0.0, 0.0)


def _median(samples: Iterable[Need]) -> Need:
    """The median of needs; for CPUs that of the known values."""
    size, iops, cpus = zip(*samples, strict=True)
    known = [one for one in cpus if one is not None]
    return Need(float(median(size)), float(median(iops)), median(known) if known else None)


def _most(one: Need, other: Need) -> Need:
    """The larger of two needs, for each resource."""
    known = [need.cpus for need in (one, other) if need.cpus is not None]
    return Need(
        max(one.size_bytes, other.size_bytes),
        max(one.device_iops, other.device_iops),
        max(known, default=None),
    )


class RecentNeeds:
    """The needs of one tenant, 1.6 KiB."""

    __slots__ = ("_before", "_group", "_samples", "_slots", "_values")

    def __init__(self) -> None:
        self._slots = np.full(SLOTS, NOBODY, np.int32)
        """By place in the ring, the slot that it holds."""
        self._values = np.zeros((SLOTS, len(Need._fields)), np.float32)
        """By place in the ring; NaN for CPUs that are not known."""
        self._group = (NOBODY, NOBODY)
        """The slot and the regime of the samples."""
        self._samples: list[Need] = []
        self._before = NOTHING
        """What other regimes of the slot needed."""

    def take(self, slot: int, regime: int, need: Need) -> None:
        """Take in one estimate."""
        if (slot, regime) != self._group:
            self._group, self._samples = (slot, regime), []
            self._before = self.of(slot) or NOTHING
        self._samples.append(need)
        self.put(slot, _most(self._before, _median(self._samples)))

    def put(self, slot: int, need: Need) -> None:
        """Set the need of a slot."""
        size, iops, cpus = need
        self._slots[slot % SLOTS] = slot
        self._values[slot % SLOTS] = size, iops, np.nan if cpus is None else cpus

    def newest(self, now: int) -> int:
        """The newest slot up to `now` with a known need; below 0 without any."""
        known = self._slots[self._slots <= now]
        return int(known.max(initial=NOBODY))

    def told(self, now: int, slots: int = SLOTS) -> PastNeeds:
        """Return the known needs of the last `slots` slots, up to `now`."""
        known = (self._slots > now - slots) & (self._slots <= now)
        known &= self._slots != NOBODY
        order = np.flatnonzero(known)[np.argsort(self._slots[known])]
        return PastNeeds.of_node(self._slots[order].astype(np.int64), *self._values[order].T)

    def of(self, slot: int) -> Need | None:
        """What was needed in one slot; None if it is not known."""
        if self._slots[slot % SLOTS] != slot:
            return None
        size, iops, cpus = self._values[slot % SLOTS].tolist()
        return Need(size, iops, None if np.isnan(cpus) else cpus)
