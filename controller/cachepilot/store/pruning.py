# SPDX-License-Identifier: Apache-2.0
"""Drops what a table of the store is not to keep, a few rows at a time."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

ROWS = 2000
"""Rows that are looked at, and dropped, at once: cycles wait no longer than for so many."""
PAUSE_S = 0.001
"""Between that, so that who waits for the lock gets it: it is not handed over in turn."""


@dataclass(frozen=True)
class Table:
    """A table and its rising `key`: kept are the last `most` rows, and none `stored_s` before."""

    name: str
    key: str
    oldest_s: float
    most: int


def prune_table(
    rows: Callable[..., list[tuple[Any, ...]]],
    transaction: Callable[[], AbstractContextManager[sqlite3.Connection]],
    table: Table,
) -> None:
    """Walks a table by its key; each call of `rows` and `transaction` is under the store's lock.

    All of it, as times do not rise with the key where a clock went back.
    """
    name, key = table.name, table.key
    beyond = (rows(f"SELECT max({key}) FROM {name}")[0][0] or 0) - table.most
    some = f"SELECT {key} AS at, stored_s FROM {name} WHERE {key} > ? ORDER BY {key} LIMIT ?"
    look = f"SELECT max(at), total(stored_s < ? OR at <= ?) FROM ({some})"
    drop = f"DELETE FROM {name} WHERE {key} > ? AND {key} <= ? AND (stored_s < ? OR {key} <= ?)"
    after = -1
    while True:
        last, over = rows(look, table.oldest_s, beyond, after, ROWS)[0]
        if last is None:
            return
        if over:
            with transaction() as db:
                db.execute(drop, (after, last, table.oldest_s, beyond))
        after = last
        time.sleep(PAUSE_S)
