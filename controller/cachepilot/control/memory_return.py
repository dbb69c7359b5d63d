# SPDX-License-Identifier: Apache-2.0
"""Memory on its way back to where a trial began, for all who took part in it."""

from collections.abc import Mapping

from cachepilot.control.memory_member import MemoryLook
from cachepilot.control.memory_trial import Origin
from cachepilot.control.policy_guard import TenantState
from cachepilot.sizes import PAGE_BYTES

RETURN_INTERVALS = 64
"""Cycles after which what could not be given back is left as it is."""


def _is_done(cgroup: str, origin: Origin, look: MemoryLook) -> bool:
    """Whether a tenant is where it began, is another one by now, or has an operator's limit."""
    seen = look.collected.seen.get(cgroup)
    if seen is None:
        return False
    here = abs(seen.limit_bytes - origin.limit_bytes) < PAGE_BYTES
    return here or seen.wire.cgroup_id != origin.cgroup_id or cgroup in look.ordered_limits


def returning(
    origins: dict[str, Origin], look: MemoryLook, states: Mapping[str, TenantState]
) -> dict[str, int]:
    """The next steps back, by cgroup; drops those from `origins` that need none any more.

    A tenant that is away, or whose policy is on trial, goes back when it can: a trial is not
    disturbed by another limit.
    """
    wanted: dict[str, int] = {}
    for cgroup, origin in list(origins.items()):
        if _is_done(cgroup, origin, look):
            del origins[cgroup]
            continue
        seen, state = look.collected.seen.get(cgroup), states.get(cgroup)
        if seen is None or (state is not None and state.trial is not None):
            continue
        low, high = seen.limit_bytes - look.step_bytes, seen.limit_bytes + look.step_bytes
        least = min(seen.tenant.floor_bytes, seen.limit_bytes)
        wanted[cgroup] = max(least, min(max(origin.limit_bytes, low), high))
    return wanted
