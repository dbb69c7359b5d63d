# SPDX-License-Identifier: Apache-2.0
"""Memory on its way back to where a trial began, for all who took part in it.

It is asked for until it is there.
"""

import logging
from collections.abc import Mapping

from cachepilot.control.memory_member import MemoryLook
from cachepilot.control.memory_state import MemoryState
from cachepilot.control.memory_trial import Origin
from cachepilot.control.tenant_state import TenantState
from cachepilot.decide.state import is_settling
from cachepilot.domain.decisions import Decision, Event, Setting
from cachepilot.sizes import PAGE_BYTES, human_bytes

LOG = logging.getLogger(__name__)
RETURN_INTERVALS = 64
"""Cycles after which a way back that is not at its end is told, and holds up no SLO any more."""
ABSENT_MAX = 256
"""Tenants that are gone whose limit is remembered; the one that is gone for longest is dropped."""


def _is_done(cgroup: str, origin: Origin, look: MemoryLook) -> bool:
    """Whether a tenant is where it began, is another one by now, or has an operator's limit."""
    seen = look.collected.seen.get(cgroup)
    if seen is None:
        return False
    here = abs(seen.limit_bytes - origin.limit_bytes) < PAGE_BYTES
    return here or seen.wire.cgroup_id != origin.cgroup_id or cgroup in look.ordered_limits


def _follow_absent(state: MemoryState, look: MemoryLook) -> None:
    """Puts off the way back of who is gone until it is seen again."""
    for cgroup in list(state.restore):
        if cgroup not in look.collected.seen and cgroup not in look.away:
            state.absent[cgroup] = state.restore.pop(cgroup)
    for cgroup in state.absent.keys() & look.collected.seen.keys():
        origin = state.absent.pop(cgroup)
        if look.collected.seen[cgroup].wire.cgroup_id == origin.cgroup_id:
            state.restore.setdefault(cgroup, origin)
    while len(state.absent) > ABSENT_MAX:
        cgroup = next(iter(state.absent))
        origin = state.absent.pop(cgroup)
        node, size = look.collected.snapshot.node.name, human_bytes(origin.limit_bytes)
        LOG.warning(
            "node %s: %s: gone, and its limit of %s is forgotten: more than %d are gone",
            node, cgroup, size, ABSENT_MAX,
        )  # fmt: skip


def _returning(
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
        if seen is None or (state is not None and is_settling(state.policy, look.time_s)):
            continue
        low, high = seen.limit_bytes - look.step_bytes, seen.limit_bytes + look.step_bytes
        least = min(seen.tenant.floor_bytes, seen.limit_bytes)
        wanted[cgroup] = max(least, min(max(origin.limit_bytes, low), high))
    return wanted


def _told(state: MemoryState, look: MemoryLook) -> list[Decision]:
    """Whose limits are not back yet."""
    found = []
    for cgroup, origin in state.restore.items():
        seen = look.collected.seen.get(cgroup)
        if seen is None:
            continue
        here, policy = seen.limit_bytes, seen.tenant.policy
        why = (
            f"its limit is {human_bytes(here)} after {RETURN_INTERVALS} intervals on the way back"
            f" to {human_bytes(origin.limit_bytes)}: asked for again until it is there"
        )
        before, after = Setting(policy, here), Setting(policy, origin.limit_bytes)
        found.append(Decision(look.time_s, cgroup, Event.ABANDONED, before, after, why))
    return found


def go_back(
    state: MemoryState, look: MemoryLook, states: Mapping[str, TenantState]
) -> tuple[dict[str, int], list[Decision]]:
    """Limits to set on the way back, by cgroup, and once, when it takes long, that it does."""
    _follow_absent(state, look)
    if not state.restore:
        state.restore_cycles = 0
        return {}, []
    wanted = _returning(state.restore, look, states)
    # What is put off, for a policy that is settling or a tenant that is away, is not tried.
    if not wanted or len(wanted) < len(state.restore.keys() & look.collected.seen.keys()):
        return wanted, []
    state.restore_cycles += 1
    is_late = state.restore_cycles == RETURN_INTERVALS + 1
    return wanted, _told(state, look) if is_late else []


def holds_up(state: MemoryState, look: MemoryLook) -> bool:
    """Whether other memory waits for what is on its way back."""
    is_here = any(cgroup in look.collected.seen for cgroup in state.restore)
    return is_here and state.restore_cycles <= RETURN_INTERVALS
