# SPDX-License-Identifier: Apache-2.0
"""The guard's state as JSON, so that trials go on after a restart."""

import logging
from dataclasses import replace

from pydantic import TypeAdapter, ValidationError

from cachepilot.control.guard import GuardState
from cachepilot.control.policy_guard import TenantState
from cachepilot.planner.record import RecordError

LOG = logging.getLogger(__name__)

_ADAPTER = TypeAdapter(GuardState)


def is_active(state: GuardState) -> bool:
    """Whether anything is under way that each snapshot changes."""
    if state.memory.trial is not None or state.memory.restore:
        return True
    return any(one.trial is not None or one.restore for one in state.tenants.values())


def to_json(state: GuardState) -> str:
    """The state without tenants of which nothing is remembered."""
    told = {
        cgroup: one
        for cgroup, one in state.tenants.items()
        if one.held_first_bytes or one != TenantState(one.cgroup_id)
    }
    return _ADAPTER.dump_json(replace(state, tenants=told)).decode()


def from_json(text: str, name: str) -> GuardState:
    """Reads what `to_json` wrote; raises RecordError naming `name`."""
    try:
        return _ADAPTER.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        raise RecordError(f"{name}: not the state of a guard: {first['msg']}") from None


def stored(text: str | None, node: str) -> GuardState | None:
    """What the store has of a node; None where it has nothing, or what cannot be read."""
    if text is None:
        return None
    try:
        return from_json(text, f"store: node {node}")
    except RecordError as error:
        LOG.error("%s; the guard begins anew", error)
        return None
