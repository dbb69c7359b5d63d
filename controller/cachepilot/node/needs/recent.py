# SPDX-License-Identifier: Apache-2.0
"""What one tenant needed in each quarter of an hour of the last day, regime by regime.

Needs are estimates, and those of one regime differ by noise alone: within a slot the median of them
is the need of the regime. A slot of several regimes has the need of the one that needed most, of
memory and of reads each. Medians, as the first estimates of a regime still contain the one before.
"""

from statistics import median

import numpy as np

from cachepilot.domain.past.need import SLOTS, PastNeeds

NOBODY = -1


class RecentNeeds:
    """Needs of one tenant, 2.4 KiB."""

    __slots__ = ("_before", "_group", "_samples", "_slots", "_values")

    def __init__(self) -> None:
        self._slots = np.full(SLOTS, NOBODY, np.int64)
        """By place in the ring, the slot that it holds."""
        self._values = np.zeros((SLOTS, 2))
        self._group = (NOBODY, NOBODY)
        """Slot and regime of the samples."""
        self._samples: list[tuple[int, float]] = []
        self._before = (0.0, 0.0)
        """What other regimes of the slot needed."""

    def take(self, slot: int, regime: int, size_bytes: int, device_iops: float) -> None:
        """Takes one estimate in."""
        if (slot, regime) != self._group:
            self._group, self._samples = (slot, regime), []
            size, iops = self._at(slot)
            self._before = size, iops
        self._samples.append((size_bytes, device_iops))
        size, iops = (float(median(some)) for some in zip(*self._samples, strict=True))
        self.put(slot, max(self._before[0], size), max(self._before[1], iops))

    def put(self, slot: int, size_bytes: float, device_iops: float) -> None:
        """What is known of a slot."""
        self._slots[slot % SLOTS] = slot
        self._values[slot % SLOTS] = size_bytes, device_iops

    def _at(self, slot: int) -> tuple[float, float]:
        if self._slots[slot % SLOTS] != slot:
            return 0.0, 0.0
        size, iops = self._values[slot % SLOTS].tolist()
        return size, iops

    def newest(self, now: int) -> int:
        """The newest slot up to `now` of which anything is known; below 0 without any."""
        known = self._slots[self._slots <= now]
        return int(known.max(initial=NOBODY))

    def told(self, now: int, slots: int = SLOTS) -> PastNeeds:
        """What is known of the slot `now` and of those before it, so many in all."""
        known = (self._slots > now - slots) & (self._slots <= now)
        known &= self._slots != NOBODY
        order = np.flatnonzero(known)[np.argsort(self._slots[known])]
        return PastNeeds(self._slots[order], self._values[order, 0], self._values[order, 1])

    def of(self, slot: int) -> tuple[float, float] | None:
        """Memory and reads per second of one slot; None where nothing is known."""
        return self._at(slot) if self._slots[slot % SLOTS] == slot else None
