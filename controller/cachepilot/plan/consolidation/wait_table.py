# SPDX-License-Identifier: Apache-2.0
"""What the tenants of a node need at several waits of its device: memory against reads.

The longer a read may wait, the more each tenant must hit, which takes memory, and the fewer reads
are left. A wait at which the reads are within the capacity of the device bounds the one that the
device comes to by itself: at its fixed point reads wait no longer, and everybody does better.
"""

from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import BoolArray, FloatArray, IntArray, Snapshot
from cachepilot.plan.consolidation.needs import Needs, Point
from cachepilot.plan.consolidation.sharing_reads import SLACK, at_present_wait

WAITS = 12
BISECTIONS = 48
WAIT_MAX_US = 1e9


def _least_wait_us(needs: Needs, capacity_iops: float) -> float:
    """The least wait at which the reads that are needed are served; WAIT_MAX_US if at none."""

    def served(wait_us: float) -> bool:
        return float(needs.at(wait_us).device_iops.sum()) <= capacity_iops * (1 + SLACK)

    if served(0.0):
        return 0.0
    short, enough = 0.0, 1.0
    while not served(enough) and enough < WAIT_MAX_US:
        short, enough = enough, enough * 8
    for _ in range(BISECTIONS):
        middle = (short + enough) / 2
        if served(middle):
            enough = middle
        else:
            short = middle
    return min(enough, WAIT_MAX_US)


def _greatest_wait_us(needs: Needs, kept: BoolArray, least_us: float) -> float:
    """A wait beyond which some tenant that is kept at the least wait would not be."""
    model, targets = needs.model, needs.targets
    miss = needs.best_miss()
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (model.scale / targets.min_ops - model.base) / miss
        wait = (slope - model.per_miss) / model.per_wait
    wait = wait[kept & np.isfinite(wait)]
    return max(least_us, float(wait.min(initial=WAIT_MAX_US)) * (1 - SLACK))


def _with_first(
    needs: Needs, capacity_iops: float, waits: FloatArray, points: list[Point]
) -> tuple[FloatArray, list[Point]]:
    """The waits and needs with those at the present wait before them, if it is the shorter one.

    Where there is none, who would need more than it has without an SLO is not kept.
    """
    present = at_present_wait(needs, capacity_iops)
    if present is not None:
        return np.concatenate(([needs.targets.wait_us], waits)), [present, *points]
    return waits, [needs.without_more(points[0]), *points[1:]]


@dataclass(frozen=True)
class WaitTable:
    """Waits of shape (G,), rising from the least that will do, and what is needed at each.

    Of the first wait the needs are those of the node by itself: nobody without an SLO needs more
    memory than it has for what it does now. `fine` says at which all tenants that can be kept are.
    A node has room where both the memory, `needed_bytes`, and the reads are within what it has.
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
        capacity = snapshot.device.capacity_iops
        least = _least_wait_us(needs, capacity)
        greatest = _greatest_wait_us(needs, needs.at(least).kept, least)
        waits = np.unique(least + (greatest - least) * np.linspace(0, 1, WAITS) ** 4)
        points = [needs.at(float(wait)) for wait in waits]
        if least > needs.targets.wait_us:
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
        """What is needed at the least wait: the least memory of every tenant."""
        return self.points[0]

    def has_room(self, more_bytes: IntArray, more_iops: FloatArray) -> BoolArray:
        """At which waits, (G,), more memory and more reads, (G,), still fit."""
        memory = self.needed_bytes + more_bytes <= self.budget_bytes
        reads = self.device_iops + more_iops <= self.capacity_iops * (1 + SLACK)
        found: BoolArray = self.fine & memory & reads
        return found

    def more_like(self, row: int) -> int:
        """How many more tenants like that of a row fit: by memory, and by the device."""
        most = 0
        for at in np.flatnonzero(self.fine):
            point = self.points[at]
            free = self.budget_bytes - int(self.needed_bytes[at])
            reads = float(point.device_iops[row])
            spare = self.capacity_iops * (1 + SLACK) - float(self.device_iops[at])
            if not point.kept[row] or free < 0 or spare < 0:
                continue
            by_memory = free // int(point.size_bytes[row])
            fit = by_memory if reads <= 0 else min(by_memory, int(spare / reads))
            most = max(most, fit)
        return most
