# SPDX-License-Identifier: Apache-2.0
"""The time series of one tenant over any range of time, from the store and from memory.

It has the finest step that is kept for the whole range and has no more points than requested. If
every step has more points, neighbours are averaged.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cachepilot.domain.past.series import EVERY_INTERVAL, KEPT_S, SeriesChunk
from cachepilot.node.series.node_series import COLUMNS, NodeSeries
from cachepilot.node.series.packing import unpacked
from cachepilot.node.series.rings import GAP_S
from cachepilot.store.store import Store

Values = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Series:
    """Times, policies and columns of equal length, the oldest first; None for what is not known.

    A gap is one point whose values are all None. Each point is a mean over `step_s` seconds.
    """

    node: str
    cgroup: str
    since_s: float
    until_s: float
    step_s: float
    time_s: list[float]
    policy: list[str]
    columns: dict[str, list[float | None]]


@dataclass(frozen=True)
class Range:
    """A requested range: times in seconds since 1970, and the number of points at most."""

    since_s: float
    until_s: float
    points: int


def step_of(asked: Range, now_s: float, interval_s: float) -> int:
    """Return the finest step that covers the range in no more points; else the coarsest."""
    for step, kept_s in KEPT_S.items():
        is_kept = now_s - asked.since_s <= kept_s
        fits = (asked.until_s - asked.since_s) / (step or interval_s) <= asked.points
        if is_kept and fits:
            return step
    return list(KEPT_S)[-1]


def read_series(
    store: Store, recent: NodeSeries, node: str, cgroup: str, asked: Range, interval_s: float,
    now_s: float,
) -> Series:  # fmt: skip
    """Return the series of a tenant, whether it exists now or existed before.

    If nothing is known at the step that fits, as for a tenant that has just appeared, the series
    has another step.
    """
    fits = step_of(asked, now_s, interval_s)
    steps = (fits, *(one for one in KEPT_S if one > fits), *(one for one in KEPT_S if one < fits))
    for step in steps:
        chunks = store.series(node, cgroup, step, asked.since_s, asked.until_s)
        tail = recent.tail(cgroup, step)
        times, policies, values = _joined([*chunks, *([] if tail is None else [tail])], asked)
        if times:
            break
    else:
        step = fits
    seconds = interval_s if step == EVERY_INTERVAL else float(step)
    per = max(1, math.ceil(len(times) / asked.points))
    if per > 1:
        times, policies, values = _averaged(times, policies, values, per)
    times, policies, values = _with_gaps(times, policies, values, seconds * per)
    columns = {
        name: [None if math.isnan(one) else one for one in values[:, at].tolist()]
        for at, name in enumerate(COLUMNS)
    }
    return Series(
        node, cgroup, asked.since_s, asked.until_s, seconds * per, times, policies, columns
    )


def _joined(chunks: list[SeriesChunk], asked: Range) -> tuple[list[float], list[str], Values]:
    """Points of chunks in the range, by rising time. Of equal times the later chunk counts."""
    found: dict[int, tuple[float, str, Values]] = {}
    for chunk in chunks:
        points = unpacked(chunk, len(COLUMNS))
        for time_s, policy, row in [] if points is None else zip(*points, strict=True):
            if asked.since_s <= time_s <= asked.until_s:
                # Times are stored to a hundredth of a second or better, so that points differ by a
                # tenth or more.
                found[round(time_s * 10)] = time_s, policy, row
    ordered = [found[key] for key in sorted(found)]
    values = np.array([row for _, _, row in ordered], np.float32).reshape(-1, len(COLUMNS))
    return [one for one, _, _ in ordered], [one for _, one, _ in ordered], values


def _averaged(
    times: list[float], policies: list[str], values: Values, per: int
) -> tuple[list[float], list[str], Values]:
    """Means of `per` neighbours each, at the time and under the policy of the last of them."""
    starts = range(0, len(times), per)
    means = np.full((len(starts), values.shape[1]), np.nan, np.float32)
    for at, start in enumerate(starts):
        some = values[start : start + per]
        known = ~np.isnan(some)
        counts = known.sum(axis=0)
        sums = np.where(known, some, 0).sum(axis=0, dtype=np.float64)
        means[at] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    ends = [min(start + per, len(times)) - 1 for start in starts]
    return [times[end] for end in ends], [policies[end] for end in ends], means


def _with_gaps(
    times: list[float], policies: list[str], values: Values, step_s: float
) -> tuple[list[float], list[str], Values]:
    """Add a point without values in each long gap, so that a chart does not join its sides."""
    is_known = [not math.isnan(one) for one in np.fmax.reduce(values, axis=1, initial=np.nan)]
    gaps = list(_gaps(times, is_known, max(3 * step_s, GAP_S)))
    if not gaps:
        return times, policies, values
    middles = [(times[at - 1] + times[at]) / 2 for at in gaps]
    unknown = np.full(values.shape[1], np.nan, np.float32)
    for at, middle in zip(reversed(gaps), reversed(middles), strict=True):
        times.insert(at, middle)
        policies.insert(at, policies[at - 1])
    return times, policies, np.insert(values, gaps, unknown, axis=0)


def _gaps(times: list[float], is_known: list[bool], most_s: float) -> Iterator[int]:
    """Where to add such a point; not where the ring already kept one for the outage."""
    for at in range(1, len(times)):
        if times[at] - times[at - 1] > most_s and is_known[at - 1] and is_known[at]:
            yield at
