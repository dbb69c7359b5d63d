# SPDX-License-Identifier: Apache-2.0
"""What tenants did before any of their settings was changed: a row each."""

import sqlite3
from collections.abc import Iterable
from dataclasses import astuple, fields

from cachepilot.domain.past.baseline import Baseline
from cachepilot.store.database import Database

COLUMNS = tuple(one.name for one in fields(Baseline))


class Baselines(Database):
    """Baselines by node and cgroup. That of a cgroup created again replaces the one before."""

    @staticmethod
    def _write_baselines(
        db: sqlite3.Connection, node: str, rows: Iterable[Baseline], gone: Iterable[str]
    ) -> None:
        db.executemany(
            "DELETE FROM baselines WHERE node = ? AND cgroup = ?", [(node, one) for one in gone]
        )
        db.executemany(
            f"INSERT OR REPLACE INTO baselines (node, {', '.join(COLUMNS)})"
            f" VALUES ({', '.join('?' * (len(COLUMNS) + 1))})",
            [(node, *astuple(one)) for one in rows],
        )

    def baselines(self, node: str) -> list[Baseline]:
        """The baselines of the tenants of a node."""
        query = f"SELECT {', '.join(COLUMNS)} FROM baselines WHERE node = ?"
        found = [Baseline(*row) for row in self._rows(query, node)]
        for one in found:
            one.closed = bool(one.closed)
        return found
