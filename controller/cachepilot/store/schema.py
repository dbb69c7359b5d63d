# SPDX-License-Identifier: Apache-2.0
"""The tables of the store, and how its file is opened. Later versions only add to it."""

import sqlite3
from pathlib import Path

from cachepilot.store.failures import StoreError, told

VERSION = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS quarantine (
  id INTEGER PRIMARY KEY AUTOINCREMENT, stored_s REAL NOT NULL, kind TEXT NOT NULL,
  entry BLOB NOT NULL, why TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pins (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, policy TEXT, limit_bytes INTEGER,
  PRIMARY KEY (node, cgroup));
CREATE TABLE IF NOT EXISTS ends_of_pins (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, policy TEXT, limit_bytes INTEGER,
  until_s REAL NOT NULL, PRIMARY KEY (node, cgroup));
CREATE TABLE IF NOT EXISTS rollouts_of_pins (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, until_s REAL NOT NULL, rollout INTEGER NOT NULL,
  PRIMARY KEY (node, cgroup));
CREATE TABLE IF NOT EXISTS stated_before (
  id INTEGER PRIMARY KEY AUTOINCREMENT, stored_s REAL NOT NULL, what TEXT NOT NULL,
  objectives TEXT NOT NULL, pins TEXT NOT NULL);
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
CREATE TABLE IF NOT EXISTS changes (
  id INTEGER PRIMARY KEY AUTOINCREMENT, stored_s REAL NOT NULL,
  kind TEXT NOT NULL, state TEXT NOT NULL, node TEXT NOT NULL, cgroup TEXT NOT NULL,
  begun_s REAL NOT NULL, ended_s REAL, epoch INTEGER NOT NULL,
  by_kind TEXT NOT NULL, "by" TEXT NOT NULL,
  from_policy TEXT, to_policy TEXT, from_limit_bytes INTEGER, to_limit_bytes INTEGER,
  baseline_ops REAL, predicted_ops REAL, measured_ops REAL,
  baseline_miss_ratio REAL, predicted_miss_ratio REAL, measured_miss_ratio REAL,
  text TEXT NOT NULL, why TEXT NOT NULL, outcome TEXT NOT NULL,
  "before" TEXT, "after" TEXT, count INTEGER NOT NULL, evidence TEXT);
CREATE INDEX IF NOT EXISTS changes_of_node ON changes (node, id);
CREATE INDEX IF NOT EXISTS changes_of_cgroup ON changes (cgroup, id);
CREATE INDEX IF NOT EXISTS changes_begun ON changes (begun_s);
CREATE INDEX IF NOT EXISTS changes_live ON changes (node) WHERE ended_s IS NULL;
CREATE TABLE IF NOT EXISTS baselines (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, cgroup_id TEXT NOT NULL, policy TEXT NOT NULL,
  limit_bytes INTEGER NOT NULL, since_s REAL NOT NULL, until_s REAL NOT NULL,
  seconds REAL NOT NULL, intervals INTEGER NOT NULL, operations REAL NOT NULL,
  ops_squares REAL NOT NULL, accesses INTEGER NOT NULL, misses REAL NOT NULL,
  closed INTEGER NOT NULL, PRIMARY KEY (node, cgroup));
CREATE TABLE IF NOT EXISTS series (
  stored_s REAL NOT NULL, node TEXT NOT NULL, cgroup TEXT NOT NULL, step_s INTEGER NOT NULL,
  begun_s REAL NOT NULL, ended_s REAL NOT NULL, points INTEGER NOT NULL, data BLOB NOT NULL,
  UNIQUE (node, cgroup, step_s, begun_s));
CREATE INDEX IF NOT EXISTS series_of_step ON series (step_s, stored_s);
CREATE INDEX IF NOT EXISTS series_stored ON series (stored_s);
CREATE TABLE IF NOT EXISTS needs (
  node TEXT NOT NULL, slot INTEGER NOT NULL, tenants TEXT NOT NULL, PRIMARY KEY (node, slot));
CREATE TABLE IF NOT EXISTS slo_windows (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, kind TEXT NOT NULL, minute INTEGER NOT NULL,
  windows INTEGER NOT NULL, met INTEGER NOT NULL,
  PRIMARY KEY (node, cgroup, kind, minute));
CREATE TABLE IF NOT EXISTS slo_hours (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, kind TEXT NOT NULL, hour INTEGER NOT NULL,
  windows INTEGER NOT NULL, met INTEGER NOT NULL,
  PRIMARY KEY (node, cgroup, kind, hour));
CREATE TABLE IF NOT EXISTS slo_targets (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, kind TEXT NOT NULL,
  target REAL NOT NULL, since_s REAL NOT NULL,
  PRIMARY KEY (node, cgroup, kind));
CREATE TABLE IF NOT EXISTS slo_totals (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, kind TEXT NOT NULL,
  windows INTEGER NOT NULL, met INTEGER NOT NULL,
  PRIMARY KEY (node, cgroup, kind));
CREATE TABLE IF NOT EXISTS decision_totals (
  node TEXT NOT NULL, cgroup TEXT NOT NULL, event TEXT NOT NULL, count INTEGER NOT NULL,
  PRIMARY KEY (node, cgroup, event));
CREATE TABLE IF NOT EXISTS rollouts (id INTEGER PRIMARY KEY, document TEXT NOT NULL);
"""
OF_NODES = (
    "heard", "guard_tenants", "decisions", "records", "slo_windows", "slo_totals",
    "decision_totals", "changes", "baselines", "slo_hours", "slo_targets",
    "series", "needs",
)  # fmt: skip
"""Tables whose rows belong to one `node`, beside `nodes` itself."""


CHECKED_BYTES_MAX = 256 << 20
"""Files up to this size are read as a whole when they are opened, to find damage before use."""


def open_database(path: Path, now_s: float) -> sqlite3.Connection:
    """Return a connection to the file, with all tables. Threads may use it one at a time.

    `now_s` is the time of this host in seconds since 1970. Raises StoreError, also for a damaged
    file.
    """
    db = None
    try:
        db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        _prepare(db, path, now_s)
    except (sqlite3.Error, StoreError) as error:
        if db is not None:
            db.close()
        if isinstance(error, StoreError):
            raise
        raise StoreError(told(path, "cannot be opened", error)) from None
    return db


def _prepare(db: sqlite3.Connection, path: Path, now_s: float) -> None:
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    db.execute("PRAGMA busy_timeout=5000")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version not in (0, VERSION):
        raise StoreError(f"store {path}: version {version} (allowed: {VERSION})")
    if path.stat().st_size <= CHECKED_BYTES_MAX:
        found = db.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            damaged = sqlite3.DatabaseError(" ".join(found.split()))
            damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damaged
    db.executescript(f"{SCHEMA} PRAGMA user_version={VERSION};")
    # An earlier version did not store when a node was last heard of: it counts as heard of now.
    db.execute("INSERT OR IGNORE INTO heard SELECT name, ? FROM nodes", (now_s,))
