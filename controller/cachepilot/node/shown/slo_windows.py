# SPDX-License-Identifier: Apache-2.0
"""The windows in which SLOs were met: by minute for an hour, by hour for a week, and in total.

A window is one interval.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.past.budget import (
    LONG_MINUTES,
    SHORT_MINUTES,
    SPANS_S,
    Budget,
    Counted,
    span_budget,
)
from cachepilot.domain.slos import (
    HOURS,
    MINUTES,
    SloHour,
    SloMinute,
    SloStatus,
    SloTarget,
    SloTotal,
)
from cachepilot.node.shown.readings import measured
from cachepilot.node.shown.slo_hours import HOUR_S, SloHours
from cachepilot.sense.collect import Collected, Seen

MINUTE_S = 60


@dataclass
class Minute:
    """The windows of one minute, and those in which the SLO was met."""

    windows: int = 0
    met: int = 0


def slo_targets(objective: Objective) -> list[tuple[str, float]]:
    """Return the kind and target of each SLO of an objective."""
    if not objective.has_slo:
        return []
    kinds = ("throughput_ops", "latency_p99_us", "hit_ratio")
    found = [(kind, getattr(objective, kind)) for kind in kinds]
    return [(kind, target) for kind, target in found if target is not None]


def is_met(kind: str, value: float, target: float) -> bool:
    """Whether a reading meets an SLO."""
    return value <= target if kind == "latency_p99_us" else value >= target


class SloWindows:
    """The windows of every SLO of one node. An interval without a reading is not counted.

    A total is shown after it is stored, so that no total falls if the controller is killed. A
    tenant that is gone and comes back starts again.
    """

    def __init__(
        self,
        rows: Iterable[SloMinute] = (),
        totals: Iterable[SloTotal] = (),
        targets: Iterable[SloTarget] = (),
        hours: Iterable[SloHour] = (),
    ) -> None:
        self._hours = {(one.cgroup, one.kind): SloHours(one.target, one.since_s) for one in targets}
        for one in sorted(hours, key=lambda one: one.hour):
            if (one.cgroup, one.kind) in self._hours:
                self._hours[one.cgroup, one.kind].add(one.hour, one.windows, one.met)
        self._changed_hours: set[tuple[str, str, int]] = set()
        self._begun: set[tuple[str, str]] = set()
        self._minutes: dict[tuple[str, str], dict[int, Minute]] = {}
        self._changed: set[tuple[str, str, int]] = set()
        self._totals = {(one.cgroup, one.kind): Minute(one.windows, one.met) for one in totals}
        self._stored: dict[tuple[str, str], SloTotal] = {}
        self.stored(self.totals_now(self._totals))
        for row in rows:
            minutes = self._minutes.setdefault((row.cgroup, row.kind), {})
            minutes[row.minute] = Minute(row.windows, row.met)
        newest = max((max(one) for one in self._minutes.values()), default=0)
        self._now_s = float(newest * MINUTE_S)

    def take(self, time_s: float, seen: Seen, objective: Objective) -> None:
        """Count one interval of one tenant."""
        self._now_s = time_s
        minute = int(time_s // MINUTE_S)
        for kind, target in slo_targets(objective):
            value = measured(kind, seen)
            if value is None:
                continue
            key = (seen.tenant.cgroup, kind)
            hours = self._judged_by(key, target, time_s)
            minutes = self._minutes.setdefault(key, {})
            found = minutes.setdefault(minute, Minute())
            total = self._totals.setdefault(key, Minute())
            met = is_met(kind, value, target)
            hour = int(time_s // HOUR_S)
            hours.add(hour, 1, met)
            self._changed_hours.add((*key, hour))
            for counted in (found, total):
                counted.windows += 1
                counted.met += met
            self._changed.add((*key, minute))
            if len(minutes) > MINUTES:
                for old in [one for one in minutes if not minute - MINUTES < one <= minute]:
                    del minutes[old]

    def _judged_by(self, key: tuple[str, str], target: float, time_s: float) -> SloHours:
        """Return the hours of an SLO. Under another target all counts but totals start again."""
        found = self._hours.get(key)
        if found is not None and found.target == target:
            return found
        if found is not None:
            self._minutes.pop(key, None)
            self._changed = {one for one in self._changed if one[:2] != key}
            self._changed_hours = {one for one in self._changed_hours if one[:2] != key}
        # Minutes stored by a version without targets are stored again, together with the target.
        self._changed |= {(*key, minute) for minute in self._minutes.get(key, ())}
        oldest = min(self._minutes.get(key, ()), default=None)
        since_s = time_s if oldest is None else float(oldest * MINUTE_S)
        self._begun.add(key)
        self._hours[key] = SloHours(target, since_s)
        return self._hours[key]

    def budget(self, node: str, cgroup: str, status: SloStatus, now_s: float) -> Budget | None:
        """Return the error budget of an SLO; None before it was judged by its present target."""
        key = (cgroup, status.kind)
        hours = self._hours.get(key)
        if hours is None or hours.target != status.target:
            return None
        age_s = max(0.0, now_s - hours.since_s)
        counted = {
            "1h": self._last_minutes(key, LONG_MINUTES, now_s),
            "24h": hours.last(24, now_s),
            "7d": hours.last(HOURS, now_s),
        }
        return Budget(
            node,
            cgroup,
            status.kind,
            status.target,
            hours.since_s,
            status.measured,
            status.met,
            tuple(
                span_budget(span, min(age_s, span_s), counted[span])
                for span, span_s in SPANS_S.items()
            ),
            self._last_minutes(key, SHORT_MINUTES, now_s).burn,
            counted["1h"].burn,
        )

    def _last_minutes(self, key: tuple[str, str], count: int, now_s: float) -> Counted:
        newest = int(now_s // MINUTE_S)
        minutes = list(self._minutes.get(key, {}).items())
        last = [one for minute, one in minutes if newest - count < minute <= newest]
        return Counted(sum(one.windows for one in last), sum(one.met for one in last))

    def changed_hours(self) -> list[SloHour]:
        """Hours that changed since they were last stored."""
        found = []
        for cgroup, kind, hour in sorted(self._changed_hours):
            hours = self._hours.get((cgroup, kind))
            if hours is not None:
                counted = hours.of(hour)
                found.append(SloHour(cgroup, kind, hour, counted.windows, counted.met))
        return found

    def begun(self) -> list[SloTarget]:
        """Targets that are not stored yet. Stored windows of another target must be dropped."""
        return [
            SloTarget(*key, self._hours[key].target, self._hours[key].since_s)
            for key in sorted(self._begun & self._hours.keys())
        ]

    def take_all(self, collected: Collected, objectives: Objectives) -> None:
        """Count one interval of every tenant with an SLO."""
        self._now_s = collected.time_s
        for cgroup, seen in collected.seen.items():
            objective = objectives.of(cgroup)
            if objective.has_slo:
                self.take(collected.time_s, seen, objective)

    def attainment(self, cgroup: str, kind: str) -> float | None:
        """The share of windows of the last hour in which an SLO was met; None without any."""
        return self._last_minutes((cgroup, kind), MINUTES, self._now_s).attainment

    def total(self, cgroup: str, kind: str) -> SloTotal | None:
        """All windows since the SLO was first stated, as stored; None before they are stored."""
        return self._stored.get((cgroup, kind))

    def totals_now(self, keys: Iterable[tuple[str, str]]) -> list[SloTotal]:
        """The totals of SLOs, given by cgroup and kind, as they should be stored."""
        known = [(key, self._totals[key]) for key in keys if key in self._totals]
        return [SloTotal(*key, total.windows, total.met) for key, total in known]

    def stored(self, totals: Iterable[SloTotal]) -> None:
        """Note that totals are stored and may be shown, and that changed minutes and hours are."""
        self._changed.clear()
        self._changed_hours.clear()
        self._begun.clear()
        self._stored.update({(one.cgroup, one.kind): one for one in totals})

    def keep_only(self, cgroups: Iterable[str]) -> set[str]:
        """Forget all tenants but `cgroups`; return those that were forgotten."""
        known = set(cgroups)
        counted = self._totals.keys() | self._hours.keys()
        gone = {cgroup for cgroup, _ in counted if cgroup not in known}
        for table in (self._minutes, self._totals, self._stored, self._hours):
            for key in [key for key in table if key[0] not in known]:
                del table[key]
        return gone

    def changed_minutes(self) -> list[SloMinute]:
        """Minutes that changed since they were last stored."""
        found = []
        for cgroup, kind, minute in sorted(self._changed):
            counted = self._minutes.get((cgroup, kind), {}).get(minute)
            if counted is not None:
                found.append(SloMinute(cgroup, kind, minute, counted.windows, counted.met))
        return found

    def changed(self) -> list[tuple[str, str]]:
        """SLOs that were judged since they were last stored, by cgroup and kind."""
        return sorted({(cgroup, kind) for cgroup, kind, _ in self._changed})
