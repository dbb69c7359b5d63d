# SPDX-License-Identifier: Apache-2.0
"""Failures of the store: what a person is to do about each, and since when it cannot be written."""

import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path

from cachepilot.errors import InputError

LOG = logging.getLogger(__name__)
RECOVERED_S = 5.0
"""For so long every write has to succeed before the store counts as well again.

A full disk takes one small write and refuses the next.
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
"""Of an error code of SQLite: the rest says more about the same."""


class StoreError(InputError):
    """A store that cannot be opened; names the file and says what to do."""


class StoreFailedError(sqlite3.OperationalError):
    """A read or a write that failed, of which nothing was kept; names the file and what to do."""

    def __init__(self, message: str, is_full: bool) -> None:
        super().__init__(message)
        self.is_full = is_full


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY


def is_of_the_file(error: sqlite3.Error) -> bool:
    """Whether an error is about the file, and not about how it was asked."""
    return _code(error) in _ADVICE


def told(path: Path, what: str, error: Exception) -> str:
    """One line: the file, what cannot be done to it, why, and what to do."""
    advice = _ADVICE.get(_code(error)) if isinstance(error, sqlite3.Error) else None
    return f"store {path}: {what}: {error}" + (f"; {advice}" if advice else "")


class Health:
    """Whether the store can be read and written; changes of that are logged, once each.

    `problem` is empty while it can. `clock`: seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self.problem = ""
        self._path, self._clock = path, clock
        self._well_since_s: float | None = None

    def failed(self, what: str, error: sqlite3.Error) -> StoreFailedError:
        """Takes a failure in; the error to raise."""
        text = told(self._path, what, error)
        if not self.problem:
            LOG.error("%s", text)
        self.problem, self._well_since_s = text, None
        return StoreFailedError(text, _code(error) == sqlite3.SQLITE_FULL)

    def succeeded(self) -> None:
        """Takes a write in that succeeded."""
        if not self.problem:
            return
        now_s = self._clock()
        if self._well_since_s is None or now_s < self._well_since_s:
            self._well_since_s = now_s
        if now_s - self._well_since_s >= RECOVERED_S:
            self.problem = ""
            LOG.info("store %s: can be written again", self._path)
