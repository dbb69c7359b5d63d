# SPDX-License-Identifier: Apache-2.0
"""The readings that are shown of a tenant: one source for its row, its SLOs and its time series.

An SLO is judged on each interval, so that the throughput and hit ratio shown beside it are of the
last interval too. The p99 latency needs more reads than an interval has: it is that of the last
WINDOW intervals.
"""

from typing import NamedTuple

from cachepilot.sense.collect import Seen


class ShownReadings(NamedTuple):
    """Readings of one tenant; None if a reading is not known, or nothing was done."""

    throughput_ops: float | None
    hit_ratio: float | None
    latency_p99_us: float | None


def shown_readings(seen: Seen) -> ShownReadings:
    """Return the readings of the last interval.

    An SLO is not judged on an interval in which nothing was done or accessed. The throughput is
    then that of the last WINDOW intervals, which falls to 0.
    """
    sample, window = seen.sample, seen.window
    p99_us = seen.tenant.indicators.latency_p99_us
    if sample is None:
        return ShownReadings(None if window is None else window.ops, None, p99_us)
    return ShownReadings(sample.ops, 1 - sample.miss_ratio, p99_us)


def operations(seen: Seen) -> float | None:
    """Return operations/s of the last interval; None if nothing was done, or it is not known.

    A tenant that accessed pages and completed no operation is slow, not idle: its 0 counts. Between
    two rises of a counter scraped from an application, None: a rise is spread over the whole time
    since the counter last rose.
    """
    pages = seen.pages
    if pages is None:
        return None
    return pages.ops if pages.ops or pages.accesses else None


def done_ops(seen: Seen) -> float | None:
    """Return operations/s of the last interval, 0 if nothing was done; None if it is not known.

    A rise of a scraped counter counts once. Between two rises a tenant counts as idle only if it
    accesses nothing and the operations of the last WINDOW intervals have fallen to 0.
    """
    if seen.sample is not None:
        return seen.sample.ops
    pages, window = seen.pages, seen.window
    if pages is None or window is None:
        return None
    if pages.ops is not None:
        return pages.ops
    return 0.0 if not pages.accesses and window.ops <= 0 else None


def measured(kind: str, seen: Seen) -> float | None:
    """Return the reading that an SLO of this kind is judged on; None if nothing was done."""
    if kind != "latency_p99_us" and seen.sample is None:
        return None
    found: float | None = getattr(shown_readings(seen), kind)
    return found
