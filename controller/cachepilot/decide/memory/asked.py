# SPDX-License-Identifier: Apache-2.0
"""Requests to the node while limits change: the next limits, and tenants whose policy stays."""

from cachepilot.decide.memory.rollout import is_at, waits
from cachepilot.decide.memory.state import ROLLBACK_S, MemoryInterval, MemoryState

BLIND_S = 5.0
"""A change that could not be judged for so many seconds does not keep policies in place."""


def is_going_back(state: MemoryState, time_s: float) -> bool:
    """Whether limits are being rolled back, and not just requested without effect."""
    return any(time_s - one.since_s <= ROLLBACK_S for one in state.restore.values())


def wanted(state: MemoryState, seen: MemoryInterval) -> dict[str, int]:
    """Limits to set now, by cgroup: the next step of each limit that has not arrived."""
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
    """Tenants whose limit is not confirmed, or is being rolled back."""
    members = () if state.change is None else state.change.members
    return frozenset((*members, *(state.restore if is_going_back(state, time_s) else ())))


def keeping_policy(state: MemoryState, time_s: float) -> frozenset[str]:
    """Tenants whose policy stays, so that the effect of a change of limits can be measured.

    While a change cannot be judged, the policies of its members may change.
    """
    found, change = under_way(state, time_s), state.change
    if change is None or change.idle_s <= BLIND_S:
        return found
    return found - change.members.keys()
