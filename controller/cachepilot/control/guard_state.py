# SPDX-License-Identifier: Apache-2.0
"""The guard's state as JSON, so that trials go on after a restart."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from cachepilot.control.guard import GuardState
from cachepilot.control.tenant_state import TenantState
from cachepilot.domain.decisions import Decision
from cachepilot.domain.json_values import RecordError
from cachepilot.store.journal import NodeRow

LOG = logging.getLogger(__name__)
T = TypeVar("T")

_ADAPTER = TypeAdapter(GuardState)
_TENANT = TypeAdapter(TenantState | None)


def is_moving(state: GuardState) -> bool:
    """Whether memory is under way: each snapshot changes what must not be forgotten."""
    return state.memory.trial is not None or bool(state.memory.restore)


def is_active(state: GuardState) -> bool:
    """Whether a change is not confirmed, or is on its way back."""
    policies = (one.policy for one in state.tenants.values())
    return is_moving(state) or any(one.trial is not None or one.wanted for one in policies)


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
    return _read(_ADAPTER, text, f"{name}: not the state of a guard")


def _read(adapter: TypeAdapter[T], text: str, problem: str) -> T:
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise RecordError(f"{problem}: {error.errors()[0]['msg']}") from None


def stored(row: NodeRow) -> GuardState | None:
    """What the store has of a node; None where it has nothing, or what cannot be read."""
    if row.guard is None:
        return None
    try:
        name = f"store: node {row.name}"
        state = from_json(row.guard, name)
        for cgroup, text in row.guard_tenants.items():
            problem = f"{name}: {cgroup}: not the state of a tenant"
            _put(state, cgroup, _read(_TENANT, text, problem))
    except RecordError as error:
        LOG.error("%s; the guard begins anew", error)
        return None
    return state


def _put(state: GuardState, cgroup: str, one: TenantState | None) -> None:
    if one is None:
        state.tenants.pop(cgroup, None)
    else:
        state.tenants[cgroup] = one


class Stored:
    """What of the guard's state is in the store, so that a decision does not write all of it.

    At thousands of tenants the whole takes longer to write than many a plan to make.
    """

    def __init__(self) -> None:
        self._shape: tuple[object, ...] | None = None
        self._last_s = 0.0

    def is_due(self, state: GuardState) -> bool:
        """Whether the whole is to be stored, though nothing is decided."""
        return self._shape is None or self._shape != _shape(state)

    def forget(self) -> None:
        """What was to be stored may not have been."""
        self._shape = None

    def take(self, state: GuardState) -> None:
        """The whole of it was stored."""
        self._shape, self._last_s = _shape(state), state.clock.last_s or 0.0

    def texts(
        self, state: GuardState, decisions: Iterable[Decision]
    ) -> tuple[str | None, dict[str, str]]:
        """What is to be stored: the whole, or tenants that something was decided about."""
        # Times of the others would be of a clock that went back since.
        went_back = (state.clock.last_s or 0.0) < self._last_s
        if went_back or self._shape is None or self._shape != _shape(state):
            return to_json(state), {}
        named = {one.cgroup for one in decisions}
        tenants = {name: _TENANT.dump_json(state.tenants.get(name)).decode() for name in named}
        return None, tenants


def _shape(state: GuardState) -> tuple[object, ...]:
    """What a decision may change beside the tenant that it names."""
    memory, trial = state.memory, state.memory.trial
    moving = None
    if trial is not None:
        moving = (trial.started_s, trial.phase, trial.restarts, len(trial.members))
    left = () if trial is None else tuple(trial.left)
    return moving, left, tuple(memory.restore), tuple(state.away)
