# SPDX-License-Identifier: Apache-2.0
"""Time series of tenants that are not all in the store yet: one ring per step, in memory.

A tenant takes 6 KiB at most, 8 KiB on a node with readahead policies.
"""

import math
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cachepilot.domain.past.series import CHUNK_POINTS, KEPT_S, Latency, SeriesChunk
from cachepilot.domain.snapshot import FloatArray, IntArray
from cachepilot.domain.units import US_PER_S
from cachepilot.node.series.packing import packed
from cachepilot.node.series.rings import NAN, Ring, grown
from cachepilot.node.shown.readings import shown_readings
from cachepilot.node.shown.report import Report
from cachepilot.plan.problem.asked import UNPREDICTED
from cachepilot.sense.collect import Seen
from cachepilot.sense.latency import lower_bound_us
from cachepilot.v1 import session_pb2 as wire

SERIES_CYCLES = 60
"""The time series of a tenant are stored once in this number of cycles. A crash loses no more."""
LATENCY_STEP_S, LATENCY_LOOKS = 20.0, 4
"""LATENCY_LOOKS histograms are kept, this many seconds apart: what is shown spans a minute."""
COUNTS_WRAP = 1 << 32
NAMES_MAX = 1 << 15
"""Names of policies that are known at most. With more, all series start again."""
Written = tuple[int, int, int, int]
"""Row, step, cgroup id, and the number of its points that are stored."""
LEFT_MAX = 10_000
"""Unstored chunks of tenants that are gone, at most. Beyond that the oldest are lost."""
SPARE = 8
"""When room is needed, one spare row is added for this number of rows."""


class _Values(NamedTuple):
    """The values of a point beside its time and policy; NaN for a value that is not known."""

    limit_bytes: float
    current_bytes: float
    throughput_ops: float
    predicted_ops: float
    miss_ratio: float
    latency_p99_us: float
    refaults_per_s: float
    evictions_per_s: float
    memory_stall_share: float
    io_stall_share: float
    ahead_pages_per_s: float
    ahead_used_per_s: float
    ahead_wasted_per_s: float


COLUMNS = _Values._fields
"""The names of the values of a point, in their order."""
COUNTED_PER = np.array([1.0, 1.0, US_PER_S, US_PER_S, 1.0, 1.0, 1.0])
"""The units of the totals from which the last values, which are rates, are computed."""


def _values(seen: Seen, predicted_ops: float | None) -> tuple[float, ...]:
    """The values of a point, with totals in place of rates."""
    told, window = seen.wire, seen.window
    counters = told.counters
    readings: tuple[float, ...] = (NAN, NAN, NAN, NAN)
    if window is not None:
        shown = shown_readings(seen)
        readings = (
            NAN if shown.throughput_ops is None else shown.throughput_ops,
            NAN if predicted_ops is None else predicted_ops,
            NAN if shown.hit_ratio is None else 1 - shown.hit_ratio,
            NAN if shown.latency_p99_us is None else shown.latency_p99_us,
        )
    return (
        told.limit_bytes or NAN,
        told.current_bytes,
        *readings,
        counters.refaults_total,
        counters.evictions_total,
        counters.memory_stall_us_total,
        counters.io_stall_us_total,
        *_read_ahead(told),
    )


def _read_ahead(told: wire.Tenant) -> tuple[float, float, float]:
    """Totals of pages of the tenant's own readahead policy; NaN without one."""
    if not told.readahead.HasField("pages"):
        return NAN, NAN, NAN
    pages = told.readahead.pages
    return pages.ahead_total, pages.used_total, pages.wasted_total


def _points(step_s: float, interval_s: float) -> int:
    """The number of points that a ring keeps: one whole chunk, and those until the next store.

    Half of the latter again are kept for times in which the store cannot be written.
    """
    cycles = 1.5 * SERIES_CYCLES
    return CHUNK_POINTS + math.ceil(cycles * min(1.0, interval_s / max(step_s, interval_s)))


class _Looks:
    """Histograms of read calls of every row, at the last few times."""

    def __init__(self) -> None:
        self._times: deque[float] = deque(maxlen=LATENCY_LOOKS)
        # Counts are kept modulo 2^32: only the increase over a minute is shown.
        self._counts: npt.NDArray[np.uint32] = np.zeros((0, LATENCY_LOOKS, 0), np.uint32)
        self._since: IntArray = np.zeros(0, np.int64)
        self._count = 0

    def grow(self, rows: int) -> None:
        """Make room for this number of rows."""
        self._counts, self._since = grown(self._counts, rows), grown(self._since, rows)

    def take(self, time_s: float, rows: IntArray, new: IntArray, seen: Mapping[str, Seen]) -> None:
        """Keep a histogram of each row if it is time. `new` rows keep none from before."""
        self._since[new] = self._count
        if self._times and time_s - self._times[-1] < LATENCY_STEP_S:
            return
        told = [np.array(one.wire.counters.read_latency_total) for one in seen.values()]
        more = max((one.size for one in told), default=0) - self._counts.shape[2]
        if more > 0:
            self._counts = np.pad(self._counts, ((0, 0), (0, 0), (0, more)))
        at = self._count % LATENCY_LOOKS
        for row, one in zip(rows.tolist(), told, strict=True):
            self._counts[row, at, : one.size] = one.astype(np.uint32)
            self._counts[row, at, one.size :] = 0
        self._times.append(time_s)
        self._count += 1

    def since_oldest(self, row: int, now_s: float, total: list[int]) -> Latency | None:
        """The counts since the oldest histogram; None without an earlier one, or if totals fell."""
        age = min(len(self._times), self._count - int(self._since[row]))
        if age <= 0 or self._times[-age] >= now_s:
            return None
        earlier = self._counts[row, (self._count - age) % LATENCY_LOOKS].tolist()
        counts = [(now - then) % COUNTS_WRAP for now, then in zip(total, earlier, strict=False)]
        if any(count >= COUNTS_WRAP // 2 for count in counts) or any(earlier[len(total) :]):
            return None
        return Latency(
            elapsed_s=now_s - self._times[-age],
            lower_bounds_us=[lower_bound_us(bucket) for bucket in range(len(counts))],
            counts=counts,
        )


class NodeSeries:
    """The time series of all tenants of one node. One thread calls `take`, any thread the rest.

    A cycle is expected every `interval_s`.
    """

    def __init__(self, interval_s: float, lost: Callable[[int], None] = lambda _: None) -> None:
        """`lost` is called with a number of points that left memory before they were stored."""
        self._interval_s, self._lost = interval_s, lost
        self._lock = threading.Lock()
        self._left: list[SeriesChunk] = []
        """Unstored chunks of tenants that are gone."""
        self._left_told = 0
        self._begin()

    def _begin(self) -> None:
        width = len(_Values._fields)
        self._rings = {
            step: Ring(width, self._interval_s, _points(step, self._interval_s), step)
            for step in KEPT_S
        }
        self._written: dict[int, IntArray] = {step: np.zeros(0, np.int64) for step in KEPT_S}
        """By step and row, the number of the first point that is not stored."""
        self._looks = _Looks()
        self._rows: dict[str, tuple[int, int]] = {}
        """By cgroup, its row and cgroup id."""
        self._free: list[int] = []
        self._names: dict[str, int] = {}
        self._totals: FloatArray = np.zeros((0, len(COUNTED_PER)))
        self._time_s = -math.inf

    def take(self, report: Report) -> None:
        """Add one cycle. A failed cycle whose report repeats an earlier one changes nothing."""
        time_s = report.collected.time_s
        if time_s == self._time_s:
            return
        actions = () if report.plan is None else report.plan.actions
        predicted = {
            one.cgroup: one.present.throughput_ops for one in actions if one.held not in UNPREDICTED
        }
        known = report.collected.seen
        with self._lock:
            if time_s < self._time_s or len(self._names) > NAMES_MAX:
                self._begin()
            elapsed_s, self._time_s = time_s - self._time_s, time_s
            self._keep_left(known)
            rows, new = self._follow(known)
            names = self._names
            policies = [names.setdefault(one.tenant.policy, len(names)) for one in known.values()]
            found = [_values(one, predicted.get(cgroup)) for cgroup, one in known.items()]
            values = np.array(found, dtype=np.float64).reshape(-1, len(_Values._fields))
            self._become_rates(values, rows, new, elapsed_s)
            codes = np.array(policies, dtype=np.uint16)
            for step, ring in self._rings.items():
                ring.take(time_s, rows, new, codes, values)
                self._written[step][new] = [ring.first(row) for row in new.tolist()]
            self._looks.take(time_s, rows, new, known)

    def _follow(self, known: Mapping[str, Seen]) -> tuple[IntArray, IntArray]:
        """The row of every tenant, and the rows of tenants that are new."""
        for cgroup in self._rows.keys() - known.keys():
            self._free.append(self._rows.pop(cgroup)[0])
        lacking = len(known) - len(self._rows) - len(self._free)
        if lacking > 0:
            size = len(self._totals)
            more = lacking + (size // SPARE if size else 0)
            self._free += range(size, size + more)
            for ring in self._rings.values():
                ring.grow(size + more)
            self._looks.grow(size + more)
            self._totals = grown(self._totals, size + more)
            self._written = {at: grown(one, size + more) for at, one in self._written.items()}
        new = []
        for cgroup, seen in known.items():
            row, cgroup_id = self._rows.get(cgroup) or (self._free.pop(), None)
            if cgroup_id != seen.wire.cgroup_id:
                self._rows[cgroup] = row, seen.wire.cgroup_id
                new.append(row)
        rows = [self._rows[cgroup][0] for cgroup in known]
        return np.array(rows, dtype=np.int64), np.array(new, dtype=np.int64)

    def _become_rates(
        self, values: FloatArray, rows: IntArray, new: IntArray, elapsed_s: float
    ) -> None:
        """Replace totals by rates, in place; NaN if a total fell or is the first."""
        totals = values[:, -len(COUNTED_PER) :]
        self._totals[new] = NAN
        changed = totals - self._totals[rows]
        self._totals[rows] = totals
        totals[:] = np.where(changed >= 0, changed / COUNTED_PER / elapsed_s, NAN)

    def _keep_left(self, known: Mapping[str, Seen]) -> None:
        """Keep the unstored points of tenants that are gone, or whose cgroup was created again."""
        names = list(self._names)
        for cgroup, (_, cgroup_id) in self._rows.items():
            seen = known.get(cgroup)
            if seen is None or seen.wire.cgroup_id != cgroup_id:
                self._left += self._unstored_of(cgroup, names)[0]
        beyond = len(self._left) - LEFT_MAX
        if beyond > 0:
            self._lost(sum(one.points for one in self._left[:beyond]))
            del self._left[:beyond]

    def _unstored_of(
        self, cgroup: str, names: list[str]
    ) -> tuple[list[SeriesChunk], list[Written]]:
        """The chunks of one tenant with unstored points, and a receipt."""
        chunks: list[SeriesChunk] = []
        receipt: list[Written] = []
        row, cgroup_id = self._rows[cgroup]
        for step, ring in self._rings.items():
            known, first = int(self._written[step][row]), ring.first(row)
            if known < first:
                self._lost(first - known)
            if max(known, first) >= ring.count:
                continue
            start = max(known // CHUNK_POINTS * CHUNK_POINTS, first)
            while start < ring.count:
                end = (start // CHUNK_POINTS + 1) * CHUNK_POINTS
                chunks.append(packed(cgroup, step, names, *ring.segment(row, start, end)))
                start = end
            receipt.append((row, step, cgroup_id, ring.count))
        return chunks, receipt

    def unstored(self, part: int, parts: int) -> tuple[list[SeriesChunk], list[Written]]:
        """Return chunks with unstored points of one in `parts` of the tenants, and a receipt.

        All unstored chunks of tenants that are gone are added. A chunk that is not full is returned
        again later, with the points that came since.
        """
        receipt: list[Written] = []
        with self._lock:
            chunks, self._left_told = list(self._left), len(self._left)
            names = list(self._names)
            for cgroup, (row, _) in self._rows.items():
                if row % parts == part:
                    found, written = self._unstored_of(cgroup, names)
                    chunks += found
                    receipt += written
        return chunks, receipt

    def stored(self, receipt: Iterable[Written]) -> None:
        """Note that what `unstored` last returned is in the store."""
        with self._lock:
            del self._left[: self._left_told]
            self._left_told = 0
            ids = dict(self._rows.values())
            for row, step, cgroup_id, count in receipt:
                if ids.get(row) == cgroup_id:
                    self._written[step][row] = count

    def tail(self, cgroup: str, step: int) -> SeriesChunk | None:
        """The points of one tenant that are in memory; None without any."""
        with self._lock:
            row, cgroup_id = self._rows.get(cgroup, (0, None))
            ring = self._rings[step]
            if cgroup_id is None or ring.first(row) >= ring.count:
                return None
            names = list(self._names)
            return packed(cgroup, step, names, *ring.segment(row, 0, ring.count))

    def latency(self, seen: Seen) -> Latency | None:
        """The read calls of one tenant in the last minute; None before anything was counted."""
        total = list(seen.wire.counters.read_latency_total)
        with self._lock:
            row, cgroup_id = self._rows.get(seen.tenant.cgroup, (0, None))
            return None if cgroup_id is None else self._looks.since_oldest(row, self._time_s, total)
