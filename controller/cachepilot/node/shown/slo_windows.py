# SPDX-License-Identifier: Apache-2.0
"""In how many windows SLOs were met, of the last hour and ever; a window is an interval."""

from collections.abc import Iterable
from dataclasses import dataclass

from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.slos import MINUTES, SloMinute, SloTotal
from cachepilot.sense.collect import Collected, Seen

MINUTE_S = 60


@dataclass
class Minute:
    """Windows of one minute, and those in which the SLO was met."""

    windows: int = 0
    met: int = 0


def measured(kind: str, seen: Seen) -> float | None:
    """The last interval in the unit of an SLO; None when nothing was done in it."""
    if kind == "latency_p99_us":
        return seen.tenant.indicators.latency_p99_us
    if seen.sample is None:
        return None
    return seen.sample.ops if kind == "throughput_ops" else 1 - seen.sample.miss_ratio


def promises(objective: Objective) -> list[tuple[str, float]]:
    """Kinds and targets of the SLOs."""
    if not objective.has_slo:
        return []
    kinds = ("throughput_ops", "latency_p99_us", "hit_ratio")
    found = [(kind, getattr(objective, kind)) for kind in kinds]
    return [(kind, target) for kind, target in found if target is not None]


def is_met(kind: str, value: float, target: float) -> bool:
    """Whether a reading meets an SLO."""
    return value <= target if kind == "latency_p99_us" else value >= target


class SloWindows:
    """Windows of every SLO of one node; an interval without a reading is not counted.

    Totals are shown once they are stored, so that none falls when the controller is killed. A
    tenant that is gone and comes back starts again.
    """

    def __init__(self, rows: Iterable[SloMinute] = (), totals: Iterable[SloTotal] = ()) -> None:
        self._minutes: dict[tuple[str, str], dict[int, Minute]] = {}
        self._changed: set[tuple[str, str, int]] = set()
        self._totals = {(one.cgroup, one.kind): Minute(one.windows, one.met) for one in totals}
        self._stored: dict[tuple[str, str], SloTotal] = {}
        self.stored(self.totals_now(self._totals))
        for row in rows:
            minutes = self._minutes.setdefault((row.cgroup, row.kind), {})
            minutes[row.minute] = Minute(row.windows, row.met)

    def take(self, time_s: float, seen: Seen, objective: Objective) -> None:
        """Counts one interval of one tenant."""
        minute = int(time_s // MINUTE_S)
        for kind, target in promises(objective):
            value = measured(kind, seen)
            if value is None:
                continue
            key = (seen.tenant.cgroup, kind)
            minutes = self._minutes.setdefault(key, {})
            found = minutes.setdefault(minute, Minute())
            total = self._totals.setdefault(key, Minute())
            met = is_met(kind, value, target)
            for counted in (found, total):
                counted.windows += 1
                counted.met += met
            self._changed.add((*key, minute))
            if len(minutes) > MINUTES:
                for old in [one for one in minutes if not minute - MINUTES < one <= minute]:
                    del minutes[old]

    def take_all(self, collected: Collected, objectives: Objectives) -> None:
        """Counts one interval of every tenant that has SLOs."""
        for cgroup, seen in collected.seen.items():
            objective = objectives.of(cgroup)
            if objective.has_slo:
                self.take(collected.time_s, seen, objective)

    def attainment(self, cgroup: str, kind: str) -> float | None:
        """The share of windows of the last hour in which it was kept; None without any."""
        minutes = list(self._minutes.get((cgroup, kind), {}).values())
        windows = sum(one.windows for one in minutes)
        return sum(one.met for one in minutes) / windows if windows else None

    def total(self, cgroup: str, kind: str) -> SloTotal | None:
        """All windows since the SLO was first stated, as stored; None before they are."""
        return self._stored.get((cgroup, kind))

    def totals_now(self, keys: Iterable[tuple[str, str]]) -> list[SloTotal]:
        """Totals of SLOs, by cgroup and kind, as they are to be stored."""
        known = [(key, self._totals[key]) for key in keys if key in self._totals]
        return [SloTotal(*key, total.windows, total.met) for key, total in known]

    def stored(self, totals: Iterable[SloTotal]) -> None:
        """Totals that are stored, and may be shown."""
        self._stored.update({(one.cgroup, one.kind): one for one in totals})

    def keep_only(self, cgroups: Iterable[str]) -> set[str]:
        """Forgets tenants that are gone, and says which."""
        known = set(cgroups)
        gone = {cgroup for cgroup, _ in self._totals if cgroup not in known}
        for table in (self._minutes, self._totals, self._stored):
            for key in [key for key in table if key[0] not in known]:
                del table[key]
        return gone

    def take_changed(self) -> list[SloMinute]:
        """Minutes that changed since this was last called."""
        found = []
        for cgroup, kind, minute in sorted(self._changed):
            counted = self._minutes.get((cgroup, kind), {}).get(minute)
            if counted is not None:
                found.append(SloMinute(cgroup, kind, minute, counted.windows, counted.met))
        self._changed.clear()
        return found

    def changed(self) -> list[tuple[str, str]]:
        """SLOs that were judged since `take_changed`, by cgroup and kind."""
        return sorted({(cgroup, kind) for cgroup, kind, _ in self._changed})
