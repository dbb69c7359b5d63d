# SPDX-License-Identifier: Apache-2.0
"""The time series of one tenant over a range of time: columns of equal length, oldest first."""

from cachepilot.api.shapes.shape import Shape


class LatencyView(Shape):
    """Read calls of the last minute by their duration; a bucket ends where the next begins."""

    elapsed_s: float
    lower_bounds_us: list[float]
    counts: list[int]


class SeriesView(Shape):
    """A column per reading and an entry per point of one tenant; null where it was not known.

    All is measured but `predicted_ops`: what the model gives for the policy and the limit that
    held. Stalls are shares of time in which some task of the cgroup waited (PSI). Pages that the
    tenant's own readahead policy had read ahead, and of them those accessed since or evicted
    without an access, are known only while there is such a policy. A gap, in which the node or
    the controller was disconnected, is one point with nothing but nulls.
    """

    node: str
    cgroup: str
    time_s: list[float]
    """By the node's clock, in seconds since 1970."""
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
    since_s: float
    until_s: float
    step_s: float
    """Each point is a mean over this many seconds."""
    latency: LatencyView | None
    """For the last minute, whatever the range; null before anything was counted."""
