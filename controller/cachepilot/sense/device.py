# SPDX-License-Identifier: Apache-2.0
"""The cost of a read of the node's device, and its read capacity: configured, or learned."""

from collections import deque

from cachepilot.domain.snapshot import Device
from cachepilot.domain.units import US_PER_S
from cachepilot.v1 import session_pb2 as wire

KEPT = 512
"""Number of intervals from which the time of an idle read is learned."""
READS_MIN = 10
"""With fewer reads in an interval, their mean time says little."""
IDLE_QUANTILE = 0.05
QUEUEING = 1.5
"""Reads that take this multiple of an idle read's time have waited."""
UNKNOWN_READ_US = 100.0
"""Read time before anything was read: that of a fast flash device."""
UNKNOWN_IOPS = 1e12
"""Capacity before reads were seen to wait: unbounded."""
HALF_LIFE_S = 40.0
"""Half-life of what was measured of waits below the capacity; as `calibration_half_life_s`."""
FULL_SHARE = 0.95
"""Share of the capacity from which waits are those of a device that serves no more reads."""
QUEUEING_MIN_US = 1e-3
"""A factor below this is no queueing: a far smaller one could not be computed with."""


class DeviceModel:
    """The device of one node, measured from its totals."""

    def __init__(self) -> None:
        self._last: tuple[float, int, int] | None = None
        self._read_us: deque[float] = deque(maxlen=KEPT)
        self._idle_us = UNKNOWN_READ_US
        self._greatest_iops = 0.0
        self._waited = self._used = 0.0
        self.iops = 0.0
        self.read_us: float | None = None
        """Mean time of a read in the last interval, queueing included; None with few reads."""

    def restart(self) -> None:
        """Start with new totals; what was learned stays."""
        self._last = None

    def take(self, device: wire.Device, time_s: float) -> Device:
        """Take in the totals of a snapshot; return the device for the planner.

        Values that the agent reports take precedence over learned ones.
        """
        now = (time_s, device.reads_total, device.read_time_us_total)
        then, self._last = self._last, now
        self.iops, self.read_us = 0.0, None
        reads = now[1] - then[1] if then is not None else 0
        elapsed_s = now[0] - then[0] if then is not None else 0.0
        if then is not None and elapsed_s > 0 and reads >= 0 and now[2] >= then[2]:
            self.iops = reads / elapsed_s
            if reads >= READS_MIN:
                self.read_us = max((now[2] - then[2]) / reads, 1e-3)
                self._read_us.append(self.read_us)
                ordered = sorted(self._read_us)
                self._idle_us = ordered[int(IDLE_QUANTILE * len(ordered))]
        idle_us = device.idle_read_us or self._idle_us
        if self.read_us is not None and self.read_us > QUEUEING * idle_us:
            self._greatest_iops = max(self._greatest_iops, self.iops)
        capacity = device.capacity_iops or self._greatest_iops or UNKNOWN_IOPS
        return Device(capacity, idle_us, self._queueing_us(capacity, idle_us, elapsed_s))

    def _queueing_us(self, capacity_iops: float, idle_us: float, elapsed_s: float) -> float:
        """The factor of `Device`'s formula, from waits and the shares of the capacity in use.

        Both are weighted by reads. The factor is at most that of random arrivals and random times
        of service, so that noise at a low load does not predict long waits at a high one. It is 0
        while the capacity is not known. An interval in which the device is full says nothing of it:
        there the wait is what other reads leave.
        """
        if capacity_iops >= UNKNOWN_IOPS:
            return 0.0
        used = self.iops / capacity_iops
        if self.read_us is not None and used < FULL_SHARE:
            reads, keep = self.iops * elapsed_s, 0.5 ** (elapsed_s / HALF_LIFE_S)
            waited = (self.read_us - idle_us) * (1 - used)
            self._waited = keep * self._waited + reads * waited
            self._used = keep * self._used + reads * used
        found = self._waited / self._used if self._used > 0 else 0.0
        found = min(found, US_PER_S / capacity_iops)
        return found if found >= QUEUEING_MIN_US else 0.0
