# SPDX-License-Identifier: Apache-2.0
"""Stored entries that cannot be read: kept in a table for a person, logged and counted.

Such an entry is never fatal.
"""

import logging
import sqlite3

from prometheus_client import Counter

from cachepilot.store.database import Database

LOG = logging.getLogger(__name__)
KEPT_MAX = 1000
"""Entries that are kept at most. Beyond that the oldest is dropped."""
QUARANTINED = Counter(
    "cachepilot_store_quarantined",
    "Stored entries that could not be read, kept aside: objective, pin, node, hello, change, "
    "rollout or needs.",
    ("kind",),
)
_ADD = "INSERT INTO quarantine (stored_s, kind, entry, why) VALUES (?, ?, ?, ?)"
_BOUND = "DELETE FROM quarantine WHERE id <= (SELECT max(id) FROM quarantine) - ?"


class Quarantine(Database):
    """Entries that could not be read, by kind."""

    def _set_aside(self, db: sqlite3.Connection, kind: str, entry: bytes, why: object) -> None:
        """Keep an entry, in the transaction that removes it from its own table."""
        line = " ".join(str(why).split()).encode(errors="backslashreplace").decode()
        db.execute(_ADD, (self._clock(), kind, entry, line))
        db.execute(_BOUND, (KEPT_MAX,))
        QUARANTINED.labels(kind).inc()
        LOG.error("store: %s: cannot be read, kept in the table quarantine: %s", kind, line)

    def set_aside(self, kind: str, entry: bytes, why: object) -> None:
        """Keep a copy of an entry that stays in its own table."""
        with self._transaction() as db:
            self._set_aside(db, kind, entry, why)

    def kept_aside(self) -> list[tuple[str, bytes, str]]:
        """Return (kind, entry, why) of all entries, the oldest first."""
        return self._rows("SELECT kind, entry, why FROM quarantine ORDER BY id")
