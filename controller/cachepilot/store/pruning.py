# SPDX-License-Identifier: Apache-2.0
"""Drops the rows that a table of the store should not keep, a few at a time."""

import sqlite3
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

ROWS = 2000
"""Rows that are examined and dropped at once. Cycles wait no longer than for one such step."""
PAUSE_S = 0.001
"""Seconds between two steps, so that a waiting thread gets the lock: it is not a fair lock."""


@dataclass(frozen=True)
class Table:
    """A table with a rising `key`: the last `most` rows stay, and none stored before `oldest_s`."""

    name: str
    key: str
    oldest_s: float
    most: int


def prune_table(
    rows: Callable[..., list[tuple[Any, ...]]],
    transaction: Callable[[], AbstractContextManager[sqlite3.Connection]],
    table: Table,
) -> None:
    """Drop rows of a table by its key; each call of `rows` and `transaction` takes the lock.

    All rows are examined, because times do not rise with the key if the clock went back.
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
