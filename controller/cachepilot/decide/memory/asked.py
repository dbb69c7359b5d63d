# SPDX-License-Identifier: Apache-2.0
"""Requests to the node while limits change: the next limits, and tenants whose policy stays."""

import math

from cachepilot.decide.memory.interval import MemoryInterval, MemoryTenant
from cachepilot.decide.memory.rollout import is_at, waits
from cachepilot.decide.memory.state import ROLLBACK_S, MemoryChange, MemoryState

BLIND_S = 5.0
"""A change that could not be judged for so many seconds does not keep policies in place."""


def is_going_back(state: MemoryState, time_s: float) -> bool:
    """Whether limits are being rolled back, and not just requested without effect."""
    return any(time_s - one.since_s <= ROLLBACK_S for one in state.restore.values())


def wanted(state: MemoryState, seen: MemoryInterval) -> dict[str, int]:
    """Limits to set now, by cgroup: the next step of each limit that has not arrived."""
    found = {}
    for name, origin in state.restore.items():
        one = seen.tenants.get(name)
        if one is not None and not is_at(one, origin.limit_bytes):
            found[name] = one.limit_bytes + _step(one, origin.limit_bytes, seen)
    change = state.change
    if change is not None and not waits(change, seen):
        found.update(_of_members(change, seen))
    return found


def _step(one: MemoryTenant, end_bytes: int, seen: MemoryInterval) -> int:
    most = max(seen.step_bytes, seen.free_bytes)
    return min(max(end_bytes - one.limit_bytes, -seen.step_bytes), most)


def _of_members(change: MemoryChange, seen: MemoryInterval) -> dict[str, int]:
    """The next limits of a change.

    Together, limits are asked to shrink by no more than others are to grow: memory that one tenant
    gives up before another can use it is wasted. The tenant that loses least per byte gives first.
    A tenant that did not give what it was asked for does not prevent others from being asked. If
    nothing grows, or an operator or a bound asks for the change, all limits shrink as fast as they
    may.
    """
    members = change.members.items()
    steps = {
        name: _step(seen.tenants[name], member.to_bytes, seen)
        for name, member in members
        if name in seen.tenants and not is_at(seen.tenants[name], member.to_bytes)
    }
    is_awaited = any(
        one.to_bytes > one.from_bytes for name, one in members if name not in seen.tenants
    )
    room: float = sum(one for one in steps.values() if one > 0)
    if seen.is_forced or not (room or is_awaited):
        room = math.inf
    lost = {
        name: _lost_per_byte(seen.tenants[name], change.members[name].to_bytes)
        for name, step in steps.items()
        if step < 0
    }
    for name in sorted(lost, key=lambda name: (lost[name], name)):
        member, limit = change.members[name], seen.tenants[name].limit_bytes
        if not member.is_behind(limit):
            steps[name] = -int(min(room, -steps[name]))
            room += steps[name]
        if steps[name]:
            member.asked_bytes = limit + steps[name]
    for name, member in members:
        if name not in lost:
            member.asked_bytes = None
    return {name: seen.tenants[name].limit_bytes + step for name, step in steps.items() if step}


def _lost_per_byte(one: MemoryTenant, end_bytes: int) -> float:
    """What a tenant loses on the way to a lower limit, per byte, by its calibrated curve."""
    lost = one.worth_at(one.limit_bytes) - one.worth_at(end_bytes)
    return lost / (one.limit_bytes - end_bytes)


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
