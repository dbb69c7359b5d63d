# SPDX-License-Identifier: Apache-2.0
"""Times of repeated runs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Milliseconds of every run, by the wall clock and by processor time."""

    wall_ms: list[float]
    cpu_ms: list[float]
