# SPDX-License-Identifier: Apache-2.0
"""How long a rollout waits before it gives something up.

Waits are in seconds, with a minimum in intervals, since a node reports once per interval.
"""

import math

from cachepilot.sense.counters import WINDOW

BEFORE_WINDOWS = 10
"""Windows before a move that a mean throughput is made of, and in which SLOs must be met."""
LOST_S = 30.0
LOST_INTERVALS = BEFORE_WINDOWS + WINDOW
"""Intervals in which the windows before a move can be measured even if a node misses some."""
RETURN_S = 300.0


def lost_s(interval_s: float) -> float:
    """Return the seconds without a measurement, or without an arrival, until a move is given up."""
    return max(LOST_S, LOST_INTERVALS * interval_s)


def lost_looks(interval_s: float) -> int:
    """Return how many snapshots in a row may lack a tenant before it counts as gone."""
    return math.ceil(lost_s(interval_s) / interval_s)


def return_s(interval_s: float) -> float:
    """Return for how many seconds a rollback is tried."""
    return max(RETURN_S, lost_s(interval_s))


def is_watched(gap_s: float, interval_s: float) -> bool:
    """Whether a rollout was watched between two steps, which are normally one interval apart."""
    return 0 <= gap_s < max(LOST_S, 2 * interval_s)
