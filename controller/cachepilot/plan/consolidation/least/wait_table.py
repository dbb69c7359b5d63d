# SPDX-License-Identifier: Apache-2.0
"""What the tenants of a node need at several waits of its device: memory traded for reads.

The longer a read waits, the more each tenant must hit. This takes more memory and leaves fewer
reads. A wait at which these reads are within the capacity of the device bounds the actual wait: at
the device's fixed point reads wait no longer, and every tenant does at least as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import BoolArray, FloatArray, IntArray, Snapshot
from cachepilot.plan.consolidation.least.needs import Needs, Point
from cachepilot.plan.consolidation.least.past import Past
from cachepilot.plan.consolidation.least.sharing_reads import SLACK, at_present_wait

WAITS = 12
BISECTIONS = 24
WAIT_MAX_US = 1e9


class _Nodes:
    """N nodes that are computed together, with I tenants in total, ordered by node."""

    def __init__(self, parts: Sequence[Needs], capacity_iops: Sequence[float]) -> None:
        self._needs = Needs.joined(parts)
        self._most_iops = np.array(capacity_iops) * (1 + SLACK)
        self._idle_us = np.array([one.idle_us for one in parts])
        counts = [one.least_bytes.size for one in parts]
        self.node_of = np.repeat(np.arange(len(parts)), counts)

    def at(self, wait_us: FloatArray) -> Point:
        """The needs at one wait per node, (N,)."""
        return self._needs.at((self._idle_us + wait_us)[self.node_of])

    def _served(self, wait_us: FloatArray) -> BoolArray:
        """Whether each device serves the reads that remain at its wait, (N,)."""
        iops, nodes = self.at(wait_us).device_iops, wait_us.size
        found: BoolArray = np.bincount(self.node_of, iops, nodes) <= self._most_iops
        return found

    def least_wait_us(self) -> FloatArray:
        """The least wait at which each device serves its reads, (N,); WAIT_MAX_US if none."""
        short = np.zeros(self._idle_us.size)
        served = self._served(short)
        if served.all():
            return short
        enough = np.where(served, 0.0, 1.0)
        while not served.all() and enough.max() < WAIT_MAX_US:
            served = self._served(enough)
            short = np.where(served, short, enough)
            enough = np.where(served, enough, enough * 8)
        for _ in range(BISECTIONS):
            middle = (short + enough) / 2
            served = self._served(middle)
            short, enough = np.where(served, short, middle), np.where(served, middle, enough)
        return np.minimum(enough, WAIT_MAX_US)

    def greatest_wait_us(self, least_us: FloatArray) -> FloatArray:
        """The waits, (N,), beyond which some tenant would lose what it keeps at the least wait."""
        model, targets = self._needs.model, self._needs.targets
        kept = self.at(least_us).kept
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (model.scale / targets.min_ops - model.base) / self._needs.best_miss()
            wait = (slope - model.per_miss) / model.per_wait - self._idle_us[self.node_of]
        bounds = kept & np.isfinite(wait)
        found = np.full(least_us.size, WAIT_MAX_US)
        np.minimum.at(found, self.node_of[bounds], wait[bounds])
        return np.maximum(least_us, found * (1 - SLACK))


def _with_first(
    needs: Needs, capacity_iops: float, waits: FloatArray, points: list[Point]
) -> tuple[FloatArray, list[Point]]:
    """Prepend the present wait and the needs at it, if tenants can have them at that wait.

    Called if the present wait is shorter than the first one. If it is not possible, tenants without
    an SLO that would need more than they have at the first wait are not kept.
    """
    present = at_present_wait(needs, capacity_iops)
    if present is not None:
        return np.concatenate(([needs.targets.wait_us], waits)), [present, *points]
    return waits, [needs.without_more(points[0]), *points[1:]]


@dataclass(frozen=True)
class WaitTable:
    """Rising waits of shape (G,) from the least possible one, and the needs at each.

    The needs at the first wait are those of the node on its own: a tenant without an SLO needs no
    more memory than it has to keep its present throughput. `fine` marks the waits at which all
    tenants that are kept at the first one are kept. A node has room at a wait if both
    `needed_bytes` and the reads are within what it has.
    """

    budget_bytes: int
    capacity_iops: float
    waits_us: FloatArray
    points: tuple[Point, ...]
    needed_bytes: IntArray
    device_iops: FloatArray
    fine: BoolArray

    @classmethod
    def of(cls, needs: Needs, snapshot: Snapshot) -> "WaitTable":
        """The table of the tenants of a node on their own device."""
        return cls.of_all([needs], [snapshot])[0]

    @classmethod
    def of_all(cls, parts: Sequence[Needs], snapshots: Sequence[Snapshot]) -> list["WaitTable"]:
        """The tables of several nodes; much faster than each on its own."""
        if not parts:
            return []
        nodes = _Nodes(parts, [one.device.capacity_iops for one in snapshots])
        least = nodes.least_wait_us()
        greatest = nodes.greatest_wait_us(least)
        steps = np.linspace(0, 1, WAITS) ** 4
        waits = least[:, None] + (greatest - least)[:, None] * steps
        points = [nodes.at(waits[:, at]) for at in range(WAITS)]
        ends = np.searchsorted(nodes.node_of, np.arange(len(parts) + 1))
        return [
            cls._of(needs, seen, waits[n], [one.part(ends[n], ends[n + 1]) for one in points])
            for n, (needs, seen) in enumerate(zip(parts, snapshots, strict=True))
        ]

    @classmethod
    def _of(
        cls, needs: Needs, snapshot: Snapshot, waits: FloatArray, points: list[Point]
    ) -> "WaitTable":
        """The table of a node, from its needs at waits from the least one on."""
        capacity = snapshot.device.capacity_iops
        if waits[0] > needs.targets.wait_us:
            waits, points = _with_first(needs, capacity, waits, points)
        return cls(
            budget_bytes=snapshot.node.budget_bytes,
            capacity_iops=capacity,
            waits_us=waits,
            points=tuple(points),
            needed_bytes=np.array([int(one.size_bytes.sum()) for one in points], dtype=np.int64),
            device_iops=np.array([float(one.device_iops.sum()) for one in points]),
            fine=np.array([bool((one.kept | ~points[0].kept).all()) for one in points]),
        )

    @property
    def least(self) -> Point:
        """The needs at the least wait: the least memory of every tenant."""
        return self.points[0]

    def more_like(self, past: Past) -> IntArray:
        """How many more tenants like each fit, (N,), by memory and by the device.

        A copy needs more at the times at which the tenant did, all copies at once.
        """
        most = np.zeros(past.more_bytes.shape[0], dtype=np.int64)
        more_bytes, more_iops = past.more_bytes.sum(axis=0), past.more_iops.sum(axis=0)
        for at in np.flatnonzero(self.fine):
            point = self.points[at]
            free = self.budget_bytes - self.needed_bytes[at] - more_bytes
            spare = self.capacity_iops * (1 + SLACK) - self.device_iops[at] - more_iops
            if free.min() < 0 or spare.min() < 0:
                continue
            size = np.maximum(point.size_bytes[:, None] + past.more_bytes, 1)
            reads = point.device_iops[:, None] + past.more_iops
            by_device = np.divide(spare, reads, out=np.full(reads.shape, np.inf), where=reads > 0)
            fit = np.minimum(free // size, np.floor(by_device)).min(axis=1)
            most = np.maximum(most, np.where(point.kept, fit, 0).astype(np.int64))
        return most
