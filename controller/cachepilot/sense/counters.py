# SPDX-License-Identifier: Apache-2.0
"""What the totals of one tenant did between snapshots: an interval, and a smoothing window."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cachepilot.domain.units import US_PER_S
from cachepilot.quick_records import quickly_made
from cachepilot.sense.latency import quantile_us

WINDOW = 5
"""Intervals that the indicators are smoothed over."""
CONCURRENCY_WINDOW = 64
"""Intervals of which the busiest says how many operations are in flight."""


class Totals(NamedTuple):
    """Totals at one time; `ops` is that of the tenant's indicator, None while it is not known."""

    time_s: float
    accesses: int
    misses: int
    ops: float | None
    block_reads: int
    read_calls: int
    read_time_us: int
    latency: Sequence[int] = ()


@quickly_made
@dataclass(frozen=True)
class Sample:
    """One interval of one tenant. `read_us` is the mean time of a read call, None without any.

    `reads_per_call` are the device reads that it waited for.
    """

    time_s: float
    elapsed_s: float
    ops: float
    miss_ratio: float
    accesses: int
    read_us: float | None
    device_read_us: float | None = None
    reads_per_call: float = 1.0


class Pages(NamedTuple):
    """Accesses of one interval, and those that missed."""

    accesses: int
    misses: int


@quickly_made
@dataclass(frozen=True)
class Window:
    """The smoothed readings of a tenant: per second, but for the miss ratio and the p99."""

    ops: float
    miss_ratio: float
    block_reads: float
    accesses_per_op: float | None
    latency_p99_us: float | None


def _fell(now: Totals, then: Totals) -> bool:
    return (
        now.accesses < then.accesses
        or now.misses < then.misses
        or (now.ops is not None and then.ops is not None and now.ops < then.ops)
        or now.block_reads < then.block_reads
        or now.read_calls < then.read_calls
        or now.read_time_us < then.read_time_us
    )


class History:
    """Totals of the last intervals; begins anew when a total fell or time went back."""

    def __init__(self) -> None:
        self._totals: deque[Totals] = deque(maxlen=WINDOW + 1)
        self._in_flight: deque[float] = deque(maxlen=CONCURRENCY_WINDOW)
        self.concurrency = 1.0
        """Operations in flight in the busiest interval of late, by Little's law; at least 1."""
        self.resets = 0

    def begin_anew(self) -> None:
        """What comes next cannot be compared with what was before, as after a gap."""
        if self._totals:
            self._totals.clear()
            self.resets += 1

    def take(self, now: Totals) -> None:
        """Takes the totals of one snapshot in."""
        if self._totals:
            last = self._totals[-1]
            if now.time_s <= last.time_s or _fell(now, last):
                self.begin_anew()
            else:
                busy_us = now.read_time_us - last.read_time_us
                self._note(busy_us / (US_PER_S * (now.time_s - last.time_s)))
        self._totals.append(now)

    def _note(self, in_flight: float) -> None:
        noted = self._in_flight
        leaves = noted[0] if len(noted) == CONCURRENCY_WINDOW else 0.0
        noted.append(in_flight)
        if in_flight >= self.concurrency:
            self.concurrency = in_flight
        elif leaves >= self.concurrency:
            self.concurrency = max(1.0, *noted)

    def pages(self) -> Pages | None:
        """Of the last interval, whatever was done in it; None when it is the first."""
        if len(self._totals) < 2:
            return None
        then, now = self._totals[-2], self._totals[-1]
        return Pages(now.accesses - then.accesses, now.misses - then.misses)

    def sample(self, device_read_us: float | None) -> Sample | None:
        """The last interval; None when it is the first, or nothing was accessed or done in it."""
        if len(self._totals) < 2:
            return None
        then, now = self._totals[-2], self._totals[-1]
        accesses = now.accesses - then.accesses
        if accesses <= 0 or now.ops is None or then.ops is None or now.ops <= then.ops:
            return None
        elapsed_s = now.time_s - then.time_s
        calls = now.read_calls - then.read_calls
        return Sample(
            time_s=now.time_s,
            elapsed_s=elapsed_s,
            ops=(now.ops - then.ops) / elapsed_s,
            miss_ratio=min(1.0, (now.misses - then.misses) / accesses),
            accesses=accesses,
            read_us=(now.read_time_us - then.read_time_us) / calls if calls > 0 else None,
            device_read_us=device_read_us,
            reads_per_call=(now.misses - then.misses) / calls if calls > 0 else 1.0,
        )

    def window(self) -> Window | None:
        """The last intervals together; None while there is none."""
        if len(self._totals) < 2:
            return None
        then, now = self._totals[0], self._totals[-1]
        elapsed_s = now.time_s - then.time_s
        accesses = now.accesses - then.accesses
        known = now.ops is not None and then.ops is not None
        ops = (now.ops or 0.0) - (then.ops or 0.0) if known else 0.0
        return Window(
            ops=max(0.0, ops) / elapsed_s,
            miss_ratio=min(1.0, (now.misses - then.misses) / accesses) if accesses > 0 else 0.0,
            block_reads=(now.block_reads - then.block_reads) / elapsed_s,
            accesses_per_op=accesses / ops if ops > 0 and accesses > 0 else None,
            latency_p99_us=quantile_us(now.latency, then.latency, 0.99),
        )
