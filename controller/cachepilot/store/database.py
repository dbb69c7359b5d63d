# SPDX-License-Identifier: Apache-2.0
"""One connection under one lock, and its transactions.

Calls wait for one another, so none may read more than it answers.
"""

import fcntl
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cachepilot.store.failures import Health, StoreError, StoreFailedError, is_of_the_file, told
from cachepilot.store.schema import open_database


class StoreLock:
    """Held from its making until it is released, on PATH.lock beside the store.

    Not on the store itself: to close one more descriptor of it would end SQLite's own locks
    (https://www.sqlite.org/howtocorrupt.html, 2.2). Raises StoreError where another holds it.
    """

    def __init__(self, path: Path) -> None:
        real = path.resolve()
        try:
            self._file = real.with_name(f"{real.name}.lock").open("ab")
        except OSError as error:
            raise StoreError(f"store {path}: cannot be locked: {error}") from None
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._file.close()
            if not isinstance(error, BlockingIOError):
                raise StoreError(f"store {path}: cannot be locked: {error}") from None
            allowed = "one controller per store: end the other, or name another store"
            raise StoreError(
                f"store {path}: another controller uses it (allowed: {allowed})"
            ) from None

    def release(self) -> None:
        """The next may have it; the file stays, or two could lock two files of one name."""
        self._file.close()


class Database:
    """One SQLite file, locked; safe to call from any thread. `clock`: seconds since 1970.

    StoreError when it cannot be opened, StoreFailedError when it cannot be read or written later.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(told(path, "cannot be opened", error)) from None
        self._health = Health(path, clock)
        self._file_lock = StoreLock(path)
        try:
            self._db = open_database(path, clock())
        except BaseException:
            self._file_lock.release()
            raise

    def close(self) -> None:
        """Nothing is lost without it."""
        with self._lock:
            self._db.close()
            self._file_lock.release()

    @property
    def problem(self) -> str:
        """Why it cannot be read or written now; empty while it can."""
        return self._health.problem

    def check(self) -> str:
        """As `problem`, after another try to write where there is one."""
        if self.problem:
            with suppress(StoreFailedError), self._transaction() as db:
                db.execute("INSERT OR REPLACE INTO meta VALUES ('checked_s', ?)", (self._clock(),))
        return self.problem

    def _begin(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

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
            try:
                self._begin()
                yield self._db
                self._db.execute("COMMIT")
            except BaseException as error:
                # On a full disk SQLite has rolled back already, or leaves it open when it commits.
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error) and is_of_the_file(error):
                    raise self._health.failed("cannot be written", error) from error
                raise
            self._health.succeeded()

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._db.execute(query, values).fetchall()
            except sqlite3.Error as error:
                if is_of_the_file(error):
                    raise self._health.failed("cannot be read", error) from error
                raise

    def now_s(self) -> float:
        """Seconds since 1970, by the clock that ages what is stored."""
        return self._clock()
