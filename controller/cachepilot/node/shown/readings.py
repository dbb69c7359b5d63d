# SPDX-License-Identifier: Apache-2.0
"""What is shown as measured of a tenant: one source for its row, its SLOs and its time series.

An SLO is judged on each interval, so the throughput and the hit ratio that stand beside it are of
the last interval too. The p99 needs more reads than those of an interval: it is that of WINDOW.
"""

from typing import NamedTuple

from cachepilot.sense.collect import Seen


class ShownReadings(NamedTuple):
    """Readings of one tenant; None for what is not known, or was not done."""

    throughput_ops: float | None
    hit_ratio: float | None
    latency_p99_us: float | None


def shown_readings(seen: Seen) -> ShownReadings:
    """The readings of the last interval.

    Of an interval in which nothing was done, or nothing accessed, an SLO is not judged; the
    throughput is then that of the window, which falls to 0.
    """
    sample, window = seen.sample, seen.window
    p99_us = seen.tenant.indicators.latency_p99_us
    if sample is None:
        return ShownReadings(None if window is None else window.ops, None, p99_us)
    return ShownReadings(sample.ops, 1 - sample.miss_ratio, p99_us)


def operations(seen: Seen) -> float | None:
    """Operations/s of the last interval, of which one without any counts if pages were accessed.

    A tenant whose operations take longer than an interval is slow, not idle. None where nothing
    was done, or it is not known, as between two rises of the counter of an application: what it
    rises by is that of the whole time between them.
    """
    pages = seen.pages
    if pages is None:
        return None
    return pages.ops if pages.ops or pages.accesses else None


def measured(kind: str, seen: Seen) -> float | None:
    """What an SLO of this kind is judged on; None when nothing was done in the last interval."""
    if kind != "latency_p99_us" and seen.sample is None:
        return None
    found: float | None = getattr(shown_readings(seen), kind)
    return found
