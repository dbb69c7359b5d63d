# SPDX-License-Identifier: Apache-2.0
"""Giving memory back to tenants that turn out to need it, at once, from free memory.

Free memory is in no tenant's limit, so giving it costs no throughput and needs no evidence. It is
unknown how much a tenant needs just after its workload changed. It gets back all of its first
memory, the limit it had when it was first seen. What it does not need is taken again by evidence.
"""

from collections.abc import Collection, Mapping

from cachepilot.decide.memory.interval import MemoryInterval
from cachepilot.decide.memory.rollout import is_gone
from cachepilot.decide.memory.state import MemoryState
from cachepilot.decide.memory.waits import wait_of
from cachepilot.sizes import pages_down, pages_up

MARGIN = 0.05
"""Share to add to a limit that proved too small, so that it counts as enough."""


def follow(state: MemoryState, seen: MemoryInterval) -> None:
    """Note the limits with which tenants have enough, and forget old records."""
    for name, lacked in list(state.lacked.items()):
        if is_gone(seen, name, lacked) or lacked.is_forgotten(seen.time_s):
            del state.lacked[name]
    fine = {name: one.limit_bytes for name, one in seen.tenants.items() if not one.needs}
    kept = state.fine.items()
    state.fine = {name: one for name, one in kept if name in seen.tenants or name in seen.away}
    state.fine |= fine


def note_lacking(state: MemoryState, seen: MemoryInterval) -> None:
    """Record, for each tenant that gets memory back, the limit with which it had enough."""
    for name, one in seen.tenants.items():
        if not one.grows:
            continue
        known = state.lacked.get(name)
        # If the time is over, less was tried again, and was again too little.
        is_again = known is not None and seen.time_s >= known.until_s
        enough = max(state.fine.get(name, 0), pages_up(int((1 + MARGIN) * one.limit_bytes)))
        least = min(enough, one.planned_bytes)
        state.lacked[name] = wait_of(known, one.cgroup_id, least, seen.time_s, is_again)


def least_bytes(state: MemoryState, time_s: float) -> Mapping[str, int]:
    """Limits by tenant below which nothing is planned at present."""
    return {name: one.limit_bytes for name, one in state.lacked.items() if time_s < one.until_s}


def given_back(seen: MemoryInterval, stuck: Collection[str]) -> MemoryInterval | None:
    """The interval with a plan that gives back first memories; None if that gives nothing.

    If not all of that memory is free, each tenant gets the same share of what it lacks. Tenants
    whose limits are `stuck` get nothing.
    """
    lacking = {
        name: one.first_bytes - one.limit_bytes
        for name, one in seen.tenants.items()
        if one.needs
        # While a page cache fills, its misses are first accesses, which no memory avoids.
        and not one.is_filling
        and name not in stuck
        and one.first_bytes - one.limit_bytes >= one.step_bytes
    }
    if not lacking:
        return None
    part = min(1.0, max(0, seen.free_bytes) / sum(lacking.values()))
    given = {name: pages_down(int(part * lack)) for name, lack in lacking.items()}
    # Less than a step moves no limit, and would keep the plan from serving these tenants.
    if not any(more >= seen.tenants[name].step_bytes for name, more in given.items()):
        return None
    tenants = seen.tenants.items()
    return seen.planned_at({name: one.limit_bytes + given.get(name, 0) for name, one in tenants})
