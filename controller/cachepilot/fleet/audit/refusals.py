# SPDX-License-Identifier: Apache-2.0
"""Rows of the history for refused requests; repetitions are counted in one row.

Refusals are noted in memory, from any thread including the event loop's, and written to the store
by a later `flush`.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable

from cachepilot.domain.past.actor import Actor
from cachepilot.domain.past.change import ChangeKind, ChangeRow, ChangeState, by_actor
from cachepilot.readable import printable
from cachepilot.store.store import Store

LOG = logging.getLogger("cachepilot.audit")
MERGE_S = 600.0
"""Seconds for which a repeated refusal is counted in the same row."""
ROWS_MAX = 64
"""Most rows in that time; all further refusals are counted together in one more row."""
TEXT_MAX = 400
OTHERS = "others"


class Refusals:
    """The rows of refusals that are open for counting. `clock` returns seconds since 1970."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._lock, self._flushing = threading.Lock(), threading.Lock()
        self._rows: dict[tuple[str, ...], ChangeRow] = {}
        self._unstored: dict[int, ChangeRow] = {}

    def note(self, actor: Actor, asked: str, why: str) -> None:
        """Note that a request of `actor` was refused because of `why`.

        Never waits for the store.
        """
        now_s = self._clock()
        # The texts come from the refused client: a path may contain anything.
        asked, why = (printable(one[:TEXT_MAX]) for one in (asked, why))
        with self._lock:
            self._end(now_s)
            key: tuple[str, ...] = (str(actor.kind), actor.name, asked, why)
            if key not in self._rows and len(self._rows) >= ROWS_MAX:
                key, asked, why = (OTHERS,), "more than are listed", "as the rows before"
            row = self._rows.get(key)
            is_new = row is None
            if row is None:
                row = ChangeRow(ChangeKind.REFUSAL, ChangeState.REFUSED, "", "", now_s, count=0)
                row.by_kind, row.by = by_actor(actor).values()
                if key == (OTHERS,):
                    row.by = OTHERS
                row.text, row.why = asked, why
                self._rows[key] = row
            row.count += 1
            row.ended_s = now_s
            self._unstored[id(row)] = row
        if is_new:
            LOG.warning("refused: %s by %s: %s", asked, row.by, why)

    def _end(self, now_s: float) -> None:
        for key, row in list(self._rows.items()):
            if not 0 <= now_s - row.begun_s < MERGE_S:
                del self._rows[key]

    def flush(self) -> bool:
        """Store the noted rows and return whether any were stored; if it fails, keep them."""
        with self._flushing:
            # `note` must never wait for the store, so the lock is released before writing.
            with self._lock:
                rows = list(self._unstored.values())
                self._unstored.clear()
            if not rows:
                return False
            try:
                self._store.save_changes([(row, None) for row in rows])
            except sqlite3.Error as error:
                LOG.debug("refusals cannot be stored yet: %s", error)
                with self._lock:
                    # Rows that are no longer open are dropped, so that memory is bounded.
                    still = {id(row) for row in self._rows.values()}
                    self._unstored |= {id(row): row for row in rows if id(row) in still}
                return False
        return True
