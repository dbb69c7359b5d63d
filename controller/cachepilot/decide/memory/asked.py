# SPDX-License-Identifier: Apache-2.0
"""What the node is asked for while limits change: the next limits, and whose policy stays."""

from cachepilot.decide.memory.rollout import is_at, waits
from cachepilot.decide.memory.state import ROLLBACK_S, MemoryInterval, MemoryState

BLIND_S = 5.0
"""A change by which nothing was judged for so long is not judged now."""


def is_going_back(state: MemoryState, time_s: float) -> bool:
    """Whether limits are rolled back, and not only asked for in vain."""
    return any(time_s - one.since_s <= ROLLBACK_S for one in state.restore.values())


def wanted(state: MemoryState, seen: MemoryInterval) -> dict[str, int]:
    """Limits to set now, by cgroup: the next steps of those that are not where they are to be."""
    ends = {name: one.limit_bytes for name, one in state.restore.items()}
    change = state.change
    if change is not None and not waits(change, seen):
        ends.update((name, one.to_bytes) for name, one in change.members.items())
    found = {}
    for name, end in ends.items():
        one = seen.tenants.get(name)
        if one is None or is_at(one, end):
            continue
        least, most = seen.step_bytes, max(seen.step_bytes, seen.free_bytes)
        found[name] = min(max(end, one.limit_bytes - least), one.limit_bytes + most)
    return found


def under_way(state: MemoryState, time_s: float) -> frozenset[str]:
    """Whose limit is not confirmed, or is rolled back."""
    members = () if state.change is None else state.change.members
    return frozenset((*members, *(state.restore if is_going_back(state, time_s) else ())))


def keeping_policy(state: MemoryState, time_s: float) -> frozenset[str]:
    """Whose policy stays, as what is measured of a change must be of that change.

    Of a change by which nothing is judged no policy spoils anything.
    """
    found, change = under_way(state, time_s), state.change
    if change is None or change.idle_s <= BLIND_S:
        return found
    return found - change.members.keys()
