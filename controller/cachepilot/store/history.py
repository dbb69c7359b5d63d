# SPDX-License-Identifier: Apache-2.0
"""Decisions, and the records from which they can be replayed."""

import sqlite3
import zlib
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from cachepilot.domain.decisions import Decision
from cachepilot.domain.recorded import RecordedDecision
from cachepilot.store.database import Database
from cachepilot.store.pruning import Table, prune_table

DECISIONS_MAX, RECORDS_MAX = 1_000_000, 50_000
"""Decisions, and records that replay some of them, that are kept at most, however recent."""
RECORD_LEVEL = 1
"""Compression level. A higher one takes several times as long and saves a tenth."""
COLUMNS = tuple(one.name for one in fields(RecordedDecision))


def history_query(
    cgroup: str | None, node: str | None, limit: int, before: int | None, event: str | None
) -> tuple[str, list[str | int]]:
    """Return the query of `Store.history` and its values.

    A condition that is not requested is left out. Written as "or is null", it would keep SQLite
    from using its indexes, each of which has the order of the result.
    """
    asked: dict[str, str | int | None] = {
        "cgroup = ?": cgroup, "node = ?": node, "id < ?": before, "event = ?": event,
    }  # fmt: skip
    given = {condition: value for condition, value in asked.items() if value is not None}
    where = f" WHERE {' AND '.join(given)}" if given else ""
    query = f"SELECT {', '.join(COLUMNS)} FROM decisions{where} ORDER BY id DESC LIMIT ?"
    return query, [*given.values(), limit]


class History(Database):
    """Decisions in the order in which they were stored, and records by node and epoch."""

    def _prune_history(self, oldest_s: float) -> None:
        """Drop rows stored before a time, and those beyond the bounds, a few at a time."""
        for table, key, most in (
            ("decisions", "id", DECISIONS_MAX),
            ("records", "rowid", RECORDS_MAX),
        ):
            prune_table(self._rows, self._transaction, Table(table, key, oldest_s, most))

    def _write_decisions(
        self, db: sqlite3.Connection, node: str, epoch: int, decisions: Sequence[Decision]
    ) -> None:
        now_s = self._clock()
        db.executemany(
            f"INSERT INTO decisions (stored_s, {', '.join(COLUMNS[1:])})"
            f" VALUES ({', '.join('?' * len(COLUMNS))})",
            [(now_s, *_columns(node, epoch, one)) for one in decisions],
        )

    def save_record(self, node: str, epoch: int, record: bytes) -> None:
        """Store the input of a decision; see `cachepilot.plan.record`."""
        values = (node, epoch, self._clock(), zlib.compress(record, RECORD_LEVEL))
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", values)

    def record(self, node: str, epoch: int) -> bytes | None:
        """The record of the decisions of one epoch; None if there is none."""
        rows = self._rows("SELECT record FROM records WHERE node = ? AND epoch = ?", node, epoch)
        return zlib.decompress(rows[0][0]) if rows else None

    def history(
        self,
        cgroup: str | None,
        node: str | None,
        limit: int,
        before: int | None = None,
        event: str | None = None,
    ) -> list[RecordedDecision]:
        """Return the last decisions, the newest first: of ids below `before`, of one `event`."""
        query, values = history_query(cgroup, node, limit, before, event)
        rows = self._rows(query, *values)
        return [RecordedDecision(**dict(zip(COLUMNS, row, strict=True))) for row in rows]

    def later(
        self, one: RecordedDecision, key: str, events: Sequence[str], same: bool
    ) -> int | None:
        """Return the id of a later decision that changed `key` of the tenant; None without any.

        With `same`, only decisions that led to the same value count.
        """
        rows = self._rows(
            f"SELECT id FROM decisions WHERE cgroup = ? AND node = ? AND id > ?"
            f" AND event IN ({', '.join('?' * len(events))}) AND from_{key} != to_{key}"
            f" AND (to_{key} = ? OR NOT ?) ORDER BY id LIMIT 1",
            one.cgroup, one.node, one.id, *map(str, events), getattr(one, f"to_{key}"), same,
        )  # fmt: skip
        return rows[0][0] if rows else None


def _columns(node: str, epoch: int, one: Decision) -> tuple[Any, ...]:
    """The values of a row in the order of `RecordedDecision`, without its id."""
    return (
        one.time_s, node, one.cgroup, epoch, str(one.event),
        one.before.policy, one.after.policy, one.before.limit_bytes, one.after.limit_bytes,
        one.baseline.ops, one.predicted.ops, one.measured.ops,
        one.baseline.miss_ratio, one.predicted.miss_ratio, one.measured.miss_ratio,
        one.why,
    )  # fmt: skip
