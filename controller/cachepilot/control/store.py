# SPDX-License-Identifier: Apache-2.0
"""What outlives the controller, in SQLite: objectives, pins, epochs, trials, decisions, totals.

Every call is one transaction, so a crash leaves either all of it or nothing. There is one
connection under one lock: calls wait for one another, so none may read more than it answers.
"""

import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cachepilot.api.shapes import DecisionView, Pin
from cachepilot.control.decisions import Decision
from cachepilot.control.pruning import Table, prune_table
from cachepilot.control.slo_windows import MINUTES, Row, SloTotal
from cachepilot.control.totals import DecisionTotal
from cachepilot.errors import InputError
from cachepilot.planner.objectives import Objectives
from cachepilot.planner.record import objectives_from_json, objectives_to_json

VERSION = 1
DAY_S = 86_400.0
EPOCHS_RESERVED = 1000
"""Epochs that are taken at once: what a crash loses of them is never given out again."""
DECISIONS_MAX, RECORDS_MAX = 1_000_000, 50_000
"""Decisions, and records that replay some of them, that are kept at most, however young."""
RECORD_LEVEL = 1
"""Of compression: a higher one takes several times as long for a tenth less."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pins (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, policy TEXT, limit_bytes INTEGER,
  PRIMARY KEY (node, cgroup));
CREATE TABLE IF NOT EXISTS ends_of_pins (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, policy TEXT, limit_bytes INTEGER,
  until_s REAL NOT NULL, PRIMARY KEY (node, cgroup));
CREATE TABLE IF NOT EXISTS nodes (
  name TEXT PRIMARY KEY, epoch INTEGER NOT NULL DEFAULT 0, hello BLOB,
  last_seen_s REAL NOT NULL DEFAULT 0, guard TEXT);
CREATE TABLE IF NOT EXISTS heard (node TEXT PRIMARY KEY, heard_s REAL NOT NULL);
CREATE TABLE IF NOT EXISTS guard_tenants (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, guard_crc INTEGER NOT NULL, state TEXT NOT NULL,
  PRIMARY KEY (node, cgroup));
CREATE TABLE IF NOT EXISTS decisions (
  id INTEGER PRIMARY KEY AUTOINCREMENT, stored_s REAL NOT NULL, time_s REAL NOT NULL,
  node TEXT NOT NULL, cgroup TEXT NOT NULL, epoch INTEGER NOT NULL, event TEXT NOT NULL,
  from_policy TEXT NOT NULL, to_policy TEXT NOT NULL,
  from_limit_bytes INTEGER NOT NULL, to_limit_bytes INTEGER NOT NULL,
  baseline_ops REAL, predicted_ops REAL, measured_ops REAL,
  baseline_miss_ratio REAL, predicted_miss_ratio REAL, measured_miss_ratio REAL,
  why TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS decisions_of ON decisions (cgroup, node, id);
CREATE INDEX IF NOT EXISTS decisions_of_cgroup ON decisions (cgroup, id);
CREATE INDEX IF NOT EXISTS decisions_of_node ON decisions (node, id);
CREATE INDEX IF NOT EXISTS decisions_of_event ON decisions (event, id);
CREATE INDEX IF NOT EXISTS decisions_of_node_and_event ON decisions (node, event, id);
CREATE TABLE IF NOT EXISTS records (
  node TEXT NOT NULL, epoch INTEGER NOT NULL, stored_s REAL NOT NULL, record BLOB NOT NULL,
  PRIMARY KEY (node, epoch));
CREATE TABLE IF NOT EXISTS slo_windows (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, kind TEXT NOT NULL, minute INTEGER NOT NULL,
  windows INTEGER NOT NULL, met INTEGER NOT NULL,
  PRIMARY KEY (node, cgroup, kind, minute));
CREATE TABLE IF NOT EXISTS slo_totals (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, kind TEXT NOT NULL,
  windows INTEGER NOT NULL, met INTEGER NOT NULL,
  PRIMARY KEY (node, cgroup, kind));
CREATE TABLE IF NOT EXISTS decision_totals (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, event TEXT NOT NULL, count INTEGER NOT NULL,
  PRIMARY KEY (node, cgroup, event));
"""
OF_NODES = (
    "heard", "guard_tenants", "decisions", "records", "slo_windows", "slo_totals",
    "decision_totals",
)  # fmt: skip
"""Tables whose rows are of one `node`, beside `nodes` itself."""
COLUMNS = tuple(name for name in DecisionView.model_fields if name != "in_force")


class StoreError(InputError):
    """A store that cannot be opened; names the file."""


@dataclass(frozen=True)
class NodeRow:
    """A node as it was last seen: its hello as bytes of the wire, and its guard as JSON.

    `guard_tenants` are tenants of the guard that changed since. `last_seen_s` is the node's time,
    `heard_s` that of this host, both in seconds since 1970.
    """

    name: str
    epoch: int
    hello: bytes | None
    last_seen_s: float
    guard: str | None
    guard_tenants: Mapping[str, str] = field(default_factory=dict)
    heard_s: float = 0.0


def history_query(
    cgroup: str | None, node: str | None, limit: int, before: int | None, event: str | None
) -> tuple[str, list[str | int]]:
    """The query of `Store.history` and its values.

    A condition that is not asked for is left out: as "or is null" it would keep SQLite from its
    indexes, each of which is in the order of the answer.
    """
    asked: dict[str, str | int | None] = {
        "cgroup = ?": cgroup, "node = ?": node, "id < ?": before, "event = ?": event,
    }  # fmt: skip
    given = {condition: value for condition, value in asked.items() if value is not None}
    where = f" WHERE {' AND '.join(given)}" if given else ""
    query = f"SELECT {', '.join(COLUMNS)} FROM decisions{where} ORDER BY id DESC LIMIT ?"
    return query, [*given.values(), limit]


class Store:
    """One SQLite file; safe to call from any thread."""

    def __init__(
        self, path: Path, keep_days: float = 14.0, clock: Callable[[], float] = time.time
    ) -> None:
        self._keep_s, self._clock = keep_days * DAY_S, clock
        self._lock = threading.RLock()
        self._guard_crc: dict[str, int] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("PRAGMA busy_timeout=5000")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version not in (0, VERSION):
                raise StoreError(f"store {path}: version {version} (allowed: {VERSION})")
            self._db.executescript(f"{SCHEMA} PRAGMA user_version={VERSION};")
            # Of a version that did not write it down: as if it was heard of now.
            query = "INSERT OR IGNORE INTO heard SELECT name, ? FROM nodes"
            self._db.execute(query, (clock(),))
        except (OSError, sqlite3.Error) as error:
            raise StoreError(f"store {path}: cannot be opened: {error}") from None
        self.prune()

    def close(self) -> None:
        """Nothing is lost without it."""
        with self._lock:
            self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
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

    def prune(self) -> None:
        """Drops what is older than is to be kept, and what is beyond the bound."""
        oldest_s = self._clock() - self._keep_s
        for table, key, most in (
            ("decisions", "id", DECISIONS_MAX),
            ("records", "rowid", RECORDS_MAX),
        ):
            prune_table(self._rows, self._transaction, Table(table, key, oldest_s, most))
        # Node by node, so that cycles wait no longer than for one of them.
        for node, newest in self._rows("SELECT node, max(minute) FROM slo_windows GROUP BY node"):
            with self._transaction() as db:
                query = "DELETE FROM slo_windows WHERE node = ? AND minute <= ?"
                db.execute(query, (node, newest - MINUTES))

    def objectives(self) -> Objectives | None:
        """The objectives that hold; None when there never were any."""
        rows = self._rows("SELECT value FROM meta WHERE key = 'objectives'")
        return objectives_from_json(rows[0][0], "store") if rows else None

    def set_objectives(self, objectives: Objectives) -> None:
        """Replaces all objectives."""
        values = ("objectives", objectives_to_json(objectives))
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", values)

    def pins(self) -> list[Pin]:
        """Every pin. An end is that of one pin: another, of who knows no ends, is for good."""
        rows = self._rows(
            "SELECT p.node, p.cgroup, p.policy, p.limit_bytes, e.until_s FROM pins AS p"
            " LEFT JOIN ends_of_pins AS e ON p.node = e.node AND p.cgroup = e.cgroup"
            " AND p.policy IS e.policy AND p.limit_bytes IS e.limit_bytes ORDER BY 1, 2"
        )
        keys = ("node", "cgroup", "policy", "limit_bytes", "until_s")
        return [Pin(**dict(zip(keys, (row[0] or None, *row[1:]), strict=True))) for row in rows]

    def set_pin(self, pin: Pin) -> None:
        """Adds a pin, or replaces that of the same cgroup and node."""
        values = (pin.node or "", pin.cgroup, pin.policy, pin.limit_bytes)
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO pins VALUES (?, ?, ?, ?)", values)
            db.execute("DELETE FROM ends_of_pins WHERE node = ? AND cgroup = ?", values[:2])
            if pin.until_s is not None:
                ends = (*values, pin.until_s)
                db.execute("INSERT INTO ends_of_pins VALUES (?, ?, ?, ?, ?)", ends)

    def delete_pin(self, cgroup: str, node: str | None) -> bool:
        """Removes a pin; False when there was none."""
        with self._transaction() as db:
            of = (cgroup, node or "")
            db.execute("DELETE FROM ends_of_pins WHERE cgroup = ? AND node = ?", of)
            found = db.execute("DELETE FROM pins WHERE cgroup = ? AND node = ?", of)
            return found.rowcount > 0

    def reserve_epochs(self, node: str, above: int) -> tuple[int, int]:
        """Epochs, from the first to before the second, that no plan ever had on this node."""
        with self._transaction() as db:
            row = db.execute("SELECT epoch FROM nodes WHERE name = ?", (node,)).fetchone()
            first = max(row[0] if row else 0, above) + 1
            last = first + EPOCHS_RESERVED
            db.execute(
                "INSERT INTO nodes (name, epoch) VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch",
                (node, last - 1),
            )
        return first, last

    def nodes(self) -> list[NodeRow]:
        """Every node that was seen and is not forgotten."""
        rows = self._rows(
            "SELECT name, epoch, hello, last_seen_s, guard, coalesce(heard_s, 0) FROM nodes"
            " LEFT JOIN heard ON node = name ORDER BY 1"
        )
        return [
            NodeRow(name, epoch, hello, seen_s, guard, self._guard_tenants(name, guard), heard_s)
            for name, epoch, hello, seen_s, guard, heard_s in rows
        ]

    def forget(self, node: str) -> None:
        """Drops all that is stored of a node; pins on it are the operator's, and stay."""
        with self._transaction() as db:
            db.execute("DELETE FROM nodes WHERE name = ?", (node,))
            for table in OF_NODES:
                db.execute(f"DELETE FROM {table} WHERE node = ?", (node,))
        self._guard_crc.pop(node, None)

    def _guard_tenants(self, node: str, guard: str | None) -> dict[str, str]:
        """Those that changed since that guard was stored; others are of an earlier one."""
        query = "SELECT cgroup, state FROM guard_tenants WHERE node = ? AND guard_crc = ?"
        return dict(self._rows(query, node, _crc(guard or "")))

    def set_hello(self, node: str, hello: bytes) -> None:
        """Who a node said that it is."""
        with self._transaction() as db:
            db.execute("UPDATE nodes SET hello = ? WHERE name = ?", (hello, node))
            db.execute("INSERT OR REPLACE INTO heard VALUES (?, ?)", (node, self._clock()))

    def save(
        self,
        node: str,
        epoch: int,
        last_seen_s: float,
        decisions: Sequence[Decision] = (),
        guard: str | None = None,
        windows: Sequence[Row] = (),
        slo_totals: Sequence[SloTotal] = (),
        decision_totals: Sequence[DecisionTotal] = (),
        gone: Iterable[str] = (),
        guard_tenants: Mapping[str, str] | None = None,
    ) -> None:
        """What one cycle left, all of it or nothing; totals of tenants that are `gone` are dropped.

        A guard of None leaves the one that is stored, but for `guard_tenants`.
        """
        now_s = self._clock()
        # Tenants name the guard that they belong to: an earlier version replaces it alone.
        crc = self._guard_crc.get(node, 0)
        with self._transaction() as db:
            db.executemany(
                f"INSERT INTO decisions (stored_s, {', '.join(COLUMNS[1:])})"
                f" VALUES ({', '.join('?' * len(COLUMNS))})",
                [(now_s, *_columns(node, epoch, one)) for one in decisions],
            )
            db.execute(
                "UPDATE nodes SET last_seen_s = ?, guard = coalesce(?, guard) WHERE name = ?",
                (last_seen_s, guard, node),
            )
            db.execute("INSERT OR REPLACE INTO heard VALUES (?, ?)", (node, now_s))
            if guard is not None:
                db.execute("DELETE FROM guard_tenants WHERE node = ?", (node,))
                crc = _crc(guard)
            db.executemany(
                "INSERT OR REPLACE INTO guard_tenants VALUES (?, ?, ?, ?)",
                [(node, cgroup, crc, state) for cgroup, state in (guard_tenants or {}).items()],
            )
            db.executemany(
                "INSERT OR REPLACE INTO slo_windows VALUES (?, ?, ?, ?, ?, ?)",
                [(node, one.cgroup, one.kind, one.minute, one.windows, one.met) for one in windows],
            )
            for table in ("slo_totals", "decision_totals"):
                db.executemany(
                    f"DELETE FROM {table} WHERE node = ? AND cgroup = ?",
                    [(node, cgroup) for cgroup in gone],
                )
            db.executemany(
                "INSERT OR REPLACE INTO slo_totals VALUES (?, ?, ?, ?, ?)",
                [(node, one.cgroup, one.kind, one.windows, one.met) for one in slo_totals],
            )
            db.executemany(
                "INSERT OR REPLACE INTO decision_totals VALUES (?, ?, ?, ?)",
                [(node, one.cgroup, one.event, one.count) for one in decision_totals],
            )
        # Only now is it there: a transaction that failed left the one before.
        self._guard_crc[node] = crc

    def save_record(self, node: str, epoch: int, record: str) -> None:
        """What a decision depended on; see `cachepilot.planner.record`."""
        values = (node, epoch, self._clock(), zlib.compress(record.encode(), RECORD_LEVEL))
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", values)

    def record(self, node: str, epoch: int) -> str | None:
        """The record of the decisions of one epoch; None when it is not kept."""
        rows = self._rows("SELECT record FROM records WHERE node = ? AND epoch = ?", node, epoch)
        return zlib.decompress(rows[0][0]).decode() if rows else None

    def windows(self, node: str) -> list[Row]:
        """Windows of the promises of a node."""
        rows = self._rows(
            "SELECT cgroup, kind, minute, windows, met FROM slo_windows WHERE node = ?", node
        )
        return [Row(*row) for row in rows]

    def slo_totals(self, node: str) -> list[SloTotal]:
        """Windows of the promises of a node since they were first stated."""
        rows = self._rows("SELECT cgroup, kind, windows, met FROM slo_totals WHERE node = ?", node)
        return [SloTotal(*row) for row in rows]

    def decision_totals(self, node: str) -> list[DecisionTotal]:
        """Decisions about the tenants of a node since they were first seen."""
        rows = self._rows("SELECT cgroup, event, count FROM decision_totals WHERE node = ?", node)
        return [DecisionTotal(*row) for row in rows]

    def history(
        self,
        cgroup: str | None,
        node: str | None,
        limit: int,
        before: int | None = None,
        event: str | None = None,
    ) -> list[DecisionView]:
        """The last decisions, the newest first: those of an id below `before`, of one event."""
        query, values = history_query(cgroup, node, limit, before, event)
        rows = self._rows(query, *values)
        return [DecisionView(**dict(zip(COLUMNS, row, strict=True))) for row in rows]

    def later(self, one: DecisionView, key: str, events: Sequence[str], same: bool) -> int | None:
        """A decision after `one` that changed the same `key` of the tenant, to the `same` value."""
        rows = self._rows(
            f"SELECT id FROM decisions WHERE cgroup = ? AND node = ? AND id > ?"
            f" AND event IN ({', '.join('?' * len(events))}) AND from_{key} != to_{key}"
            f" AND (to_{key} = ? OR NOT ?) ORDER BY id LIMIT 1",
            one.cgroup, one.node, one.id, *map(str, events), getattr(one, f"to_{key}"), same,
        )  # fmt: skip
        return rows[0][0] if rows else None


def _crc(guard: str) -> int:
    return zlib.crc32(guard.encode())


def _columns(node: str, epoch: int, one: Decision) -> tuple[Any, ...]:
    """In the order of `DecisionView`, without its id."""
    return (
        one.time_s, node, one.cgroup, epoch, str(one.event),
        one.before.policy, one.after.policy, one.before.limit_bytes, one.after.limit_bytes,
        one.baseline.ops, one.predicted.ops, one.measured.ops,
        one.baseline.miss_ratio, one.predicted.miss_ratio, one.measured.miss_ratio,
        one.why,
    )  # fmt: skip
