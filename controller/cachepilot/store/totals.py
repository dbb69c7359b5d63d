# SPDX-License-Identifier: Apache-2.0
"""Windows of SLOs and numbers of decisions, per tenant of a node."""

import sqlite3
from collections.abc import Iterable, Sequence

from cachepilot.domain.recorded import DecisionTotal
from cachepilot.domain.slos import (
    HOURS,
    MINUTES,
    SloHour,
    SloMinute,
    SloTarget,
    SloTotal,
)
from cachepilot.store.database import Database


class Totals(Database):
    """SLO windows by the minute for the last hour, by the hour for a week, and totals."""

    def _prune_windows(self) -> None:
        # Each node has its own transaction, so that cycles wait for one node at most.
        for node, newest in self._rows("SELECT node, max(minute) FROM slo_windows GROUP BY node"):
            with self._transaction() as db:
                query = "DELETE FROM slo_windows WHERE node = ? AND minute <= ?"
                db.execute(query, (node, newest - MINUTES))
        for node, newest in self._rows("SELECT node, max(hour) FROM slo_hours GROUP BY node"):
            with self._transaction() as db:
                query = "DELETE FROM slo_hours WHERE node = ? AND hour <= ?"
                db.execute(query, (node, newest - HOURS))

    @staticmethod
    def _write_totals(
        db: sqlite3.Connection,
        node: str,
        windows: Sequence[SloMinute],
        slo_totals: Sequence[SloTotal],
        decision_totals: Sequence[DecisionTotal],
        gone: Iterable[str],
    ) -> None:
        """Add or replace windows and totals; drop totals of tenants that are `gone`."""
        left = [(node, cgroup) for cgroup in gone]
        db.executemany(
            "INSERT OR REPLACE INTO slo_windows VALUES (?, ?, ?, ?, ?, ?)",
            [(node, one.cgroup, one.kind, one.minute, one.windows, one.met) for one in windows],
        )
        for table in ("slo_totals", "decision_totals"):
            db.executemany(f"DELETE FROM {table} WHERE node = ? AND cgroup = ?", left)
        db.executemany(
            "INSERT OR REPLACE INTO slo_totals VALUES (?, ?, ?, ?, ?)",
            [(node, one.cgroup, one.kind, one.windows, one.met) for one in slo_totals],
        )
        db.executemany(
            "INSERT OR REPLACE INTO decision_totals VALUES (?, ?, ?, ?)",
            [(node, one.cgroup, one.event, one.count) for one in decision_totals],
        )

    @staticmethod
    def _write_hours(
        db: sqlite3.Connection,
        node: str,
        targets: Sequence[SloTarget],
        hours: Sequence[SloHour],
        gone: Iterable[str],
    ) -> None:
        """Add or replace hours; first drop those of tenants that are `gone` or have new `targets`.

        Minutes of these are dropped too. What they count for the new target is written after this.
        """
        of_node = [(node, cgroup) for cgroup in gone]
        changed = [(node, one.cgroup, one.kind) for one in targets]
        for table in ("slo_hours", "slo_targets", "slo_windows"):
            db.executemany(f"DELETE FROM {table} WHERE node = ? AND cgroup = ?", of_node)
            db.executemany(
                f"DELETE FROM {table} WHERE node = ? AND cgroup = ? AND kind = ?", changed
            )
        db.executemany(
            "INSERT INTO slo_targets VALUES (?, ?, ?, ?, ?)",
            [(node, one.cgroup, one.kind, one.target, one.since_s) for one in targets],
        )
        db.executemany(
            "INSERT OR REPLACE INTO slo_hours VALUES (?, ?, ?, ?, ?, ?)",
            [(node, one.cgroup, one.kind, one.hour, one.windows, one.met) for one in hours],
        )

    def slo_targets(self, node: str) -> list[SloTarget]:
        """The targets by which the SLOs of a node are judged, and since when."""
        query = "SELECT cgroup, kind, target, since_s FROM slo_targets WHERE node = ?"
        return [SloTarget(*row) for row in self._rows(query, node)]

    def slo_hours(self, node: str) -> list[SloHour]:
        """Windows of the SLOs of a node by the hour."""
        query = "SELECT cgroup, kind, hour, windows, met FROM slo_hours WHERE node = ?"
        return [SloHour(*row) for row in self._rows(query, node)]

    def windows(self, node: str) -> list[SloMinute]:
        """Windows of the SLOs of a node by the minute."""
        rows = self._rows(
            "SELECT cgroup, kind, minute, windows, met FROM slo_windows WHERE node = ?", node
        )
        return [SloMinute(*row) for row in rows]

    def slo_totals(self, node: str) -> list[SloTotal]:
        """Windows of the SLOs of a node since each was first stated."""
        rows = self._rows("SELECT cgroup, kind, windows, met FROM slo_totals WHERE node = ?", node)
        return [SloTotal(*row) for row in rows]

    def decision_totals(self, node: str) -> list[DecisionTotal]:
        """Decisions about the tenants of a node since each was first seen."""
        rows = self._rows("SELECT cgroup, event, count FROM decision_totals WHERE node = ?", node)
        return [DecisionTotal(*row) for row in rows]
