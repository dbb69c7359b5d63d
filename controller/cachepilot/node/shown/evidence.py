# SPDX-License-Identifier: Apache-2.0
"""The evidence of the changes under way on one node: a point in every cycle."""

from math import isfinite

from cachepilot.decide.memory.state import MemoryChange
from cachepilot.decide.trial import Trial
from cachepilot.domain.decisions import Setting
from cachepilot.domain.past.change import ChangeKind, ChangeRow, EvidenceSeries
from cachepilot.node.deciding.decider import NodeState
from cachepilot.node.shown.change_log import ChangeLog, aim
from cachepilot.sense.collect import Collected

Point = tuple[float | None, float | None, float | None]
"""The gain, the gain predicted by now, and the bound above which a gain is not noise."""


def under_way(state: NodeState, collected: Collected) -> dict[str, set[ChangeKind]]:
    """What is on trial, by tenant, of all tenants that are present."""
    change = state.memory.change
    found: dict[str, set[ChangeKind]] = {}
    for cgroup, one in state.tenants.items():
        if cgroup not in collected.seen:
            continue
        kinds = found[cgroup] = set()
        if one.policy.trial is not None:
            kinds.add(ChangeKind.POLICY)
        if change is not None and cgroup in change.members:
            kinds.add(ChangeKind.MEMORY)
    return found


def _known(value: float) -> float | None:
    return value if isfinite(value) else None


def _of_policy(trial: Trial, alpha: float) -> Point:
    if not trial.intervals:
        return None, None, None
    return trial.gained, trial.expected, _known(trial.sure_bound(alpha))


def _of_memory(change: MemoryChange, elapsed_s: float, alpha: float) -> Point:
    since = change.since if change.settled_s is not None else change.gained
    if not since.intervals:
        return None, None, None
    predicted = None
    if change.expected is not None and elapsed_s > 0:
        predicted = change.expected * since.intervals * elapsed_s
    return since.total, predicted, _known(since.bound(alpha))


class Evidence:
    """Records the evidence of changes on trial. `interval_s` is the time between cycles."""

    def __init__(self, log: ChangeLog, interval_s: float, alpha: float) -> None:
        self._log, self._interval_s, self._alpha = log, interval_s, alpha
        self._sources: dict[int, Trial | MemoryChange] = {}
        """By the identity of a row, the trial or change with its evidence, also after it ended."""

    def observe(self, state: NodeState, collected: Collected) -> None:
        """Add a point to every change that is live or just ended; end those not on trial."""
        log = self._log
        log.keep_only(under_way(state, collected), collected.time_s)
        log.forget_all_but(collected.seen.keys() | state.away.keys(), collected.time_s)
        known, self._sources = self._sources, {}
        for row, series in log.just_ended:
            if id(row) in known and series is not None:
                self._add(row, series, known[id(row)], collected)
        for row, series in log.live():
            source = _source(row, state)
            if series is None or source is None:
                continue
            self._sources[id(row)] = source
            if isinstance(source, MemoryChange):
                member = source.members[row.cgroup]
                before, after = (
                    Setting(member.policy, one) for one in (member.from_bytes, member.to_bytes)
                )
                aim(row, before, after, member.predicted)
            if series.is_due:
                self._add(row, series, source, collected)
            else:
                series.skip()

    def _add(
        self,
        row: ChangeRow,
        series: EvidenceSeries,
        source: Trial | MemoryChange,
        collected: Collected,
    ) -> None:
        seen = collected.seen.get(row.cgroup)
        if seen is None:
            return
        if isinstance(source, Trial):
            point = _of_policy(source, self._alpha)
        else:
            point = _of_memory(source, self._interval_s, self._alpha)
        ops = None if seen.window is None else seen.window.ops
        miss = None if seen.sample is None else seen.sample.miss_ratio
        series.take(collected.time_s, *point, ops, miss)


def _source(row: ChangeRow, state: NodeState) -> Trial | MemoryChange | None:
    if row.kind is ChangeKind.MEMORY:
        change = state.memory.change
        return change if change is not None and row.cgroup in change.members else None
    tenant = state.tenants.get(row.cgroup)
    return None if tenant is None else tenant.policy.trial
