# SPDX-License-Identifier: Apache-2.0
"""Failures of the store: what a person should do about each, and how long they last."""

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

from cachepilot.errors import InputError

LOG = logging.getLogger(__name__)
RECOVERED_S = 5.0
"""Seconds for which every write must succeed before the store counts as healthy again.

A full disk may accept one small write and refuse the next.
"""
_DAMAGED = "put a backup in its place, or move it away to begin without history"
_ADVICE = {
    sqlite3.SQLITE_FULL: "free space on its file system",
    sqlite3.SQLITE_READONLY: "let the controller write it",
    sqlite3.SQLITE_PERM: "let the controller write it",
    sqlite3.SQLITE_CANTOPEN: "let the controller write its folder",
    sqlite3.SQLITE_IOERR: "look at its file system, and at the kernel's log",
    sqlite3.SQLITE_BUSY: "end the other program that has it open",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}
_PRIMARY = 0xFF
"""The bits of an SQLite error code that name the primary error; the others give details."""


class StoreError(InputError):
    """The store cannot be opened. The message names the file and what to do."""


class StoreFailedError(sqlite3.OperationalError):
    """A read or write failed, and nothing of it was kept.

    The message names the file and what to do.
    """

    def __init__(self, message: str, is_full: bool) -> None:
        super().__init__(message)
        self.is_full = is_full


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY


def is_of_the_file(error: sqlite3.Error) -> bool:
    """Whether an error is one of the file, and not one of the query."""
    return _code(error) in _ADVICE


def told(path: Path, what: str, error: Exception) -> str:
    """One line that names the file, the failed operation, the cause, and what to do."""
    advice = _ADVICE.get(_code(error)) if isinstance(error, sqlite3.Error) else None
    return f"store {path}: {what}: {error}" + (f"; {advice}" if advice else "")


class Health:
    """Whether the store can be read and written. Each change of that is logged once.

    `problem` is empty while it can. `clock` returns seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.problem = ""
        self._path, self._clock = path, clock
        self._well_since_s: float | None = None

    def failed(self, what: str, error: sqlite3.Error) -> StoreFailedError:
        """Note a failure; return the error to raise."""
        text = told(self._path, what, error)
        if not self.problem:
            LOG.error("%s", text)
        self.problem, self._well_since_s = text, None
        return StoreFailedError(text, _code(error) == sqlite3.SQLITE_FULL)

    def succeeded(self) -> None:
        """Note a successful write."""
        if not self.problem:
            return
        now_s = self._clock()
        if self._well_since_s is None or now_s < self._well_since_s:
            self._well_since_s = now_s
        if now_s - self._well_since_s >= RECOVERED_S:
            self.problem = ""
            LOG.info("store %s: can be written again", self._path)
