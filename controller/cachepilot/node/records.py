# SPDX-License-Identifier: Apache-2.0
"""Records from which decisions can be replayed. They are stored after the cycle's plan is sent."""

from cachepilot.node.plan_step import Planned
from cachepilot.node.timing import RECORDS_SKIPPED
from cachepilot.plan.record import Record, to_bytes
from cachepilot.sense.collect import Collected
from cachepilot.store.failures import StoreFailedError
from cachepilot.store.store import Store

TENANTS_MAX = 256
EVERY_S = 60.0
"""Seconds between two records of a node with more than TENANTS_MAX tenants, at least."""


class Records:
    """The records of one node."""

    def __init__(self, node: str, store: Store) -> None:
        self._node, self._store = node, store
        self._waiting: tuple[int, Record] | None = None
        self._taken_s = float("-inf")

    def take(self, collected: Collected, planned: Planned, epoch: int) -> None:
        """Make the record of a cycle that decided something; `store` writes it."""
        is_large = len(collected.seen) > TENANTS_MAX
        if is_large and collected.time_s - self._taken_s < EVERY_S:
            RECORDS_SKIPPED.labels(self._node).inc()
            return
        self._taken_s = collected.time_s
        record = Record(planned.snapshot, planned.objectives, planned.config, planned.plan)
        self._waiting = epoch, record

    def store(self) -> None:
        """Store the record that waits, if there is one. A failure drops and counts it."""
        if self._waiting is None:
            return
        epoch, record = self._waiting
        self._waiting = None
        try:
            self._store.save_record(self._node, epoch, to_bytes(record.applying()))
        except StoreFailedError:
            RECORDS_SKIPPED.labels(self._node).inc()
