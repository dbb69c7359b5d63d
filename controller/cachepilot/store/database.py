# SPDX-License-Identifier: Apache-2.0
"""One connection under one lock, and its transactions.

Calls wait for one another, so none may read more than it answers.
"""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cachepilot.store.schema import open_database


class Database:
    """One SQLite file; safe to call from any thread. `clock`: seconds since 1970."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._db = open_database(path, clock())

    def close(self) -> None:
        """Nothing is lost without it."""
        with self._lock:
            self._db.close()

    @contextmanager
    def together(self) -> Iterator[None]:
        """All that is written inside, by any calls of this thread, or nothing of it."""
        with self._transaction():
            yield

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._db.in_transaction:
                # Inside of another one, which ends both.
                yield self._db
                return
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                # On a full disk SQLite has rolled back already, or leaves it open when it commits.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(query, values).fetchall()

    def now_s(self) -> float:
        """Seconds since 1970, by the clock that ages what is stored."""
        return self._clock()
