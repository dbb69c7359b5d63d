# SPDX-License-Identifier: Apache-2.0
"""Time series in the store, as chunks of points, with a retention per step; and past needs."""

import logging
import time
from collections.abc import Iterable
from dataclasses import astuple

from cachepilot.domain.past.need import SLOTS, slot_of
from cachepilot.domain.past.series import KEPT_S, SeriesChunk
from cachepilot.store.database import Database
from cachepilot.store.pruning import PAUSE_S, ROWS

LOG = logging.getLogger(__name__)
CHUNKS_MAX = 500_000
"""Chunks of all tenants at most, a kilobyte each. Beyond that the oldest written are dropped."""


class SeriesStore(Database):
    """Chunks by tenant, step and begin. A chunk that grows replaces its earlier version."""

    def save_series(self, node: str, chunks: Iterable[SeriesChunk]) -> None:
        """Add chunks, or replace those with the same begin."""
        now_s = self._clock()
        with self._transaction() as db:
            db.executemany(
                "INSERT OR REPLACE INTO series VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [(now_s, node, *astuple(one)) for one in chunks],
            )

    def series(
        self, node: str, cgroup: str, step_s: int, since_s: float, until_s: float
    ) -> list[SeriesChunk]:
        """Chunks of one tenant with points from `since_s` to `until_s`, the oldest first."""
        rows = self._rows(
            "SELECT cgroup, step_s, begun_s, ended_s, points, data FROM series WHERE node = ?"
            " AND cgroup = ? AND step_s = ? AND begun_s <= ? AND ended_s >= ? ORDER BY begun_s",
            node, cgroup, step_s, until_s, since_s,
        )  # fmt: skip
        return [SeriesChunk(*row) for row in rows]

    def _prune_series(self) -> None:
        """Drop chunks that exceed the retention of their step, and those beyond the bound."""
        now_s = self._clock()
        for step_s, kept_s in KEPT_S.items():
            while self._drop_series("step_s = ? AND stored_s < ?", ROWS, step_s, now_s - kept_s):
                time.sleep(PAUSE_S)
        beyond = self._rows("SELECT count(*) FROM series")[0][0] - CHUNKS_MAX
        if beyond > 0:
            LOG.warning("time series: %d chunks beyond the bound of %d go", beyond, CHUNKS_MAX)
        while beyond > 0 and (dropped := self._drop_series("1", min(beyond, ROWS))):
            beyond -= dropped
            time.sleep(PAUSE_S)

    def _drop_series(self, condition: str, most: int, *values: float) -> int:
        """Drop up to `most` matching chunks, the oldest written first; return their number."""
        query = (
            "DELETE FROM series WHERE rowid IN (SELECT rowid FROM series"
            f" WHERE {condition} ORDER BY stored_s LIMIT ?)"
        )
        with self._transaction() as db:
            return db.execute(query, (*values, most)).rowcount


class NeedsStore(Database):
    """What the tenants of nodes needed, a row per quarter of an hour; see `domain.past.need`."""

    def save_needs(self, node: str, slot: int, tenants: str) -> None:
        """Add or replace what is known of a slot, as JSON."""
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO needs VALUES (?, ?, ?)", (node, slot, tenants))

    def needs(self, node: str, after: int, until: int) -> list[tuple[object, bytes]]:
        """Return the stored slots in (after, until], in order, and rows whose slot is no number.

        The text is returned as it is stored: it may be damaged.
        """
        return self._rows(
            "SELECT slot, CAST(tenants AS BLOB) FROM needs WHERE node = ?"
            " AND (slot > ? AND slot <= ? OR typeof(slot) <> 'integer') ORDER BY slot",
            node, after, until,
        )  # fmt: skip

    def _prune_needs(self) -> None:
        """Drop slots older than a day, and slots in the future, which a clock that was ahead left.

        Each node has its own transaction, so that cycles wait for one node at most.
        """
        now = slot_of(self._clock())
        ends = (now - SLOTS, now + 1)
        query = "SELECT DISTINCT node FROM needs WHERE slot <= ? OR slot > ?"
        for (node,) in self._rows(query, *ends):
            with self._transaction() as db:
                drop = "DELETE FROM needs WHERE node = ? AND (slot <= ? OR slot > ?)"
                db.execute(drop, (node, *ends))
