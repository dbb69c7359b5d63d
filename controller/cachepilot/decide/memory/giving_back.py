# SPDX-License-Identifier: Apache-2.0
"""Memory goes back to tenants that turn out to need it, at once and as far as it is free.

What is free is in nobody's limit: to give it costs no throughput, so that no evidence is waited
for. How much of it a tenant needs is not known when its workload has just changed: it gets all that
it had, and what it does not need is taken again by evidence.
"""

from collections.abc import Collection, Mapping

from cachepilot.decide.memory.rollout import is_gone
from cachepilot.decide.memory.state import Lacked, MemoryInterval, MemoryState
from cachepilot.sizes import pages_down, pages_up

WAIT_S, WAIT_MAX_S = 60.0, 3600.0
"""For so long no less is tried than what was too little: at first, and at most."""
MARGIN = 0.05
"""Of a limit that was enough for some time, and then was not: so much more is."""


def follow(state: MemoryState, seen: MemoryInterval) -> None:
    """Notes with which limits tenants lack nothing, and forgets what is long ago."""
    for name, lacked in list(state.lacked.items()):
        if is_gone(seen, name, lacked) or seen.time_s > lacked.until_s + lacked.wait_s:
            del state.lacked[name]
    fine = {name: one.limit_bytes for name, one in seen.tenants.items() if not one.needs}
    kept = state.fine.items()
    state.fine = {name: one for name, one in kept if name in seen.tenants or name in seen.away}
    state.fine |= fine


def note_lacking(state: MemoryState, seen: MemoryInterval) -> None:
    """Of tenants that get memory back: with how much they lacked nothing."""
    for name, one in seen.tenants.items():
        if not one.grows:
            continue
        known = state.lacked.get(name)
        wait_s = WAIT_S if known is None else known.wait_s
        if known is not None and seen.time_s >= known.until_s:
            # Less was tried since, and was too little again.
            wait_s = min(2 * known.wait_s, WAIT_MAX_S)
        enough = max(state.fine.get(name, 0), pages_up(int((1 + MARGIN) * one.limit_bytes)))
        least = min(enough, one.planned_bytes)
        state.lacked[name] = Lacked(one.cgroup_id, least, wait_s, seen.time_s + wait_s)


def least_bytes(state: MemoryState, time_s: float) -> Mapping[str, int]:
    """Limits below which nothing is planned now, by tenant."""
    return {name: one.least_bytes for name, one in state.lacked.items() if time_s < one.until_s}


def given_back(seen: MemoryInterval, stuck: Collection[str]) -> MemoryInterval | None:
    """The interval with a plan that gives back first memories; None where that gives nothing.

    Where not all of it is free, each tenant gets the same part of what it lacks.
    """
    lacking = {
        name: one.first_bytes - one.limit_bytes
        for name, one in seen.tenants.items()
        if one.needs
        # Its misses are those of a page cache that fills: more memory spares none of them.
        and not one.is_filling
        and name not in stuck
        and one.first_bytes - one.limit_bytes >= one.step_bytes
    }
    if not lacking:
        return None
    part = min(1.0, max(0, seen.free_bytes) / sum(lacking.values()))
    given = {name: pages_down(int(part * lack)) for name, lack in lacking.items()}
    # Less than a step would move nobody, and keep the plan from serving who lacks.
    if not any(more >= seen.tenants[name].step_bytes for name, more in given.items()):
        return None
    tenants = seen.tenants.items()
    return seen.planned_at({name: one.limit_bytes + given.get(name, 0) for name, one in tenants})
