# SPDX-License-Identifier: Apache-2.0
"""Time series as they are stored: a chunk of points of one tenant, at one of three steps."""

from dataclasses import dataclass

EVERY_INTERVAL, TENS, MINUTES = 0, 10, 60
"""Steps in seconds; the first step has every control interval."""
KEPT_S = {EVERY_INTERVAL: 900.0, TENS: 6 * 3600.0, MINUTES: 7 * 86_400.0}
"""How long the points of a step are kept, in seconds, finest step first."""
CHUNK_POINTS = 30
POINTS_MAX = 2000
"""The most points in one answer."""


@dataclass(frozen=True)
class Latency:
    """Read calls of the last minute by duration; a bucket ends where the next one begins."""

    elapsed_s: float
    lower_bounds_us: list[float]
    counts: list[int]


@dataclass(frozen=True)
class SeriesChunk:
    """Up to CHUNK_POINTS points of the node's time [begun_s, ended_s]; `data` is compressed."""

    cgroup: str
    step_s: int
    begun_s: float
    ended_s: float
    points: int
    data: bytes
