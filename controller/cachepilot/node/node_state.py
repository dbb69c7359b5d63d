# SPDX-License-Identifier: Apache-2.0
"""What the decider of a node remembers, as JSON, so that changes go on after a restart."""

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError
from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from cachepilot.decide.memory.asked import under_way
from cachepilot.decide.memory.state import MemoryState
from cachepilot.decide.state import PolicyState
from cachepilot.domain.decisions import Decision
from cachepilot.domain.json_values import RecordError
from cachepilot.model.calibration import ACCESSES, RATE
from cachepilot.model.climb import BESIDE, Climb
from cachepilot.node.deciding.decider import NodeState
from cachepilot.node.deciding.tenant_state import TenantState
from cachepilot.sense.clock import Clock
from cachepilot.store.journal import NodeRow
from cachepilot.store.store import Store
from cachepilot.v1 import session_pb2 as wire

LOG = logging.getLogger(__name__)
Path = tuple[str, ...]

LEARNT = ("policies", "totals", "climb", "calibration")
TOGETHER = LEARNT, ("trial", "wanted")
"""Of the policies of a tenant: what is of no use where one of them is lost."""
NAMED = 8
"""So many parts that cannot be read are named, the others counted."""

RENAMED = {
    "change": {"promised": "expected"},
    "trial": {"promised": "expected", "course": "series"},
}
"""By part of the state: keys that had another name once, and the one that they have now."""

UNDER_WAY = "under way"
"""In place of a tenant's name, which begins with a slash: what each snapshot changes while memory
is under way, and must not be forgotten."""

_ADAPTER = TypeAdapter(NodeState)
_MOVES: TypeAdapter[dict[str, MemoryState | Clock]] = TypeAdapter(dict[str, MemoryState | Clock])
_TENANT = TypeAdapter(TenantState | None)


def is_moving(state: NodeState) -> bool:
    """Whether memory is under way."""
    return bool(under_way(state.memory, state.clock.last_s or 0.0))


def to_json(state: NodeState) -> str:
    """The state without tenants of which nothing is remembered."""
    told = {
        cgroup: one
        for cgroup, one in state.tenants.items()
        if one.held_first_bytes or one != TenantState(one.cgroup_id)
    }
    return _ADAPTER.dump_json(replace(state, tenants=told)).decode()


def from_json(text: str, name: str, newer: Mapping[str, str] | None = None) -> NodeState:
    """Reads what `to_json` wrote, and `newer` states of tenants; logs what of it cannot be read.

    Raises RecordError naming `name` where that is all of it.
    """
    whole, newer = _parsed(text), dict(newer or {})
    moves = _parsed(newer.pop(UNDER_WAY, "{}"))
    if isinstance(whole, dict) and isinstance(moves, dict):
        whole |= moves
    if isinstance(whole, dict) and isinstance(whole.get("tenants"), dict):
        tenants = whole["tenants"] | {cgroup: _parsed(one) for cgroup, one in newer.items()}
        whole["tenants"] = {cgroup: one for cgroup, one in tenants.items() if one is not None}
    _rename(whole)
    state, dropped = _read(whole, name)
    known: dict[Path, TenantState] = {
        **{("tenants", cgroup): one for cgroup, one in state.tenants.items()},
        **{("away", cgroup, "state"): one.state for cgroup, one in state.away.items()},
    }
    if any(path[-1] not in LEARNT for path in dropped):
        _disown(known, state.memory)
    for path, one in known.items():
        if not _fits(one.policy):
            one.policy.policies = []
            dropped.append((*path, "policy", "policies"))
        else:
            _follow_version(one.policy)
    if dropped:
        told = ", ".join(sorted(".".join(path) for path in dropped)[:NAMED])
        LOG.error("%s: %d parts cannot be read and start again: %s", name, len(dropped), told)
    return state


def _parsed(text: str) -> Any:
    """What JSON says, or the text, which can be read as nothing."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _rename(whole: Any) -> None:
    """Gives keys their present names where a store of an earlier version has others."""
    if not isinstance(whole, dict):
        return
    for key, one in whole.items():
        for old, new in RENAMED.get(key, {}).items():
            if isinstance(one, dict) and old in one:
                one[new] = one.pop(old)
        _rename(one)


def _read(whole: Any, name: str) -> tuple[NodeState, list[Path]]:
    """The state without what cannot be read, and the least parts that were dropped for that."""
    dropped: list[Path] = []
    while True:
        try:
            return _ADAPTER.validate_python(whole), dropped
        except ValidationError as error:
            causes = {_cause(whole, one) for one in error.errors(include_url=False)}
            if () in causes:
                problem = error.errors()[0]["msg"]
                raise RecordError(f"{name}: not the state of a node: {problem}") from None
        for path in causes:
            holder = whole
            for key in path[:-1]:
                holder = holder.get(key, {})
            for key in next((names for names in TOGETHER if path[-1] in names), path[-1:]):
                holder.pop(key, None)
        dropped += causes


def _cause(whole: Any, error: ErrorDetails) -> Path:
    """The least part that has to go: what is not as it should be, or lacks what it must have."""
    path: list[str] = []
    for key in error["loc"][:-1] if error["type"] == "missing" else error["loc"]:
        if not isinstance(whole, dict) or key not in whole or (path and path[-1] in LEARNT):
            break
        whole = whole[key]
        path.append(str(key))
    return tuple(path)


def _disown(known: Mapping[Path, TenantState], memory: MemoryState) -> None:
    """Of a change that nothing is known of any more the node undoes what is not confirmed."""
    change = memory.change
    moving = {*memory.restore, *(() if change is None else change.members)}
    for (_, cgroup, *_), one in known.items():
        if cgroup not in moving and one.policy.trial is None and not one.policy.wanted:
            one.changes = []


def _fits(policy: PolicyState) -> bool:
    """Whether tables have the shapes that belong together; without policies they are recreated."""
    count, groups = len(policy.policies), policy.groups
    tables = policy.totals, policy.climb, policy.calibration
    totals, climb, calibration = (one.values.shape for one in tables)
    fits = totals == (count, groups) and climb[0] == count
    return not count or (fits and calibration in ((RATE + 1, count), (RATE, count)))


def _follow_version(policy: PolicyState) -> None:
    """Sums of an earlier version, with other columns beside those of groups, start again.

    Of what it measured of policies the accesses are not known.
    """
    known = policy.calibration
    if policy.policies and len(known.values) == RATE:
        known.values = np.insert(known.values, ACCESSES, 0.0, axis=0)
    if policy.policies and policy.climb.values.shape[1] != policy.groups + BESIDE:
        policy.climb = Climb()
        policy.climb.restart(len(policy.policies), policy.groups)


def stored(row: NodeRow) -> NodeState | None:
    """What the store has of a node; None where it has nothing, or what cannot be read at all."""
    if row.state is None:
        return None
    try:
        return from_json(row.state, f"store: node {row.name}", row.tenant_states)
    except RecordError as error:
        LOG.error("%s; the decider starts again", error)
        return None


def restored(row: NodeRow, store: Store) -> NodeState | None:
    """As `stored`; what cannot be read at all is kept aside."""
    found = stored(row)
    if found is None and row.state is not None:
        store.set_aside("node", row.state.encode(), f"node {row.name}: not the state of a node")
    return found


def restored_hello(row: NodeRow, store: Store) -> wire.Hello:
    """The last hello of a node; with nothing but its name where it cannot be read."""
    if row.hello:
        try:
            return wire.Hello.FromString(row.hello)
        except DecodeError as error:
            store.set_aside("hello", row.hello, f"node {row.name}: {error}")
    return wire.Hello(node=row.name)


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
        """What is to be stored: the whole, or tenants that something was decided about.

        With these what is under way.
        """
        # Times of the others would be of a clock that went back since.
        went_back = (state.clock.last_s or 0.0) < self._last_s
        if went_back or self._shape is None or self._shape != _shape(state):
            return to_json(state), {}
        named = {one.cgroup for one in decisions}
        tenants = {name: _TENANT.dump_json(state.tenants.get(name)).decode() for name in named}
        if is_moving(state):
            moves = _MOVES.dump_json({"memory": state.memory, "clock": state.clock})
            tenants[UNDER_WAY] = moves.decode()
        return None, tenants


def _shape(state: NodeState) -> tuple[object, ...]:
    """What a decision may change beside the tenant that it names."""
    memory, change = state.memory, state.memory.change
    moving = None
    if change is not None:
        moving = (change.started_s, change.settled_s, change.forced, tuple(change.members))
    pins = tuple((name, one.policy, one.limit_bytes) for name, one in state.before_pins.items())
    return moving, tuple(memory.restore), tuple(state.away), pins
