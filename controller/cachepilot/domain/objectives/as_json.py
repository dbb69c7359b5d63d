# SPDX-License-Identifier: Apache-2.0
"""Objectives as one line of JSON, the form in which they are stored."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cachepilot.domain.json_values import UNREADABLE, RecordError, decode, encode
from cachepilot.domain.objectives.file import objective_from
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.objectives.table import objective_table
from cachepilot.errors import InputError


@dataclass(frozen=True)
class Unreadable:
    """A stored objective, or all of them, as JSON, and why it cannot be read."""

    text: bytes
    why: str


def objectives_to_json(objectives: Objectives) -> str:
    """Encode objectives as one line of JSON."""
    return encode(objectives)


def objectives_from_json(text: str, name: str) -> Objectives:
    """Decode what `objectives_to_json` wrote; a RecordError names `name`."""
    try:
        objectives: Objectives = decode(Objectives, json.loads(text))
    except UNREADABLE as error:
        raise RecordError(f"{name}: not objectives: {error}") from None
    return objectives


def readable_objectives(data: bytes) -> tuple[Objectives | None, list[Unreadable]]:
    """Decode what `objectives_to_json` wrote, one objective at a time; return the unreadable ones.

    The objectives are None if nothing can be read.
    """
    try:
        document = json.loads(data)
        stated = document.pop("tenants", [])
        rest = decode(Objectives, document)
        tenants, bad = _readable(stated)
        return replace(rest, tenants=tuple(tenants)), bad
    except UNREADABLE as error:
        return None, [Unreadable(data, str(error))]


def _readable(stated: Sequence[Any]) -> tuple[list[Objective], list[Unreadable]]:
    found: list[tuple[Objective, Any]] = []
    bad = []
    for value in stated:
        try:
            one = decode(Objective, value)
            objective_from(objective_table(one), "stored")
            found.append((one, value))
        except UNREADABLE as error:
            bad.append(_unreadable(value, error))
    kept, shadowed = _each_once(found)
    return kept, [*bad, *shadowed]


def _each_once(
    found: Sequence[tuple[Objective, Any]],
) -> tuple[list[Objective], list[Unreadable]]:
    """Keep one objective per pattern.

    Earlier versions stored both `db`, which matched nothing, and `/db`. Of two such objectives the
    one that was in force stays.
    """
    in_force = {one.pattern for one, value in found if one.pattern == value["pattern"]}
    kept: dict[str, Objective] = {}
    bad = []
    for one, value in found:
        is_shadowed = one.pattern != value["pattern"] and one.pattern in in_force
        if is_shadowed or one.pattern in kept:
            bad.append(_unreadable(value, InputError("names the cgroup of another objective")))
        else:
            kept[one.pattern] = one
    return list(kept.values()), bad


def _unreadable(value: Any, error: Exception) -> Unreadable:
    return Unreadable(json.dumps(value).encode(), str(error) or type(error).__name__)
