# SPDX-License-Identifier: Apache-2.0
"""A decision as JSON: what the planner saw, was asked, and decided, so that it can be replayed.

Arrays are their bytes in base64: curves are most of a record, and the digits of every value took
most of the time to write one.
"""

import json
import types
from base64 import b64decode, b64encode
from dataclasses import dataclass, is_dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
from pydantic_core import to_json as to_bytes

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
ARRAYS = ("<f4", "<f8", "<i8")
"""Kinds of arrays that a record may have."""


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


def _plain(value: Any) -> Any:
    """What JSON has no form for."""
    if isinstance(value, np.ndarray):
        data = b64encode(value.tobytes()).decode()
        return {"kind": value.dtype.str, "shape": value.shape, "base64": data}
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError(f"{type(value).__name__}: has no form in JSON")


def _array(value: Any) -> npt.NDArray[Any]:
    """Of what `_plain` made of one; or of a list, as earlier versions wrote it."""
    if isinstance(value, list):
        return np.array(value)
    kind = value["kind"]
    if kind not in ARRAYS:
        raise TypeError(f"array: kind: {kind} (allowed: {', '.join(ARRAYS)})")
    flat = np.frombuffer(b64decode(value["base64"], validate=True), kind)
    return flat.reshape(value["shape"])


def _decode(kind: Any, value: Any) -> Any:
    """Turns plain JSON values into `kind`, a type as the dataclasses of the planner use them."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        inner = next(one for one in get_args(kind) if one is not type(None))
        return None if value is None else _decode(inner, value)
    if origin is tuple:
        return tuple(_decode(get_args(kind)[0], one) for one in value)
    if origin is np.ndarray:
        return _array(value)
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{name: _decode(hints[name], one) for name, one in value.items()})  # type: ignore[operator]
    if kind is Fraction or (isinstance(kind, type) and issubclass(kind, StrEnum)):
        return kind(value)
    return value


def to_json(record: Record) -> str:
    """The record as one line of JSON; floating-point numbers keep every bit."""
    return to_bytes(record, fallback=_plain).decode()


def objectives_to_json(objectives: Objectives) -> str:
    """Objectives as one line of JSON."""
    return to_bytes(objectives, fallback=_plain).decode()


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
