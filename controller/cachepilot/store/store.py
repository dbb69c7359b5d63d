# SPDX-License-Identifier: Apache-2.0
"""The store of the controller: what must survive its restart, in one SQLite file.

It has objectives, pins, epochs, trials, decisions, totals and time series. Every call is one
transaction, so that a crash leaves either all of it or nothing. There is one connection under one
lock and calls wait for one another, so that no call may read more than it returns.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from cachepilot.domain.decisions import Decision
from cachepilot.domain.past.baseline import Baseline
from cachepilot.domain.recorded import DecisionTotal
from cachepilot.domain.slos import SloHour, SloMinute, SloTarget, SloTotal
from cachepilot.domain.units import DAY_S
from cachepilot.store.baselines import Baselines
from cachepilot.store.changes import ChangeHistory, Written
from cachepilot.store.failures import StoreError, StoreFailedError
from cachepilot.store.history import History
from cachepilot.store.journal import Journal
from cachepilot.store.series import NeedsStore, SeriesStore
from cachepilot.store.stated import Rollouts, Stated, StatedBefore
from cachepilot.store.totals import Totals


class Store(
    Stated, StatedBefore, Journal, History, ChangeHistory, Baselines, SeriesStore, NeedsStore,
    Totals, Rollouts,
):  # fmt: skip
    """One SQLite file. Any thread may call it."""

    def __init__(
        self, path: Path, keep_days: float = 14.0, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(path, clock)
        self._keep_s = keep_days * DAY_S
        try:
            self.prune()
        except StoreFailedError as error:
            # With a full disk the controller can still report its state and roll changes back.
            if not error.is_full:
                self.close()
                raise StoreError(str(error)) from None

    def prune(self) -> None:
        """Drop what is older than `keep_days`, and what exceeds the bounds of its table."""
        self._prune_history(self._clock() - self._keep_s)
        self._prune_changes(self._clock() - self._keep_s)
        self._prune_windows()
        self._prune_series()
        self._prune_needs()

    def save(
        self,
        node: str,
        epoch: int,
        last_seen_s: float,
        decisions: Sequence[Decision] = (),
        state: str | None = None,
        windows: Sequence[SloMinute] = (),
        slo_totals: Sequence[SloTotal] = (),
        decision_totals: Sequence[DecisionTotal] = (),
        gone: Collection[str] = (),
        tenant_states: Mapping[str, str] | None = None,
        changes: Sequence[Written] = (),
        baselines: Sequence[Baseline] = (),
        slo_targets: Sequence[SloTarget] = (),
        slo_hours: Sequence[SloHour] = (),
    ) -> None:
        """Write what one cycle left, all of it or nothing; drop totals of tenants that are `gone`.

        If `state` is None, the stored state stays, except for `tenant_states`. New `changes` get
        their id.
        """
        with self._transaction() as db:
            ids = self._write_changes(db, changes)
            self._write_baselines(db, node, baselines, gone)
            self._write_decisions(db, node, epoch, decisions)
            crc = self._write_node(db, node, last_seen_s, state, tenant_states or {})
            self._write_hours(db, node, slo_targets, slo_hours, gone)
            self._write_totals(db, node, windows, slo_totals, decision_totals, gone)
        # Set this after the transaction: if it failed, the stored state is still the one before.
        self._state_crc[node] = crc
        for (row, _), found in zip(changes, ids, strict=True):
            row.id = found
