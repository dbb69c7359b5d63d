# SPDX-License-Identifier: Apache-2.0
"""What is asked for of the time series of a tenant, and what is told beside it."""

from dataclasses import dataclass
from enum import StrEnum


class Span(StrEnum):
    """`recent`: the last 300 intervals. `day`: the last day, in means of a minute to five."""

    RECENT = "recent"
    DAY = "day"


@dataclass(frozen=True)
class Latency:
    """Read calls of the last minute by their duration; a bucket ends where the next begins."""

    elapsed_s: float
    lower_bounds_us: list[float]
    counts: list[int]
