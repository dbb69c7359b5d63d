# SPDX-License-Identifier: Apache-2.0
"""The changes of one node, a row each. Later decisions about a change complete its row."""

from collections.abc import Callable, Collection, Iterable, Mapping

from cachepilot.domain.decisions import Decision, Event, Reading, Setting
from cachepilot.domain.past.change import (
    ChangeKind,
    ChangeRow,
    ChangeState,
    EvidenceSeries,
)
from cachepilot.sizes import human_bytes
from cachepilot.store.changes import Written

WAITING_MAX = 10_000
"""Rows that wait until the store can be written. Beyond that the oldest is dropped and counted."""
ENDS = {
    Event.KEPT: ChangeState.CONFIRMED,
    Event.REVERTED: ChangeState.UNDONE,
    Event.ABANDONED: ChangeState.ABANDONED,
    Event.REFUSED: ChangeState.REFUSED,
}
LOST = "it ended unobserved: an operator or the objectives decided, or the state was lost"
Key = tuple[str, ChangeKind]
"""A tenant, and what is changed of it. It has at most one change of each kind under way."""


def kind_of(one: Decision) -> ChangeKind:
    """The kind of change that a decision is about."""
    if one.event is Event.RECOMMENDED:
        return ChangeKind.RECOMMENDATION
    return ChangeKind.POLICY if one.before.policy != one.after.policy else ChangeKind.MEMORY


def change_text(before: Setting, after: Setting) -> str:
    """What changes between two settings, in one line."""
    parts = []
    if before.policy != after.policy:
        parts.append(f"{before.policy} → {after.policy}")
    if before.limit_bytes != after.limit_bytes or not parts:
        parts.append(f"{human_bytes(before.limit_bytes)} → {human_bytes(after.limit_bytes)}")
    return ", ".join(parts)


def _is_of(one: Decision, row: ChangeRow) -> bool:
    """Whether a decision is about the change of a row, whose target limit may have moved."""
    if (one.before.policy, one.before.limit_bytes) != (row.from_policy, row.from_limit_bytes):
        return row.kind is ChangeKind.POLICY and one.before.policy == row.from_policy
    return row.kind is ChangeKind.MEMORY or one.after.policy == row.to_policy


class ChangeLog:
    """Rows of changes that have not ended, by tenant and kind, and rows that are not stored yet."""

    def __init__(
        self, node: str, rows: Iterable[Written] = (), lost: Callable[[], None] = lambda: None
    ) -> None:
        """`lost` is called for every row that is dropped before it is stored."""
        self._node, self._lost = node, lost
        self._open: dict[Key, Written] = {}
        self._waiting: dict[int, Written] = {}
        """By the identity of a row, in the order in which rows came to wait."""
        self._ended: dict[str, ChangeRow] = {}
        """By tenant, the change of its policy that ended in this cycle."""
        self.just_ended: list[Written] = []
        """Rows that ended in the last cycle."""
        for row, series in rows:
            self._open[row.cgroup, row.kind] = row, series

    def live(self) -> Iterable[Written]:
        """Changes of settings that are under way."""
        return [one for one in self._open.values() if one[0].state is ChangeState.LIVE]

    def take(self, decisions: Iterable[Decision], epoch: int) -> None:
        """Take in the decisions of one cycle, in their order."""
        self._ended.clear()
        self.just_ended.clear()
        for one in decisions:
            if one.event in (Event.TRIAL, Event.RECOMMENDED):
                self._begin(one, epoch)
            elif not self._is_return(one):
                self._end(one, epoch)

    def keep_only(self, under_way: Mapping[str, Collection[ChangeKind]], time_s: float) -> None:
        """End changes that are not `under_way` any more although no decision ended them.

        A tenant that is not in `under_way` is missing from the snapshot and may come back.
        """
        for (cgroup, kind), (row, _) in list(self._open.items()):
            is_live = row.state is ChangeState.LIVE
            if is_live and cgroup in under_way and kind not in under_way[cgroup]:
                self._close((cgroup, kind), ChangeState.ABANDONED, time_s, LOST)

    def forget_all_but(self, cgroups: Collection[str], time_s: float) -> None:
        """End the changes of tenants that are gone."""
        for key, (row, _) in list(self._open.items()):
            if row.cgroup not in cgroups:
                live = row.state is ChangeState.LIVE
                state = ChangeState.ABANDONED if live else row.state
                self._close(key, state, time_s, "the cgroup is gone")

    @property
    def has_news(self) -> bool:
        """Whether rows wait to be stored."""
        return bool(self._waiting)

    def unstored(self, all_of_them: bool) -> list[Written]:
        """Return rows to write: those whose state changed, or all that have not ended as well."""
        found = list(self._waiting.values())
        if all_of_them:
            found += [one for one in self._open.values() if id(one[0]) not in self._waiting]
        return found

    def stored(self) -> None:
        """Note that what `unstored` last returned is in the store."""
        self._waiting.clear()

    def _begin(self, one: Decision, epoch: int) -> None:
        kind = kind_of(one)
        key = one.cgroup, kind
        known = self._open.get(key)
        if known is not None and known[0].state is ChangeState.LIVE and _is_of(one, known[0]):
            aim(known[0], one.before, one.after, one.predicted)
            self._wait(known)
            return
        if known is not None:
            row = known[0]
            live = row.state is ChangeState.LIVE
            state = ChangeState.ABANDONED if live else row.state
            self._close(key, state, one.time_s, "another took its place")
        is_recommended = kind is ChangeKind.RECOMMENDATION
        state = ChangeState.RECOMMENDED if is_recommended else ChangeState.LIVE
        row = self._row(one, kind, state, epoch)
        row.why = one.why
        series = None if is_recommended else EvidenceSeries(_UNITS[kind])
        self._open[key] = row, series
        self._wait((row, series))

    def _end(self, one: Decision, epoch: int) -> None:
        kind, state = kind_of(one), ENDS[one.event]
        key = one.cgroup, kind
        known = self._open.get(key)
        is_known = known is not None and known[0].state is ChangeState.LIVE
        # A limit that the node refused does not end the change of memory that it is a step of.
        is_step = one.event is Event.REFUSED and one.before == one.after
        if known is not None and is_known and not is_step and _is_of(one, known[0]):
            row = known[0]
            predicted = Reading(row.predicted_ops, row.predicted_miss_ratio)
            aim(row, one.before, one.after, predicted if one.predicted.is_empty else one.predicted)
            row.measured_ops = one.measured.ops
            row.measured_miss_ratio = one.measured.miss_ratio
            self._close(key, state, one.time_s, one.why)
            if kind is ChangeKind.POLICY:
                self._ended[one.cgroup] = row
            return
        # A change that ends at once: a refusal, or a policy that the objectives do not allow.
        row = self._row(one, kind, state, epoch)
        row.ended_s, row.why = one.time_s, one.why
        self._wait((row, None))

    def _is_return(self, one: Decision) -> bool:
        """Whether a policy goes back to the one that the change that just ended had replaced.

        If so, mark that change as undone: its return is no change of its own.
        """
        ended = self._ended.get(one.cgroup)
        if ended is None or one.event is not Event.KEPT or one.after.policy != ended.from_policy:
            return False
        ended.state, ended.outcome = ChangeState.UNDONE, f"{ended.outcome}; {one.why}"
        return True

    def _row(self, one: Decision, kind: ChangeKind, state: ChangeState, epoch: int) -> ChangeRow:
        row = ChangeRow(kind, state, self._node, one.cgroup, one.time_s, epoch=epoch)
        row.from_policy, row.from_limit_bytes = one.before.policy, one.before.limit_bytes
        row.to_policy, row.to_limit_bytes = one.after.policy, one.after.limit_bytes
        row.baseline_ops, row.baseline_miss_ratio = one.baseline.ops, one.baseline.miss_ratio
        row.measured_ops, row.measured_miss_ratio = one.measured.ops, one.measured.miss_ratio
        aim(row, one.before, one.after, one.predicted)
        return row

    def _close(self, key: Key, state: ChangeState, time_s: float, outcome: str) -> None:
        found = self._open.pop(key)
        found[0].end(state, time_s, outcome)
        self.just_ended.append(found)
        self._wait(found)

    def _wait(self, one: Written) -> None:
        self._waiting.setdefault(id(one[0]), one)
        while len(self._waiting) > WAITING_MAX:
            del self._waiting[next(iter(self._waiting))]
            self._lost()


_UNITS = {
    ChangeKind.POLICY: "pages not read",
    ChangeKind.MEMORY: "gain of the goal, by all tenants that the change moves",
}


def aim(row: ChangeRow, before: Setting, after: Setting, predicted: Reading) -> None:
    """Set where a change goes, and what is predicted of it."""
    row.to_policy, row.to_limit_bytes = after.policy, after.limit_bytes
    row.predicted_ops, row.predicted_miss_ratio = predicted.ops, predicted.miss_ratio
    row.text = change_text(before, after)
