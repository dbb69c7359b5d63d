# SPDX-License-Identifier: Apache-2.0
"""How long a rollout waits before it gives something up.

Seconds, and no fewer intervals than what is waited for takes: a node tells something once in each.
"""

import math

from cachepilot.sense.counters import WINDOW

BEFORE_WINDOWS = 10
"""Windows before a move, of which throughputs are a mean, and in which SLOs are to be met."""
LOST_S = 30.0
LOST_INTERVALS = BEFORE_WINDOWS + WINDOW
"""The windows before a move can be measured in so many, though a node misses some of them."""
RETURN_S = 300.0


def lost_s(interval_s: float) -> float:
    """So long nothing may be measured, or a tenant take to appear, before a move is given up."""
    return max(LOST_S, LOST_INTERVALS * interval_s)


def lost_looks(interval_s: float) -> int:
    """So many snapshots in a row may lack a tenant before it counts as gone."""
    return math.ceil(lost_s(interval_s) / interval_s)


def return_s(interval_s: float) -> float:
    """So long it is tried to move a tenant back."""
    return max(RETURN_S, lost_s(interval_s))


def is_watched(gap_s: float, interval_s: float) -> bool:
    """Whether a rollout was watched between two steps, which are an interval apart."""
    return 0 <= gap_s < max(LOST_S, 2 * interval_s)
