# SPDX-License-Identifier: Apache-2.0
"""A decision as JSON: what the planner saw, was asked, and decided, so that it can be replayed."""

import json
import types
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np

from cachepilot.errors import InputError
from cachepilot.planner.config import Config
from cachepilot.planner.decision import Plan
from cachepilot.planner.objectives import Objectives
from cachepilot.planner.plan import plan
from cachepilot.planner.snapshot import Snapshot

_UNREADABLE = (
    ArithmeticError,
    AttributeError,
    InputError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


class RecordError(InputError):
    """A record that cannot be read; names where it came from."""


@dataclass(frozen=True)
class Record:
    """One decision with everything it depended on."""

    snapshot: Snapshot
    objectives: Objectives
    config: Config
    plan: Plan

    def applying(self) -> "Record":
        """The same with those objectives alone that hold for a tenant of the snapshot.

        It replays the same: for each tenant the first statement that matched is still the first.
        """
        cgroups = {tenant.cgroup for tenant in self.snapshot.tenants}
        held = {id(self.objectives.of(cgroup)) for cgroup in cgroups}
        stated = self.objectives
        pinned, tenants = (
            tuple(one for one in some if id(one) in held)
            for some in (stated.pinned, stated.tenants)
        )
        return replace(self, objectives=replace(stated, pinned=pinned, tenants=tenants))


def _encode(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_encode(one) for one in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value) if isinstance(value, Fraction) else value


def _decode(kind: Any, value: Any) -> Any:
    """Turns plain JSON values into `kind`, a type as the dataclasses of the planner use them."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        inner = next(one for one in get_args(kind) if one is not type(None))
        return None if value is None else _decode(inner, value)
    if origin is tuple:
        return tuple(_decode(get_args(kind)[0], one) for one in value)
    if origin is np.ndarray:
        return np.array(value)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: _decode(hints[name], one) for name, one in value.items()})  # type: ignore[operator]
    if kind is Fraction or (isinstance(kind, type) and issubclass(kind, StrEnum)):
        return kind(value)
    return value


def to_json(record: Record) -> str:
    """The record as one line of JSON; floating-point numbers keep every bit."""
    return json.dumps(_encode(record))


def objectives_to_json(objectives: Objectives) -> str:
    """Objectives as one line of JSON."""
    return json.dumps(_encode(objectives))


def objectives_from_json(text: str, name: str) -> Objectives:
    """Reads what `objectives_to_json` wrote; raises RecordError naming `name`."""
    try:
        objectives: Objectives = _decode(Objectives, json.loads(text))
    except _UNREADABLE as error:
        raise RecordError(f"{name}: not objectives: {error}") from None
    return objectives


def from_json(text: str, name: str) -> Record:
    """Reads what `to_json` wrote; raises RecordError naming `name`."""
    try:
        record: Record = _decode(Record, json.loads(text))
    except _UNREADABLE as error:
        raise RecordError(f"{name}: not the record of a decision: {error}") from None
    return record


def replay(record: Record) -> Plan:
    """The plan that the planner of today makes of what was recorded."""
    return plan(record.snapshot, record.objectives, record.config)
