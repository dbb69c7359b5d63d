# SPDX-License-Identifier: Apache-2.0
"""Writes what the control loop of one node stores, and keeps it if the store cannot be written."""

import logging
from collections import deque
from collections.abc import Collection, Sequence

from cachepilot.domain.decisions import Decision
from cachepilot.node import node_state
from cachepilot.node.deciding.decider import NodeState
from cachepilot.node.needs.node_needs import NodeNeeds
from cachepilot.node.series.node_series import SERIES_CYCLES, NodeSeries
from cachepilot.node.shown.baselines import Baselines
from cachepilot.node.shown.change_log import ChangeLog
from cachepilot.node.shown.slo_windows import SloWindows
from cachepilot.node.shown.totals import DecisionTotals
from cachepilot.node.timing import CYCLES_UNSTORED, DECISIONS_LOST, NEEDS_LOST
from cachepilot.store.failures import StoreFailedError
from cachepilot.store.store import Store

LOG = logging.getLogger(__name__)
WAITING_MAX = 10_000
"""Decisions that wait until the store can be written. Beyond that the oldest is dropped and
counted.
"""


class Keeper:
    """Writes decisions and the state of one node.

    `problem` says why the last write failed; it is empty while writes succeed. Decisions of a write
    that failed are written with the next one.
    """

    def __init__(self, name: str, store: Store) -> None:
        self.problem = ""
        self._name, self._store = name, store
        self.windows = SloWindows(
            store.windows(name),
            store.slo_totals(name),
            store.slo_targets(name),
            store.slo_hours(name),
        )
        self.totals = DecisionTotals(store.decision_totals(name))
        self.changes = ChangeLog(name, store.live_changes(name), DECISIONS_LOST.labels(name).inc)
        self.baselines = Baselines(store.baselines(name))
        self.needs = NodeNeeds(name, store, NEEDS_LOST.labels(name).inc)
        self._stored = node_state.Stored()
        self._waiting: deque[Decision] = deque()
        # Tenants whose rows are still in the store, since no write that was to drop them succeeded.
        self._gone: set[str] = set()

    @property
    def has_waiting(self) -> bool:
        """Whether decisions or changes of earlier cycles are not in the store yet."""
        return bool(self._waiting) or self.changes.has_news

    def keep(
        self, state: NodeState, decisions: Sequence[Decision], epoch: int, time_s: float
    ) -> bool:
        """Write what a cycle decided; return whether all decisions so far are in the store.

        A cycle that decided nothing writes nothing, unless a change of memory is under way, an
        earlier write failed, or the state changed beyond single tenants: for example, a tenant
        joined a change.
        """
        self._wait(decisions)
        self.totals.count(decisions)
        has_news = self.has_waiting or node_state.is_moving(state)
        if not has_news and not self._stored.is_due(state):
            return True
        try:
            whole, tenants = self._stored.texts(state, self._waiting)
            self._store.save(
                self._name, epoch, time_s, tuple(self._waiting), whole,
                decision_totals=self.totals.of(self._waiting), gone=self._gone,
                tenant_states=tenants, changes=self.changes.unstored(False),
            )  # fmt: skip
        except Exception as error:
            CYCLES_UNSTORED.labels(self._name).inc()
            self.failed(error)
            return False
        if whole is not None:
            self._stored.take(state)
        self._succeeded()
        return True

    def keep_all(
        self, state: NodeState, epoch: int, time_s: float, known: Collection[str] | None
    ) -> None:
        """Write the whole state and the windows; drop totals of all tenants that are not `known`.

        If `known` is None, no totals are dropped.
        """
        try:
            self._keep_all(state, epoch, time_s, known)
        except Exception as error:
            self.failed(error)
        else:
            self._stored.take(state)
            self._succeeded()

    def _keep_all(
        self, state: NodeState, epoch: int, time_s: float, known: Collection[str] | None
    ) -> None:
        if known is not None:
            self._gone |= self.windows.keep_only(known) | self.totals.keep_only(known)
            self._gone |= self.baselines.keep_only(known)
        totals = self.windows.totals_now(self.windows.changed())
        rows = self.windows.changed_minutes()
        self._store.save(
            self._name, epoch, time_s, tuple(self._waiting), node_state.to_json(state), rows,
            totals, self.totals.of(self._waiting), self._gone, changes=self.changes.unstored(True),
            baselines=self.baselines.changed(), slo_targets=self.windows.begun(),
            slo_hours=self.windows.changed_hours(),
        )  # fmt: skip
        self.windows.stored(totals)
        self.baselines.stored()

    def keep_series(self, series: NodeSeries, cycle: int | None = None) -> None:
        """Write time series of the tenants that are due in a cycle; of all with None."""
        part, parts = (0, 1) if cycle is None else (cycle % SERIES_CYCLES, SERIES_CYCLES)
        chunks, receipt = series.unstored(part, parts)
        if not chunks:
            return
        try:
            self._store.save_series(self._name, chunks)
        except Exception as error:
            self.failed(error)
        else:
            series.stored(receipt)

    def forget(self) -> None:
        """Note that a cycle failed half way: the next write stores the whole state."""
        self._stored.forget()

    def failed(self, error: Exception) -> None:
        """Note that a write failed: set `problem`, and count nothing as stored.

        The error is logged when `problem` was empty before.
        """
        self._stored.forget()
        if isinstance(error, StoreFailedError):
            # The store has logged this error itself, once for all nodes.
            self.problem = f"unsaved, only rollbacks are sent: {error}"
            return
        if not self.problem:
            LOG.error("node %s: its state cannot be stored", self._name, exc_info=error)
        self.problem = f"unsaved, only rollbacks are sent: its state cannot be stored: {error}"

    def _succeeded(self) -> None:
        self._waiting.clear()
        self._gone.clear()
        self.changes.stored()
        self.problem = ""

    def _wait(self, decisions: Sequence[Decision]) -> None:
        self._waiting.extend(decisions)
        while len(self._waiting) > WAITING_MAX:
            self._waiting.popleft()
            DECISIONS_LOST.labels(self._name).inc()
