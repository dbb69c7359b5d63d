# SPDX-License-Identifier: Apache-2.0
"""The changes that the history lists: a row each, completed by the outcome of the change."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import fields

from cachepilot.domain.past.change import (
    ChangeFilter,
    ChangeKind,
    ChangeRow,
    ChangeState,
    EvidenceSeries,
)
from cachepilot.store.database import Database
from cachepilot.store.pruning import Table, prune_table

CHANGES_MAX = 200_000
"""Changes that are stored at most, however recent."""
COLUMNS = tuple(one.name for one in fields(ChangeRow) if one.name != "id")
QUOTED = tuple(f'"{name}"' for name in COLUMNS)
Written = tuple[ChangeRow, EvidenceSeries | None]
_INSERT = (
    f"INSERT INTO changes (stored_s, evidence, {', '.join(QUOTED)})"
    f" VALUES ({', '.join('?' * (len(COLUMNS) + 2))})"
)
_UPDATE = (
    f"UPDATE changes SET evidence = coalesce(?, evidence), {' = ?, '.join(QUOTED)} = ? WHERE id = ?"
)


def _conditions(asked: ChangeFilter) -> tuple[str, list[object]]:
    """Return the WHERE clause of a filter and its values.

    What was stated for all nodes, such as a pin without a node, has no node and matches every one.
    A condition that is not requested is left out. Written as "or is null", it would keep SQLite
    from using its indexes.
    """
    pairs: dict[str, object] = {
        "node IN (?, '')": asked.node,
        "cgroup = ?": asked.cgroup,
        "begun_s >= ?": asked.since_s,
        "begun_s <= ?": asked.until_s,
        "state = ?": asked.state,
        "kind = ?": asked.kind,
        "id < ?": asked.below,
        "instr(lower(by_kind || ' ' || \"by\"), lower(?)) > 0": asked.by,
    }
    given = {condition: value for condition, value in pairs.items() if value is not None}
    where = f" WHERE {' AND '.join(given)}" if given else ""
    return where, [
        value if isinstance(value, float | int) else str(value) for value in given.values()
    ]


class ChangeHistory(Database):
    """Changes in the order in which they were stored first."""

    def _prune_changes(self, oldest_s: float) -> None:
        """Drop rows stored before a time, and those beyond the bound, a few at a time."""
        prune_table(self._rows, self._transaction, Table("changes", "id", oldest_s, CHANGES_MAX))

    def _write_changes(self, db: sqlite3.Connection, rows: Iterable[Written]) -> list[int]:
        """Add rows that have no id, and update the others; return the ids of all."""
        found = []
        for row, series in rows:
            values = [getattr(row, name) for name in COLUMNS]
            told = None if series is None else json.dumps(vars(series), separators=(",", ":"))
            if row.id:
                db.execute(_UPDATE, (told, *values, row.id))
                found.append(row.id)
            else:
                added = db.execute(_INSERT, (self._clock(), told, *values))
                found.append(int(added.lastrowid or 0))
        return found

    def save_changes(self, rows: Sequence[Written]) -> None:
        """Write rows, all of them or none. New rows get their id."""
        with self._transaction() as db:
            ids = self._write_changes(db, rows)
        for (row, _), found in zip(rows, ids, strict=True):
            row.id = found

    def changes(self, asked: ChangeFilter, limit: int) -> list[ChangeRow]:
        """Return the changes that match a filter, the newest first."""
        where, values = _conditions(asked)
        query = f"SELECT {', '.join(QUOTED)}, id FROM changes{where} ORDER BY id DESC LIMIT ?"
        return [_row(one) for one in self._rows(query, *values, limit)]

    def count_changes(self, asked: ChangeFilter) -> int:
        """The number of changes that match a filter."""
        where, values = _conditions(asked)
        return int(self._rows(f"SELECT count(*) FROM changes{where}", *values)[0][0])

    def change(self, number: int) -> Written | None:
        """Return one change and its evidence; None if no change has this id."""
        query = f"SELECT {', '.join(QUOTED)}, id, evidence FROM changes WHERE id = ?"
        rows = self._rows(query, number)
        return _written(rows[0]) if rows else None

    def live_changes(self, node: str) -> list[Written]:
        """Return the changes of a node that have not ended, its present recommendations included.

        The oldest comes first.
        """
        query = (
            f"SELECT {', '.join(QUOTED)}, id, evidence FROM changes"
            " WHERE node = ? AND ended_s IS NULL ORDER BY id"
        )
        return [_written(one) for one in self._rows(query, node)]

    def later_change(self, row: ChangeRow) -> int | None:
        """Return the id of a later change of this kind that is live or confirmed, or None."""
        found = self._rows(
            "SELECT id FROM changes WHERE node = ? AND cgroup = ? AND kind = ? AND id > ?"
            " AND state IN (?, ?) ORDER BY id LIMIT 1",
            row.node, row.cgroup, str(row.kind), row.id,
            str(ChangeState.LIVE), str(ChangeState.CONFIRMED),
        )  # fmt: skip
        return found[0][0] if found else None


def _row(values: Sequence[object]) -> ChangeRow:
    known = dict(zip((*COLUMNS, "id"), values, strict=False))
    kind, state = ChangeKind(str(known.pop("kind"))), ChangeState(str(known.pop("state")))
    return ChangeRow(kind=kind, state=state, **known)  # type: ignore[arg-type]


def _written(values: Sequence[object]) -> Written:
    told = values[-1]
    if not isinstance(told, str):
        return _row(values), None
    columns = json.loads(told)
    # Stores of earlier versions use another name.
    if "promised" in columns:
        columns["predicted"] = columns.pop("promised")
    return _row(values), EvidenceSeries(**columns)
