# SPDX-License-Identifier: Apache-2.0
"""The time series of one tenant over a range of time: columns of one length, oldest first."""

from cachepilot.api.shapes.shape import Shape


class SeriesView(Shape):
    """A column per reading and an entry per point; null where it was not known.

    All is measured but `predicted_ops`. A gap, in which the node or the controller was
    disconnected, is one point with nothing but nulls.
    """

    node: str
    cgroup: str
    since_s: float
    until_s: float
    step_s: float
    """Each point is a mean over so many seconds."""
    time_s: list[float]
    """The node's time, seconds since 1970."""
    policy: list[str]
    limit_bytes: list[float | None]
    current_bytes: list[float | None]
    throughput_ops: list[float | None]
    predicted_ops: list[float | None]
    miss_ratio: list[float | None]
    latency_p99_us: list[float | None]
    refaults_per_s: list[float | None]
    evictions_per_s: list[float | None]
    memory_stall_share: list[float | None]
    io_stall_share: list[float | None]
    ahead_pages_per_s: list[float | None]
    ahead_used_per_s: list[float | None]
    ahead_wasted_per_s: list[float | None]
