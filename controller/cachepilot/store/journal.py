# SPDX-License-Identifier: Apache-2.0
"""What a node needs after a restart: its epochs, its last hello, and the state of its decider."""

import sqlite3
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cachepilot.domain.json_values import UNREADABLE
from cachepilot.domain.names import node_name
from cachepilot.store.quarantine import Quarantine
from cachepilot.store.schema import OF_NODES

EPOCHS_RESERVED = 1000
"""Epochs that are reserved at once. After a crash those not used are skipped."""


@dataclass(frozen=True)
class NodeRow:
    """A node when it was last seen: its hello as protocol bytes, and its state as JSON.

    `tenant_states` are newer states of tenants, and of memory changes under way. `last_seen_s` is
    the node's time, `heard_s` that of this host, both in seconds since 1970.
    """

    name: str
    epoch: int
    hello: bytes | None
    last_seen_s: float
    state: str | None
    tenant_states: Mapping[str, str] = field(default_factory=dict)
    heard_s: float = 0.0


class Journal(Quarantine):
    """Nodes, by name."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        super().__init__(path, clock)
        self._state_crc: dict[str, int] = {}

    def reserve_epochs(self, node: str, above: int) -> tuple[int, int]:
        """Return a range [first, end) of epochs above `above` that no plan of the node had."""
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
        """Return every node that was seen and not forgotten.

        A row with an invalid name is moved to the quarantine.
        """
        rows = self._rows(
            "SELECT nodes.rowid, CAST(name AS BLOB), epoch, hello, last_seen_s,"
            " CAST(guard AS BLOB), coalesce(heard_s, 0)"
            " FROM nodes LEFT JOIN heard ON node = name ORDER BY name"
        )
        found = []
        for rowid, stored_name, epoch, hello, seen_s, guard, heard_s in rows:
            try:
                name = node_name(stored_name.decode())
            except UNREADABLE as error:
                with self._transaction() as db:
                    self._set_aside(db, "node", stored_name, error)
                    db.execute("DELETE FROM nodes WHERE rowid = ?", (rowid,))
                continue
            # Invalid text becomes a state that cannot be read, and such a state starts again.
            state = None if guard is None else guard.decode(errors="replace")
            tenants = self._tenant_states(name, state)
            found.append(NodeRow(name, epoch, hello, seen_s, state, tenants, heard_s))
        return found

    def forget(self, node: str) -> None:
        """Drop all rows of a node. Pins on it stay, because they are the operator's."""
        with self._transaction() as db:
            db.execute("DELETE FROM nodes WHERE name = ?", (node,))
            for table in OF_NODES:
                db.execute(f"DELETE FROM {table} WHERE node = ?", (node,))
        self._state_crc.pop(node, None)

    def _tenant_states(self, node: str, state: str | None) -> dict[str, str]:
        """States of tenants that changed since `state` was stored. Other rows are of older ones."""
        query = "SELECT cgroup, state FROM guard_tenants WHERE node = ? AND guard_crc = ?"
        return dict(self._rows(query, node, _crc(state or "")))

    def set_hello(self, node: str, hello: bytes) -> None:
        """Store a node's hello, and that it was heard of now."""
        with self._transaction() as db:
            db.execute("UPDATE nodes SET hello = ? WHERE name = ?", (hello, node))
            db.execute("INSERT OR REPLACE INTO heard VALUES (?, ?)", (node, self._clock()))

    def _write_node(
        self,
        db: sqlite3.Connection,
        node: str,
        last_seen_s: float,
        state: str | None,
        tenant_states: Mapping[str, str],
    ) -> int:
        """Write the state of a node; return the checksum that the rows of its tenants refer to.

        If `state` is None, the stored state stays, except for `tenant_states`.
        """
        # Rows of tenants name the state that they belong to by its checksum, because an earlier
        # version of the controller replaces the state alone.
        crc = self._state_crc.get(node, 0)
        # An update of any column of a node's row would write its whole state again.
        if state is not None:
            db.execute("INSERT OR REPLACE INTO heard VALUES (?, ?)", (node, self._clock()))
            query = "UPDATE nodes SET last_seen_s = ?, guard = ? WHERE name = ?"
            db.execute(query, (last_seen_s, state, node))
            db.execute("DELETE FROM guard_tenants WHERE node = ?", (node,))
            crc = _crc(state)
        db.executemany(
            "INSERT OR REPLACE INTO guard_tenants VALUES (?, ?, ?, ?)",
            [(node, cgroup, crc, state) for cgroup, state in tenant_states.items()],
        )
        return crc


def _crc(state: str) -> int:
    return zlib.crc32(state.encode())
