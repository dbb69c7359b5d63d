# SPDX-License-Identifier: Apache-2.0
"""What operators stated: objectives, pins, and rollouts, as they are stored.

A rollout moves tenants between nodes (consolidation), and sets pins of its own meanwhile.
"""

import json
import sqlite3
from dataclasses import asdict
from typing import Any

from cachepilot.domain.json_values import UNREADABLE, decode, encode
from cachepilot.domain.moving import Rollout
from cachepilot.domain.objectives.as_json import (
    objectives_from_json,
    objectives_to_json,
    readable_objectives,
)
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.objectives.pins import Before, Pin, require_whole_pages
from cachepilot.errors import InputError
from cachepilot.store.quarantine import Quarantine

CHANGES_MAX = 100
"""The last changes that can be undone, at most."""
ROLLOUTS_MAX = 20
"""The last rollouts that are kept, at most."""
_SET_OBJECTIVES = "INSERT OR REPLACE INTO meta VALUES ('objectives', ?)"
# As bytes, because invalid text would fail the whole query.
_PINS = """
SELECT p.rowid, CAST(p.node AS BLOB), CAST(p.cgroup AS BLOB), CAST(p.policy AS BLOB),
  p.limit_bytes, e.until_s, r.rollout
FROM pins AS p LEFT JOIN ends_of_pins AS e ON p.node = e.node AND p.cgroup = e.cgroup
  AND p.policy IS e.policy AND p.limit_bytes IS e.limit_bytes
LEFT JOIN rollouts_of_pins AS r ON e.node = r.node AND e.cgroup = r.cgroup
  AND e.until_s = r.until_s
ORDER BY p.node, p.cgroup"""


def _pin(
    node: bytes,
    cgroup: bytes,
    policy: bytes | None,
    limit_bytes: Any,
    until_s: float | None,
    rollout: int | None,
) -> Pin:
    name = None if policy is None else policy.decode()
    found = Pin(cgroup.decode(), node.decode() or None, name, limit_bytes, until_s, rollout)
    if found.cgroup.encode() != cgroup:
        raise InputError(f"{found.cgroup}: is stored under another name")
    if limit_bytes is not None:
        require_whole_pages("limit_bytes", limit_bytes)
    return found


class Stated(Quarantine):
    """Objectives and pins. Each call that changes them is one transaction."""

    def objectives(self) -> Objectives | None:
        """Return the objectives in force; None if there never were any, or none can be read.

        An objective that cannot be read is moved to the quarantine.
        """
        rows = self._rows("SELECT CAST(value AS BLOB) FROM meta WHERE key = 'objectives'")
        if not rows:
            return None
        found, bad = readable_objectives(rows[0][0])
        if bad:
            with self._transaction() as db:
                for one in bad:
                    self._set_aside(db, "objective", one.text, one.why)
                if found is None:
                    db.execute("DELETE FROM meta WHERE key = 'objectives'")
                else:
                    db.execute(_SET_OBJECTIVES, (objectives_to_json(found),))
        return found

    def set_objectives(self, objectives: Objectives) -> None:
        """Replace all objectives."""
        values = (objectives_to_json(objectives),)
        with self._transaction() as db:
            db.execute(_SET_OBJECTIVES, values)

    def pins(self) -> list[Pin]:
        """Return every pin; move those that cannot be read to the quarantine.

        An end applies to the exact pin that it was stored with. An earlier version of the
        controller knows no ends, so that a pin that it sets in place of that one has none. A
        rollout owns a pin with the end that the rollout gave it; any other pin is an operator's.
        """
        found: list[Pin] = []
        for rowid, *row in self._rows(_PINS):
            try:
                found.append(_pin(*row))
            except UNREADABLE as error:
                with self._transaction() as db:
                    self._set_aside(db, "pin", repr(row).encode(), error)
                    db.execute("DELETE FROM pins WHERE rowid = ?", (rowid,))
        return found

    def set_pin(self, pin: Pin) -> None:
        """Add a pin, or replace that of the same cgroup and node."""
        values = (pin.node or "", pin.cgroup, pin.policy, pin.limit_bytes)
        with self._transaction() as db:
            db.execute("INSERT OR REPLACE INTO pins VALUES (?, ?, ?, ?)", values)
            self._forget_end(db, *values[:2])
            if pin.until_s is not None:
                ends = (*values, pin.until_s)
                db.execute("INSERT INTO ends_of_pins VALUES (?, ?, ?, ?, ?)", ends)
            if pin.rollout is not None:
                held = (*values[:2], pin.until_s, pin.rollout)
                db.execute("INSERT INTO rollouts_of_pins VALUES (?, ?, ?, ?)", held)

    def delete_pin(self, cgroup: str, node: str | None) -> bool:
        """Remove a pin; return False if there was none."""
        with self._transaction() as db:
            of = (node or "", cgroup)
            self._forget_end(db, *of)
            found = db.execute("DELETE FROM pins WHERE node = ? AND cgroup = ?", of)
            return found.rowcount > 0

    def _forget_end(self, db: sqlite3.Connection, node: str, cgroup: str) -> None:
        for table in ("ends_of_pins", "rollouts_of_pins"):
            db.execute(f"DELETE FROM {table} WHERE node = ? AND cgroup = ?", (node, cgroup))


class StatedBefore(Quarantine):
    """The last changes of objectives and pins, each with both documents before the change."""

    def remember(self, objectives: Objectives, pins: tuple[Pin, ...], what: str) -> Before:
        """Store what operators stated before a change, and return it with the change's number.

        Pins of a rollout are left out.
        """
        pins = tuple(pin for pin in pins if pin.rollout is None)
        told = json.dumps([_told(pin) for pin in pins])
        now_s = self._clock()
        with self._transaction() as db:
            query = "INSERT INTO stated_before (stored_s, what, objectives, pins)"
            values = (now_s, what, objectives_to_json(objectives), told)
            row = db.execute(f"{query} VALUES (?, ?, ?, ?)", values)
            change = int(row.lastrowid or 0)
            db.execute("DELETE FROM stated_before WHERE id <= ?", (change - CHANGES_MAX,))
        return Before(change, now_s, what, objectives, pins)

    def last_before(self) -> Before | None:
        """Return what was stated before the last change that was not undone; None without one.

        If that cannot be read, it is moved to the quarantine, and no earlier change can be undone,
        because that would undo both.
        """
        rows = self._rows(
            "SELECT id, stored_s, CAST(what AS BLOB), CAST(objectives AS BLOB), CAST(pins AS BLOB)"
            " FROM stated_before ORDER BY id DESC LIMIT 1"
        )
        if not rows:
            return None
        try:
            return _before(*rows[0])
        except UNREADABLE as error:
            with self._transaction() as db:
                self._set_aside(db, "change", repr(rows[0]).encode(), error)
                db.execute("DELETE FROM stated_before")
            return None

    def forget_before(self, change: int) -> None:
        """Note that a change was undone."""
        with self._transaction() as db:
            db.execute("DELETE FROM stated_before WHERE id = ?", (change,))


def _told(pin: Pin) -> dict[str, Any]:
    return {key: value for key, value in asdict(pin).items() if key != "rollout"}


def _before(change: int, stored_s: float, what: bytes, objectives: bytes, pins: bytes) -> Before:
    stated = objectives_from_json(objectives.decode(), "store")
    told = tuple(Pin(**one) for one in json.loads(pins))
    return Before(change, stored_s, what.decode(), stated, told)


class Rollouts(Quarantine):
    """Rollouts. Each call is one transaction."""

    def save_rollout(self, rollout: Rollout) -> None:
        """Add a rollout, or replace that of the same id."""
        with self._transaction() as db:
            values = (rollout.id, encode(rollout))
            db.execute("INSERT OR REPLACE INTO rollouts (id, document) VALUES (?, ?)", values)
            db.execute("DELETE FROM rollouts WHERE id <= ?", (rollout.id - ROLLOUTS_MAX,))

    def last_rollout(self) -> Rollout | None:
        """Return the newest rollout that can be read; None without one.

        Newer ones that cannot be read are moved to the quarantine.
        """
        rows = self._rows(
            "SELECT id, CAST(document AS BLOB) FROM rollouts ORDER BY id DESC LIMIT 1"
        )
        if not rows:
            return None
        number, document = rows[0]
        try:
            found: Rollout = decode(Rollout, json.loads(document))
            # Earlier versions rehearsed whole drains, and did not store which moves were rehearsed.
            return found.with_rehearsed()
        except UNREADABLE as error:
            with self._transaction() as db:
                self._set_aside(db, "rollout", document, error)
                db.execute("DELETE FROM rollouts WHERE id = ?", (number,))
            # Return the one before it. The next rollout is numbered after that one.
            return self.last_rollout()
