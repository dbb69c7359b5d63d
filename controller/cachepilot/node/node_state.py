# SPDX-License-Identifier: Apache-2.0
"""What the decider of a node remembers, as JSON, so that changes go on after a restart."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from cachepilot.decide.memory_rollout import under_way
from cachepilot.domain.decisions import Decision
from cachepilot.domain.json_values import RecordError
from cachepilot.node.deciding.decider import NodeState
from cachepilot.node.deciding.tenant_state import TenantState
from cachepilot.store.journal import NodeRow

LOG = logging.getLogger(__name__)
T = TypeVar("T")

_ADAPTER = TypeAdapter(NodeState)
_TENANT = TypeAdapter(TenantState | None)


def is_moving(state: NodeState) -> bool:
    """Whether memory is under way: each snapshot changes what must not be forgotten."""
    return bool(under_way(state.memory, state.clock.last_s or 0.0))


def to_json(state: NodeState) -> str:
    """The state without tenants of which nothing is remembered."""
    told = {
        cgroup: one
        for cgroup, one in state.tenants.items()
        if one.held_first_bytes or one != TenantState(one.cgroup_id)
    }
    return _ADAPTER.dump_json(replace(state, tenants=told)).decode()


def from_json(text: str, name: str) -> NodeState:
    """Reads what `to_json` wrote; raises RecordError naming `name`."""
    return _read(_ADAPTER, text, f"{name}: not the state of a node")


def _read(adapter: TypeAdapter[T], text: str, problem: str) -> T:
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise RecordError(f"{problem}: {error.errors()[0]['msg']}") from None


def stored(row: NodeRow) -> NodeState | None:
    """What the store has of a node; None where it has nothing, or what cannot be read."""
    if row.state is None:
        return None
    try:
        name = f"store: node {row.name}"
        state = from_json(row.state, name)
        for cgroup, text in row.tenant_states.items():
            problem = f"{name}: {cgroup}: not the state of a tenant"
            _put(state, cgroup, _read(_TENANT, text, problem))
    except RecordError as error:
        LOG.error("%s; the decider begins anew", error)
        return None
    return state


def _put(state: NodeState, cgroup: str, one: TenantState | None) -> None:
    if one is None:
        state.tenants.pop(cgroup, None)
    else:
        state.tenants[cgroup] = one


class Stored:
    """What of the state of a node is in the store, so that a decision does not write all of it.

    At thousands of tenants the whole takes longer to write than many a plan to make.
    """

    def __init__(self) -> None:
        self._shape: tuple[object, ...] | None = None
        self._last_s = 0.0

    def is_due(self, state: NodeState) -> bool:
        """Whether the whole is to be stored, though nothing is decided."""
        return self._shape is None or self._shape != _shape(state)

    def forget(self) -> None:
        """What was to be stored may not have been."""
        self._shape = None

    def take(self, state: NodeState) -> None:
        """The whole of it was stored."""
        self._shape, self._last_s = _shape(state), state.clock.last_s or 0.0

    def texts(
        self, state: NodeState, decisions: Iterable[Decision]
    ) -> tuple[str | None, dict[str, str]]:
        """What is to be stored: the whole, or tenants that something was decided about."""
        # Times of the others would be of a clock that went back since.
        went_back = (state.clock.last_s or 0.0) < self._last_s
        if went_back or self._shape is None or self._shape != _shape(state):
            return to_json(state), {}
        named = {one.cgroup for one in decisions}
        tenants = {name: _TENANT.dump_json(state.tenants.get(name)).decode() for name in named}
        return None, tenants


def _shape(state: NodeState) -> tuple[object, ...]:
    """What a decision may change beside the tenant that it names."""
    memory, change = state.memory, state.memory.change
    moving = None
    if change is not None:
        moving = (change.started_s, change.settled_s, change.forced, tuple(change.members))
    return moving, tuple(memory.restore), tuple(state.away)
