# SPDX-License-Identifier: Apache-2.0
"""Decisions of every tenant of one node by event, since it was first seen."""

from collections import Counter
from collections.abc import Iterable

from cachepilot.domain.decisions import Decision
from cachepilot.domain.recorded import DecisionTotal


class DecisionTotals:
    """Never falls while a tenant is there; one that is gone and comes back starts again."""

    def __init__(self, rows: Iterable[DecisionTotal] = ()) -> None:
        self._totals: dict[str, Counter[str]] = {}
        for row in rows:
            self._totals.setdefault(row.cgroup, Counter())[row.event] = row.count

    def count(self, decisions: Iterable[Decision]) -> None:
        """Counts decisions."""
        for one in decisions:
            self._totals.setdefault(one.cgroup, Counter())[str(one.event)] += 1

    def of(self, decisions: Iterable[Decision]) -> list[DecisionTotal]:
        """The totals that decisions counted in, of tenants that are still known."""
        changed = sorted({(one.cgroup, str(one.event)) for one in decisions})
        known = [key for key in changed if key[0] in self._totals]
        return [DecisionTotal(*key, self._totals[key[0]][key[1]]) for key in known]

    def shown(self) -> dict[str, dict[str, int]]:
        """Totals by cgroup and event, as they are now."""
        return {cgroup: dict(counted) for cgroup, counted in self._totals.items()}

    def keep_only(self, cgroups: Iterable[str]) -> set[str]:
        """Forgets tenants that are gone, and says which."""
        gone = self._totals.keys() - set(cgroups)
        for cgroup in gone:
            del self._totals[cgroup]
        return gone
