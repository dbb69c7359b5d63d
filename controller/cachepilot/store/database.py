# SPDX-License-Identifier: Apache-2.0
"""The one connection of the store, its lock, and its transactions.

Calls wait for one another, so that no call may read more than it returns.
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
    """A lock on the file PATH.lock beside the store, held from creation until `release`.

    The store itself is not locked, because closing another descriptor of it would drop SQLite's own
    locks (https://www.sqlite.org/howtocorrupt.html, 2.2). Raises StoreError if another process
    holds the lock.
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
        """Release the lock. The file stays: otherwise two could lock two files of one name."""
        self._file.close()


class Database:
    """One SQLite file, locked. Any thread may call it. `clock` returns seconds since 1970.

    Raises StoreError if it cannot be opened, and StoreFailedError if a later read or write fails.
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
        """Close the connection and release the lock. Nothing is lost if this is never called."""
        with self._lock:
            self._db.close()
            self._file_lock.release()

    @property
    def problem(self) -> str:
        """Why the store cannot be read or written now; empty while it can."""
        return self._health.problem

    def check(self) -> str:
        """Return `problem`, after another attempt to write if there is one."""
        if self.problem:
            with suppress(StoreFailedError), self._transaction() as db:
                db.execute("INSERT OR REPLACE INTO meta VALUES ('checked_s', ?)", (self._clock(),))
        return self.problem

    def _begin(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make all writes inside one transaction, by any calls of this thread."""
        with self._transaction():
            yield

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._db.in_transaction:
                # Inside another transaction, which commits or rolls back both.
                yield self._db
                return
            try:
                self._begin()
                yield self._db
                self._db.execute("COMMIT")
            except BaseException as error:
                # With a full disk SQLite has rolled back already, or leaves the transaction open on
                # commit.
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
        """Seconds since 1970, by the clock that is used for the age of rows."""
        return self._clock()
