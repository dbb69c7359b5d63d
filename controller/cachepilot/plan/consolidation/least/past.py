# SPDX-License-Identifier: Apache-2.0
"""What tenants needed in the last day, relative to what they need now.

A tenant that is small now may have been large an hour ago, and may be again. So needs are stored
per quarter of an hour, called a slot (`cachepilot.domain.past.need`). A node must have what all of
its tenants needed together in each slot. This is the maximum over time of the sum, not the sum of
the maxima: tenants whose regimes do not coincide can share memory that only one of them needs at a
time.

A past need counts as its difference from the present need, on the device where it was seen. The
difference is added to the need on any other device. For a tenant that moved, it is the difference
from its last need on its former node, if it is positive: the former device does not show how much
less the tenant would have needed on the present one. A rise of the need since the move is part of
this difference, and is not added twice. If nothing is known of a slot, the tenant counts with its
present need.

CPUs that an operator states apply at all times. Otherwise the measured CPU time per second counts;
for a tenant without such a measurement, 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.past.need import SLOT_S, Need, PastNeeds
from cachepilot.domain.snapshot import FloatArray, IntArray, Snapshot
from cachepilot.plan.consolidation.least.cpus import CpuNeeds
from cachepilot.plan.consolidation.least.needs import Needs, Point, Targets
from cachepilot.plan.problem.asked import Asked
from cachepilot.plan.problem.config import Config

NOW = 0
"""The index of the present among the times."""
PastByTenant = Mapping[tuple[str, str], PastNeeds]
"""What tenants needed, by node and cgroup."""


def needed_here(needs: Needs) -> Point:
    """What the tenants of a node need at the present wait of its device.

    Tenants with an SLO count with their present policies, as in a packing.
    """
    return needs.in_force().at(needs.targets.wait_us)


def needs_now(snapshot: Snapshot, objectives: Objectives, config: Config) -> dict[str, Need]:
    """What the tenants of a node need, by cgroup.

    Leaves out tenants without curves to follow, and tenants whose SLO no memory meets.
    """
    targets = Targets.of(snapshot, Asked.of(snapshot, objectives), config)
    point = needed_here(Needs.of(targets, snapshot, config))
    known = np.flatnonzero(point.kept & targets.follows).tolist()
    tenants = targets.asked.tenants
    return {
        tenants[row].cgroup: Need(
            int(point.size_bytes[row]),
            float(point.device_iops[row]),
            tenants[row].indicators.cpus,
        )
        for row in known
    }


def slots_of(known: Iterable[PastNeeds]) -> IntArray:
    """All slots from the first to the last one with a known need."""
    ends = [(int(one.slots[0]), int(one.slots[-1])) for one in known if one.slots.size]
    if not ends:
        return np.zeros(0, dtype=np.int64)
    return np.arange(min(first for first, _ in ends), max(last for _, last in ends) + 1)


def _beyond(more: FloatArray, last: FloatArray, now: FloatArray) -> FloatArray:
    """Reduce what was needed `more` on a former node by the rise of the need since then.

    Negative differences stay as they are.
    """
    risen = np.fmax(now - last, 0.0)
    found: FloatArray = np.where(more > 0, np.maximum(more - risen, 0.0), more)
    return found


@dataclass(frozen=True)
class Past:
    """How much more I tenants needed at each of T times than now; negative if less.

    Arrays of shape (I, T). The first time is now; `slots`, (T - 1,), are the others.
    """

    slots: IntArray
    more_bytes: IntArray
    more_iops: FloatArray
    more_cpus: FloatArray

    @classmethod
    def none(cls, tenants: int) -> "Past":
        """The past of tenants of which nothing is known."""
        nothing = np.zeros((tenants, 1))
        return cls(np.zeros(0, dtype=np.int64), nothing.astype(np.int64), nothing, nothing)

    @classmethod
    def of(cls, needs: Needs, node: str, before: PastByTenant, slots: IntArray) -> "Past":
        """Return the past of the tenants of a node.

        Needs are within the least and the greatest memory that a tenant may have now.
        """
        tenants = needs.targets.asked.tenants
        if not slots.size:
            return cls.none(len(tenants))
        shape = (len(tenants), slots.size + 1)
        more_bytes = np.zeros(shape, dtype=np.int64)
        more_iops, more_cpus = np.zeros(shape), np.zeros(shape)
        told = [before.get((node, one.cgroup)) for one in tenants]
        known = [(row, past) for row, past in enumerate(told) if past is not None]
        if not known:
            return cls(slots, more_bytes, more_iops, more_cpus)
        now = needed_here(needs)
        row = np.repeat([row for row, _ in known], [past.slots.size for _, past in known])
        at = np.concatenate([past.slots for _, past in known]) - slots[0] + 1
        moved = np.concatenate([past.moved for _, past in known])
        last = np.concatenate([past.last for _, past in known]).T
        size = np.concatenate([past.size_bytes for _, past in known])
        beyond = now.size_bytes[row] + _beyond(size, last[0], now.size_bytes[row])
        size = np.ceil(np.where(moved, beyond, size)).astype(np.int64)
        size = np.clip(size, needs.least_bytes[row], needs.most_bytes[row])
        more = size - now.size_bytes[row]
        more_bytes[row, at] = np.where(moved, np.maximum(more, 0), more)
        iops = np.concatenate([past.device_iops for _, past in known])
        reads = now.device_iops[row]
        more_iops[row, at] = np.where(moved, _beyond(iops, last[1], reads), iops - reads)
        cpus = CpuNeeds.of(needs.targets.asked)
        more = np.concatenate([past.cpus for _, past in known])
        uses = cpus.measured[row]
        more = np.where(moved, np.maximum(_beyond(more, last[2], uses), 0.0), more - uses)
        more_cpus[row, at] = np.where(np.isnan(more) | (cpus.stated[row] > 0), 0.0, more)
        return cls(slots, more_bytes, more_iops, more_cpus)

    @classmethod
    def joined(cls, parts: Sequence["Past"]) -> "Past":
        """Concatenate the pasts of several nodes with the same times."""
        return cls(
            parts[0].slots,
            np.concatenate([one.more_bytes for one in parts]),
            np.concatenate([one.more_iops for one in parts]),
            np.concatenate([one.more_cpus for one in parts]),
        )

    def no_less_than(self, least_bytes: IntArray, least_iops: FloatArray) -> "Past":
        """Clip the past so that no tenant needed less than 0.

        `least_bytes` and `least_iops`, (I,), are the least that each tenant needs now, on any
        device. CPUs are not clipped: a tenant needs the same CPUs on every node, so its need was
        never below 0.
        """
        return Past(
            self.slots,
            np.maximum(self.more_bytes, -least_bytes[:, None]),
            np.maximum(self.more_iops, -least_iops[:, None]),
            self.more_cpus,
        )

    def worst(self) -> IntArray:
        """The past times that no other time dominates, as indices.

        A time dominates another if every tenant needed at least as much of everything.
        """
        needed = np.concatenate((self.more_bytes, self.more_iops, self.more_cpus))[:, 1:]
        if not needed.size:
            return np.zeros(0, dtype=np.int64)
        no_more = (needed[:, :, None] <= needed[:, None, :]).all(axis=0)
        later = np.tri(needed.shape[1], k=-1, dtype=np.bool_).T
        # Of several equal times the last one stays.
        covered = (no_more & (~no_more.T | later)).any(axis=1)
        found: IntArray = np.flatnonzero(~covered) + 1
        return found

    @property
    def hours(self) -> float:
        """The number of hours that the slots span."""
        return self.slots.size * SLOT_S / 3600

    def begin_s(self, at: int) -> float:
        """When a time other than now began, seconds since 1970."""
        return float(self.slots[at - 1]) * SLOT_S

    def peak(self, row: int) -> tuple[int, float | None]:
        """The most bytes that a tenant needed beyond its present need, and since when.

        The time is seconds since 1970, or None if the greatest need is now.
        """
        at = int(self.more_bytes[row].argmax())
        more = int(self.more_bytes[row, at])
        return (more, self.begin_s(at)) if more > 0 else (0, None)
