# SPDX-License-Identifier: Apache-2.0
"""Rows of the history for operators' changes: objectives and pins before and after."""

import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.objectives.pins import Pin
from cachepilot.domain.objectives.table import objective_table
from cachepilot.domain.past.actor import Actor
from cachepilot.domain.past.change import ChangeKind, ChangeRow, ChangeState, by_actor
from cachepilot.node.asked import Asked
from cachepilot.readable import apart, moment
from cachepilot.sizes import UNITS_BYTES, human_bytes

LOG = logging.getLogger("cachepilot.audit")
ROWS_MAX = 200
"""Most rows per request. If a document changes more, the last row gives the number of the
others."""
NOTHING = "nothing"
NAMES = {"until_s": "until"}
"""Keys that are shown under another name."""
Table = dict[str, Any]


def audit(before: Asked, after: Asked, actor: Actor, now_s: float) -> list[ChangeRow]:
    """Return a row for every objective and pin that differs, changed at `now_s` by `actor`."""
    found = []
    for row in _rows(before, after):
        row.begun_s = row.ended_s = now_s
        row.by_kind, row.by = by_actor(actor).values()
        row.why = f"{'removed' if row.after is None else 'stated'} by {actor}"
        found.append(row)
    if len(found) > ROWS_MAX:
        more = len(found) - ROWS_MAX + 1
        found = found[:ROWS_MAX]
        found[-1].cgroup, found[-1].text = "", f"and {more} more, which are not listed"
        found[-1].before = found[-1].after = None
    return found


def log(rows: Sequence[ChangeRow]) -> None:
    """Write the rows to the log, one line each."""
    for row in rows:
        where = f" on node {row.node}" if row.node else ""
        LOG.info("%s %s%s: %s; %s", row.kind, row.cgroup or "-", where, row.text, row.why)


def _rows(before: Asked, after: Asked) -> Iterator[ChangeRow]:
    if before.objectives is not after.objectives:
        yield from _of_objectives(before.objectives, after.objectives)
    if before.pins != after.pins:
        yield from _of_pins(before.pins, after.pins)


def _of_objectives(before: Objectives, after: Objectives) -> Iterator[ChangeRow]:
    earlier = {one.pattern: objective_table(one) for one in before.tenants}
    later = {one.pattern: objective_table(one) for one in after.tenants}
    for pattern in dict.fromkeys((*earlier, *later)):
        if earlier.get(pattern) != later.get(pattern):
            yield _row(ChangeKind.OBJECTIVE, "", pattern, earlier.get(pattern), later.get(pattern))
    if before.goal is not after.goal:
        goals = ({"goal": str(one.goal)} for one in (before, after))
        yield _row(ChangeKind.OBJECTIVE, "", "", *goals)
    if set(earlier) == set(later) and list(earlier) != list(later):
        orders = ({"order": list(one)} for one in (earlier, later))
        row = _row(ChangeKind.OBJECTIVE, "", "", *orders)
        row.text = "the order of the entries, of which the first match holds"
        yield row


def _of_pins(before: Iterable[Pin], after: Iterable[Pin]) -> Iterator[ChangeRow]:
    earlier = {(one.cgroup, one.node): _pin(one) for one in before}
    later = {(one.cgroup, one.node): _pin(one) for one in after}
    for cgroup, node in dict.fromkeys((*earlier, *later)):
        old, new = earlier.get((cgroup, node)), later.get((cgroup, node))
        if old != new:
            row = _row(ChangeKind.PIN, node or "", cgroup, old, new)
            row.from_policy, row.from_limit_bytes = _setting(old)
            row.to_policy, row.to_limit_bytes = _setting(new)
            yield row


def _setting(pin: Table | None) -> tuple[str | None, int | None]:
    told = pin or {}
    return told.get("policy"), told.get("limit_bytes")


def _pin(pin: Pin) -> Table:
    keys = ("policy", "limit_bytes", "until_s")
    return {key: value for key, value in asdict(pin).items() if key in keys and value is not None}


def _row(
    kind: ChangeKind, node: str, cgroup: str, before: Table | None, after: Table | None
) -> ChangeRow:
    row = ChangeRow(kind, ChangeState.DONE, node, cgroup, 0.0, 0.0)
    row.before, row.after = (None if one is None else _json(one) for one in (before, after))
    row.text = difference(before or {}, after or {})
    return row


def _json(table: Table) -> str:
    return json.dumps(table, separators=(",", ":"))


def difference(before: Table, after: Table) -> str:
    """Return the keys that differ, as `key: before → after`; `nothing` is a missing value."""
    keys = [key for key in dict.fromkeys((*before, *after)) if key != "cgroup"]
    told = [
        f"{NAMES.get(key, key)}: {' → '.join(_shown(key, before.get(key), after.get(key)))}"
        for key in keys
        if before.get(key) != after.get(key)
    ]
    return ", ".join(told) or "an entry without any key"


def _shown(key: str, *values: Any) -> list[str]:
    if key == "limit_bytes":
        sizes = apart(values, _size, _exact_size)
        return [NOTHING if one is None else one for one in sizes]
    return [_one_shown(key, value) for value in values]


def _size(amount_bytes: float) -> str:
    return human_bytes(amount_bytes).replace(".0 ", " ")


def _exact_size(amount_bytes: float, digits: int) -> str:
    return f"{amount_bytes / UNITS_BYTES['MiB']:,.{digits}f} MiB"


def _one_shown(key: str, value: Any) -> str:
    if value is None:
        return NOTHING
    if key == "until_s":
        return moment(value)
    return value if isinstance(value, str) else json.dumps(value)
