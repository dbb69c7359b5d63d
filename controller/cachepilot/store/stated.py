# SPDX-License-Identifier: Apache-2.0
"""What operators state, as it is stored: objectives and pins."""

from cachepilot.domain.objectives.as_json import objectives_from_json, objectives_to_json
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.objectives.pins import Pin
from cachepilot.store.database import Database


class Stated(Database):
    """Objectives and pins; each call that changes them is one transaction."""

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
