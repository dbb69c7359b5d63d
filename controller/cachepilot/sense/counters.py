# SPDX-License-Identifier: Apache-2.0
"""Differences of the tenants' totals between snapshots: over one interval and a smoothing window.

The totals of all tenants of a node are in arrays with one row per tenant, so that one operation
computes a value for all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from cachepilot.domain.objectives.objective import Counter
from cachepilot.domain.snapshot import BoolArray, FloatArray, IntArray
from cachepilot.domain.units import US_PER_S
from cachepilot.sense.latency import quantiles_us
from cachepilot.v1 import session_pb2 as wire

NAN = float("nan")
T = TypeVar("T", np.float64, np.int64, np.uint32)
WINDOW = 5
"""Number of intervals over which the indicators are smoothed."""
CONCURRENCY_WINDOW = 64
"""Number of recent intervals; the busiest of them determines the operations in flight."""


class Totals(NamedTuple):
    """Totals of one tenant; `ops` is the one that its indicator names.

    `ops` and the CPU time are NaN if unknown. The numbers are exact up to 2^53.
    """

    accesses: float
    misses: float
    ops: float
    block_reads: float
    read_calls: float
    read_time_us: float
    cpu_time_us: float = NAN


def totals_of(counters: wire.Counters, of_ops: Counter) -> Totals:
    """The totals that the agent counts, with the counter `of_ops` as operations.

    `ops` is NaN if the application counts them itself, because the agent does not know that
    counter.
    """
    ops = NAN
    if of_ops is Counter.READ_CALLS:
        ops = counters.read_calls_total
    elif of_ops is Counter.ACCESSES:
        ops = counters.accesses_total
    elif of_ops is Counter.BLOCK_READS:
        ops = counters.block_reads_total
    return Totals(
        counters.accesses_total,
        # Curves do not model readahead, so a page counts as a miss if it was read by readahead.
        counters.misses_total + counters.readahead_pages_total,
        ops,
        counters.block_reads_total,
        counters.read_calls_total,
        counters.read_time_us_total,
        counters.cpu_time_us_total if counters.HasField("cpu_time_us_total") else NAN,
    )


ACCESSES, MISSES, OPS, BLOCK_READS, READ_CALLS, READ_TIME, CPU_TIME = range(len(Totals._fields))


class Sample(NamedTuple):
    """One interval of one tenant. `read_us` is the mean time of a read call; None if it made none.

    `reads_per_call` is the mean number of misses per read call, that is, of device reads that a
    call waited for.
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
    """Page accesses of one interval, how many of them missed, and the device reads.

    `ops` is the operations per second in the same interval; None if unknown.
    """

    accesses: int
    misses: int
    reads: int = 0
    ops: float | None = None


class Window(NamedTuple):
    """The smoothed readings of a tenant.

    `ops` and `block_reads` are per second. `accesses_per_op` is None without operations or
    accesses. `cpus` is its CPU time per second; None while it is unknown.
    """

    ops: float
    miss_ratio: float
    block_reads: float
    accesses_per_op: float | None
    latency_p99_us: float | None
    cpus: float | None = None


@dataclass(frozen=True)
class Readings:
    """The readings of all tenants, in the order of their totals.

    `pages` and `samples` are those of the last interval. Both are None if there is no earlier
    snapshot to compare with, and a sample also if nothing was accessed or no operation was done. A
    window spans up to `WINDOW` intervals, and is None whenever `pages` is.
    `concurrency` is the number of operations in flight in the busiest recent interval, by Little's
    law; at least 1.
    """

    pages: list[Pages | None]
    samples: list[Sample | None]
    windows: list[Window | None]
    concurrency: list[float]


class Counters:
    """Totals of the last snapshots of all tenants.

    The totals of a tenant start again if one of them fell or time did not advance.
    `_held` is the number of snapshots per tenant, the last one included, that can be compared with
    the last one.
    """

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._at = self._noted = 0
        self._times = np.zeros(WINDOW + 1)
        self._totals: FloatArray = np.zeros((WINDOW + 1, 0, len(Totals._fields)))
        # Totals of histogram buckets are kept modulo 2^32: only their rise in a window is used.
        self._latency: npt.NDArray[np.uint32] = np.zeros((WINDOW + 1, 0, 0), dtype=np.uint32)
        self._in_flight: FloatArray = np.zeros((CONCURRENCY_WINDOW, 0))
        self._held: IntArray = np.zeros(0, dtype=np.int64)

    def begin_anew(self) -> None:
        """Start again for all tenants: later totals cannot be compared with earlier ones.

        This is so after a gap of snapshots.
        """
        self._held[:] = 0

    def forget(self, cgroups: Sequence[str]) -> None:
        """Forget these tenants: another cgroup has the name, or the indicator has changed."""
        rows = [self._rows[cgroup] for cgroup in cgroups if cgroup in self._rows]
        self._held[rows] = 0
        self._in_flight[:, rows] = 0

    def _follow(self, cgroups: list[str], buckets: int) -> None:
        """Rearrange the arrays: a row per tenant in the given order, a column per bucket."""
        before = self._latency.shape[2]
        if before < buckets:
            self._latency = np.pad(self._latency, ((0, 0), (0, 0), (0, buckets - before)))
        if cgroups == list(self._rows):
            return
        known = [(row, self._rows[one]) for row, one in enumerate(cgroups) if one in self._rows]
        to, of = ([pair[side] for pair in known] for side in (0, 1))

        def moved(one: npt.NDArray[T], axis: int) -> npt.NDArray[T]:
            shape = list(one.shape)
            shape[axis] = len(cgroups)
            found = np.zeros(shape, one.dtype)
            found.swapaxes(0, axis)[to] = one.swapaxes(0, axis)[of]
            return found

        self._totals, self._latency = moved(self._totals, 1), moved(self._latency, 1)
        self._in_flight, self._held = moved(self._in_flight, 1), moved(self._held, 0)
        self._rows = {cgroup: row for row, cgroup in enumerate(cgroups)}

    def take(
        self,
        time_s: float,
        totals: dict[str, Totals],
        latency: Sequence[Sequence[int]],
        device_read_us: float | None,
    ) -> Readings:
        """Take in the totals of one snapshot, and the latency histograms of read calls.

        Both are in the same order of tenants.
        """
        self._follow(list(totals), max(map(len, latency), default=0))
        last, self._at = self._at, (self._at + 1) % (WINDOW + 1)
        elapsed_s = time_s - float(self._times[last])
        self._times[self._at] = time_s
        now = self._totals[self._at]
        now[:] = np.array(list(totals.values())).reshape(now.shape)
        self._take_latency(latency)
        then = self._totals[last]
        # NaN: comparisons with an unknown total are False, so it does not count as one that fell.
        goes_on = (self._held > 0) & ~(now < then).any(axis=1) & (elapsed_s > 0)
        self._held = np.where(goes_on, np.minimum(self._held + 1, WINDOW + 1), 1)
        changed = now - then
        busy_us = np.where(goes_on, changed[:, READ_TIME], 0.0)
        self._noted = (self._noted + 1) % CONCURRENCY_WINDOW
        self._in_flight[self._noted] = busy_us / (US_PER_S * elapsed_s) if elapsed_s > 0 else 0.0
        return Readings(
            _pages(changed, goes_on, elapsed_s),
            samples(changed, goes_on, time_s, elapsed_s, device_read_us),
            self._windows(goes_on, time_s),
            self._in_flight.max(axis=0, initial=1.0).tolist(),
        )

    def _take_latency(self, latency: Sequence[Sequence[int]]) -> None:
        now = self._latency[self._at]
        buckets = now.shape[1]
        even = [
            one if len(one) == buckets else [*one, *[0] * (buckets - len(one))] for one in latency
        ]
        # One conversion for all tenants: an array per tenant costs more than copying its counts.
        now[:] = np.array(even, dtype=np.uint64).reshape(now.shape)

    def _windows(self, is_known: BoolArray, time_s: float) -> list[Window | None]:
        rows = np.arange(self._held.size)
        first = (self._at - (self._held - 1)) % (WINDOW + 1)
        changed = self._totals[self._at] - self._totals[first, rows]
        elapsed_s = time_s - self._times[first]
        accesses, ops = changed[:, ACCESSES], np.nan_to_num(changed[:, OPS])
        with np.errstate(divide="ignore", invalid="ignore"):
            columns = (
                np.maximum(ops, 0.0) / elapsed_s,
                np.where(accesses > 0, np.minimum(1.0, changed[:, MISSES] / accesses), 0.0),
                changed[:, BLOCK_READS] / elapsed_s,
                accesses / ops,
                changed[:, CPU_TIME] / (US_PER_S * elapsed_s),
            )
        has_both = (ops > 0) & (accesses > 0)
        rose = (self._latency[self._at] - self._latency[first, rows]).view(np.int32)
        p99_us = quantiles_us(rose.astype(np.int64), 0.99)
        made = zip(*(one.tolist() for one in (*columns, has_both, is_known)), p99_us, strict=True)
        return [
            Window(per_s, miss, reads, per_op if both else None, p99, None if isnan(cpus) else cpus)
            if known
            else None
            for per_s, miss, reads, per_op, cpus, both, known, p99 in made
        ]


def _pages(changed: FloatArray, is_known: BoolArray, elapsed_s: float) -> list[Pages | None]:
    columns = changed[:, [ACCESSES, MISSES, BLOCK_READS]]
    pages = np.where(is_known[:, None], columns, 0).astype(np.int64).tolist()
    ops = (changed[:, OPS] / elapsed_s if elapsed_s > 0 else changed[:, OPS]).tolist()
    return [
        Pages(accesses, misses, reads, None if isnan(per_s) else per_s) if fine else None
        for (accesses, misses, reads), per_s, fine in zip(
            pages, ops, is_known.tolist(), strict=True
        )
    ]


def samples(
    changed: FloatArray,
    is_known: BoolArray,
    time_s: float,
    elapsed_s: float,
    device_read_us: float | None,
) -> list[Sample | None]:
    """One interval of N tenants from what their totals rose by, (N, totals).

    None for a tenant whose rise is not known, or that accessed no page or did no operation.
    """
    accesses, misses, ops, calls = changed[:, [ACCESSES, MISSES, OPS, READ_CALLS]].T
    is_done = is_known & (accesses > 0) & (ops > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = (
            is_done,
            ops / elapsed_s,
            np.minimum(1.0, misses / accesses),
            np.where(is_done, accesses, 0).astype(np.int64),
            changed[:, READ_TIME] / calls,
            misses / calls,
            calls > 0,
        )
    return [
        None
        if not done
        else Sample(time_s, elapsed_s, ops, miss, count, read_us, device_read_us, reads)
        if called
        else Sample(time_s, elapsed_s, ops, miss, count, None, device_read_us)
        for done, ops, miss, count, read_us, reads, called in zip(
            *(one.tolist() for one in columns), strict=True
        )
    ]
