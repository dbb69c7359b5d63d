# SPDX-License-Identifier: Apache-2.0
"""The state of a node's decider as JSON, so that changes under way continue after a restart.

A part that cannot be read is dropped and starts again, and the rest is kept.
"""

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
"""Groups of keys of a tenant's policy state. If one cannot be read, its whole group is dropped.

`LEARNT` are the list of policies and the tables that have a row or column for each policy.
"""
NAMED = 8
"""Parts that cannot be read are named in the log up to this number."""

RENAMED = {
    "change": {"promised": "expected"},
    "trial": {"promised": "expected", "course": "series"},
    "lacked.*": {"least_bytes": "limit_bytes"},
}
"""By part of the state: keys of earlier versions, and the present name of each."""

UNDER_WAY = "under way"
"""The key of a record that stands beside those of tenants: memory changes under way, and the clock.

Each snapshot changes them, and they must not be lost. A tenant's name begins with a slash, so that
the key cannot be a tenant.
"""

_ADAPTER = TypeAdapter(NodeState)
_MOVES: TypeAdapter[dict[str, MemoryState | Clock]] = TypeAdapter(dict[str, MemoryState | Clock])
_TENANT = TypeAdapter(TenantState | None)


def is_moving(state: NodeState) -> bool:
    """Whether a change of memory is under way."""
    return bool(under_way(state.memory, state.clock.last_s or 0.0))


def to_json(state: NodeState) -> str:
    """Return the state as JSON, without tenants that have nothing but their cgroup id."""
    told = {
        cgroup: one
        for cgroup, one in state.tenants.items()
        if one.held_first_bytes or one != TenantState(one.cgroup_id)
    }
    return _ADAPTER.dump_json(replace(state, tenants=told)).decode()


def from_json(text: str, name: str, newer: Mapping[str, str] | None = None) -> NodeState:
    """Return the state that `to_json` wrote, with `newer` states of tenants in place of old ones.

    Log the parts that cannot be read. Raise RecordError, which names `name`, if none can be read.
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
    """Return the parsed JSON, or the text itself, which no later step can read as a state."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _rename(whole: Any, part: str = "") -> None:
    """Rename, in place, keys that an earlier version stored under other names."""
    if not isinstance(whole, dict):
        return
    for key, one in whole.items():
        for old, new in RENAMED.get(key, RENAMED.get(f"{part}.*", {})).items():
            if isinstance(one, dict) and old in one:
                one[new] = one.pop(old)
        _rename(one, key)


def _read(whole: Any, name: str) -> tuple[NodeState, list[Path]]:
    """Return the state without what cannot be read, and the paths of the parts that were dropped.

    Raise RecordError if the whole document is wrong.
    """
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
    """Return the path of the smallest part to drop: a wrong value, or an object that lacks one."""
    path: list[str] = []
    for key in error["loc"][:-1] if error["type"] == "missing" else error["loc"]:
        if not isinstance(whole, dict) or key not in whole or (path and path[-1] in LEARNT):
            break
        whole = whole[key]
        path.append(str(key))
    return tuple(path)


def _disown(known: Mapping[Path, TenantState], memory: MemoryState) -> None:
    """Forget the names of changes of which the trial was lost, so that the agent undoes them.

    The agent undoes a change that is not confirmed, and this controller confirms only known names.
    """
    change = memory.change
    moving = {*memory.restore, *(() if change is None else change.members)}
    for (_, cgroup, *_), one in known.items():
        if cgroup not in moving and one.policy.trial is None and not one.policy.wanted:
            one.changes = []


def _fits(policy: PolicyState) -> bool:
    """Whether the shapes of the tables agree. Without policies they are created again."""
    count, groups = len(policy.policies), policy.groups
    tables = policy.totals, policy.climb, policy.calibration
    totals, climb, calibration = (one.values.shape for one in tables)
    fits = totals == (count, groups) and climb[0] == count
    return not count or (fits and calibration in ((RATE + 1, count), (RATE, count)))


def _follow_version(policy: PolicyState) -> None:
    """Convert the tables of an earlier version, in place.

    Its calibration has no row of accesses: they become 0. Its `climb` has other columns beside
    those of the groups: it starts again.
    """
    known = policy.calibration
    if policy.policies and len(known.values) == RATE:
        known.values = np.insert(known.values, ACCESSES, 0.0, axis=0)
    if policy.policies and policy.climb.values.shape[1] != policy.groups + BESIDE:
        policy.climb = Climb()
        policy.climb.restart(len(policy.policies), policy.groups)


def stored(row: NodeRow) -> NodeState | None:
    """Return the stored state of a node; None if there is none, or if none of it can be read."""
    if row.state is None:
        return None
    try:
        return from_json(row.state, f"store: node {row.name}", row.tenant_states)
    except RecordError as error:
        LOG.error("%s; the decider starts again", error)
        return None


def restored(row: NodeRow, store: Store) -> NodeState | None:
    """Return the state as `stored` does; keep a copy of a state that cannot be read at all."""
    found = stored(row)
    if found is None and row.state is not None:
        store.set_aside("node", row.state.encode(), f"node {row.name}: not the state of a node")
    return found


def restored_hello(row: NodeRow, store: Store) -> wire.Hello:
    """Return the last hello of a node, or one with the name alone if it cannot be read."""
    if row.hello:
        try:
            return wire.Hello.FromString(row.hello)
        except DecodeError as error:
            store.set_aside("hello", row.hello, f"node {row.name}: {error}")
    return wire.Hello(node=row.name)


class Stored:
    """What of a node's state is in the store, so that a decision does not write all of it.

    With thousands of tenants, writing the whole state can take longer than making a plan.
    """

    def __init__(self) -> None:
        self._shape: tuple[object, ...] | None = None
        self._last_s = 0.0

    def is_due(self, state: NodeState) -> bool:
        """Whether the whole state must be stored although nothing was decided."""
        return self._shape is None or self._shape != _shape(state)

    def forget(self) -> None:
        """Assume that the last write failed: the whole state is stored next."""
        self._shape = None

    def take(self, state: NodeState) -> None:
        """Note that the whole state was stored."""
        self._shape, self._last_s = _shape(state), state.clock.last_s or 0.0

    def texts(
        self, state: NodeState, decisions: Iterable[Decision]
    ) -> tuple[str | None, dict[str, str]]:
        """Return the whole state, or None and the states of tenants that `decisions` name.

        While a change of memory is under way, the tenants include a record under `UNDER_WAY`. A
        tenant that is gone has the state `null`.
        """
        # If the clock went back, the stored times of all other tenants are those of the clock
        # before.
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
    """The parts of the state that a decision may change beside the tenant that it names."""
    memory, change = state.memory, state.memory.change
    moving = None
    if change is not None:
        moving = (change.started_s, change.settled_s, change.forced, tuple(change.members))
    pins = tuple((name, one.policy, one.limit_bytes) for name, one in state.before_pins.items())
    return moving, tuple(memory.restore), tuple(state.away), pins
