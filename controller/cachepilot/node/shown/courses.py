# SPDX-License-Identifier: Apache-2.0
"""How tenants did of late: two rings of points per tenant, in memory; a restart begins anew.

`recent` has every interval, `day` the means of five minutes. A tenant takes 28 KiB at most.
"""

import math
import threading
from collections import deque
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cachepilot.domain.course import Course, Latency, Span
from cachepilot.domain.units import US_PER_S
from cachepilot.node.shown.report import Report
from cachepilot.sense.collect import Seen
from cachepilot.sense.latency import lower_bound_us

POINTS = 300
DAY_STEP_S = 300.0
LATENCY_STEP_S, LATENCY_LOOKS = 10.0, 7
"""Histograms are kept every so many seconds, so many of them: what is shown spans a minute."""
GAP_S = 60.0
"""Longer than this, and than two steps, is an outage: its two sides are not to look joined."""
NAN = float("nan")


class _Values(NamedTuple):
    """What a point holds beside its time and policy; NaN for what is not known."""

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


class _Counted(NamedTuple):
    time_s: float
    refaults: int
    evictions: int
    memory_stall_us: int
    io_stall_us: int


class _Ring:
    """The last POINTS points. With a step, each is the mean of what was seen during it.

    An outage is one point of which nothing is known, half way through it.
    """

    def __init__(self, interval_s: float, step_s: float = 0.0) -> None:
        self._step_s = step_s
        self._gap_s = max(2 * interval_s, 2 * step_s, GAP_S)
        self._times = np.full(POINTS, NAN)
        self._values = np.full((POINTS, len(_Values._fields)), NAN, np.float32)
        self._policies = np.zeros(POINTS, np.uint8)
        self._count = 0
        self._since_s: float | None = None
        self._last: tuple[float, int] | None = None
        self._sums = [0.0] * len(_Values._fields)
        self._known = [0] * len(_Values._fields)

    def take(self, time_s: float, policy: int, values: _Values) -> None:
        if self._last is not None and time_s - self._last[0] > self._gap_s:
            self._break(*self._last, time_s)
        self._last = time_s, policy
        if self._step_s == 0:
            self._add(time_s, policy, values)
            return
        for at, value in enumerate(values):
            if value == value:  # noqa: PLR0124  # not NaN, at a tenth of the price of isnan
                self._sums[at] += value
                self._known[at] += 1
        if self._since_s is None:
            self._since_s = time_s
        if time_s - self._since_s >= self._step_s:
            self._flush(time_s, policy)
            self._since_s = time_s

    def _break(self, last_s: float, policy: int, time_s: float) -> None:
        """Ends what was summed at the last time it was seen, and notes the outage."""
        if any(self._known):
            self._flush(last_s, policy)
        self._since_s = None
        self._add((last_s + time_s) / 2, policy, [NAN] * len(_Values._fields))

    def _flush(self, time_s: float, policy: int) -> None:
        pairs = zip(self._sums, self._known, strict=True)
        self._add(time_s, policy, [total / known if known else NAN for total, known in pairs])
        self._sums, self._known = [0.0] * len(self._sums), [0] * len(self._known)

    def _add(self, time_s: float, policy: int, values: "_Values | list[float]") -> None:
        at = self._count % POINTS
        self._times[at], self._policies[at], self._values[at] = time_s, policy, values
        self._count += 1

    def points(self) -> tuple[list[float], list[int], npt.NDArray[np.float32]]:
        """Times, policies and values, the oldest first."""
        held = min(self._count, POINTS)
        order = np.arange(self._count - held, self._count) % POINTS
        return (
            self._times[order].tolist(),
            self._policies[order].tolist(),
            self._values[order],
        )


class _Course:
    """One tenant."""

    def __init__(self, cgroup_id: int, interval_s: float) -> None:
        self.cgroup_id = cgroup_id
        self.rings = {Span.RECENT: _Ring(interval_s), Span.DAY: _Ring(interval_s, DAY_STEP_S)}
        self.policies: list[str] = []
        self.last: _Counted | None = None
        self.latency: deque[tuple[float, list[int]]] = deque(maxlen=LATENCY_LOOKS)

    def take(self, time_s: float, seen: Seen, predicted_ops: float | None) -> None:
        """Adds what was seen at a time after the last one; earlier ones are ignored."""
        counters = seen.wire.counters
        now = _Counted(
            time_s,
            counters.refaults_total,
            counters.evictions_total,
            counters.memory_stall_us_total,
            counters.io_stall_us_total,
        )
        then, self.last = self.last, now
        window = seen.window
        policy = seen.tenant.policy
        if policy not in self.policies:
            self.policies.append(policy)
        values = _Values(
            seen.wire.limit_bytes or NAN,
            seen.wire.current_bytes,
            NAN if window is None else window.ops,
            NAN if predicted_ops is None else predicted_ops,
            NAN if window is None else window.miss_ratio,
            NAN if window is None or window.latency_p99_us is None else window.latency_p99_us,
            *_rates(now, then),
        )
        for ring in self.rings.values():
            ring.take(time_s, self.policies.index(policy) % 256, values)
        if not self.latency or time_s - self.latency[-1][0] >= LATENCY_STEP_S:
            self.latency.append((time_s, list(counters.read_latency_total)))


def _rates(now: _Counted, then: _Counted | None) -> tuple[float, float, float, float]:
    """Refaults and evictions per second, and shares of time stalled on memory and on I/O."""
    elapsed_s = 0.0 if then is None else now.time_s - then.time_s
    if then is None or elapsed_s <= 0:
        return NAN, NAN, NAN, NAN

    def rate(later: int, earlier: int, unit: float = 1.0) -> float:
        return NAN if later < earlier else (later - earlier) / unit / elapsed_s

    return (
        rate(now.refaults, then.refaults),
        rate(now.evictions, then.evictions),
        rate(now.memory_stall_us, then.memory_stall_us, US_PER_S),
        rate(now.io_stall_us, then.io_stall_us, US_PER_S),
    )


def _latency(course: _Course, now_s: float, total: list[int]) -> Latency | None:
    """What was counted since the oldest look; None before there are two, or when totals fell."""
    if not course.latency or course.latency[0][0] >= now_s:
        return None
    then_s, earlier = course.latency[0]
    counts = [
        count - (earlier[bucket] if bucket < len(earlier) else 0)
        for bucket, count in enumerate(total)
    ]
    if any(count < 0 for count in counts) or len(earlier) > len(total):
        return None
    return Latency(
        elapsed_s=now_s - then_s,
        lower_bounds_us=[lower_bound_us(bucket) for bucket in range(len(counts))],
        counts=counts,
    )


class Courses:
    """All tenants of one node; `take` on one thread, `view` on any.

    A cycle is expected every `interval_s`.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._courses: dict[str, _Course] = {}
        self._time_s = -math.inf
        self._lock = threading.Lock()

    def take(self, report: Report) -> None:
        """Adds one cycle; one without a plan that repeats an earlier one changes nothing."""
        time_s = report.collected.time_s
        if time_s < self._time_s:
            with self._lock:
                self._courses = {}
        elif time_s == self._time_s:
            return
        self._time_s = time_s
        actions = () if report.plan is None else report.plan.actions
        predicted = {one.cgroup: one.present.throughput_ops for one in actions}
        known = report.collected.seen
        for cgroup in self._courses.keys() - known.keys():
            del self._courses[cgroup]
        for cgroup, seen in known.items():
            course = self._courses.get(cgroup)
            if course is None or course.cgroup_id != seen.wire.cgroup_id:
                course = self._courses[cgroup] = _Course(seen.wire.cgroup_id, self._interval_s)
            with self._lock:
                course.take(time_s, seen, predicted.get(cgroup) if seen.window else None)

    def view(self, node: str, seen: Seen, span: Span) -> Course:
        """The course of one tenant; empty before its first cycle ended."""
        with self._lock:
            course = self._courses.get(seen.tenant.cgroup) or _Course(
                seen.wire.cgroup_id, self._interval_s
            )
            times, policies, values = course.rings[span].points()
            latency = _latency(course, self._time_s, list(seen.wire.counters.read_latency_total))
            names = list(course.policies)
        return Course(
            node=node,
            cgroup=seen.tenant.cgroup,
            span=span,
            time_s=times,
            policy=[names[one] for one in policies],
            latency=latency,
            **{
                name: [None if math.isnan(value) else value for value in values[:, at].tolist()]
                for at, name in enumerate(_Values._fields)
            },
        )
