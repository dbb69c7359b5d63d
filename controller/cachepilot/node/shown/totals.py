# SPDX-License-Identifier: Apache-2.0
"""The number of decisions about each tenant of one node by event, since it was first seen."""

from collections import Counter
from collections.abc import Iterable

from cachepilot.domain.decisions import Decision
from cachepilot.domain.recorded import DecisionTotal


class DecisionTotals:
    """Totals that never fall while a tenant exists. One that comes back starts again."""

    def __init__(self, rows: Iterable[DecisionTotal] = ()) -> None:
        self._totals: dict[str, Counter[str]] = {}
        for row in rows:
            self._totals.setdefault(row.cgroup, Counter())[row.event] = row.count

    def count(self, decisions: Iterable[Decision]) -> None:
        """Count decisions."""
        for one in decisions:
            self._totals.setdefault(one.cgroup, Counter())[str(one.event)] += 1

    def of(self, decisions: Iterable[Decision]) -> list[DecisionTotal]:
        """Return the totals that these decisions changed, of tenants that are still known."""
        changed = sorted({(one.cgroup, str(one.event)) for one in decisions})
        known = [key for key in changed if key[0] in self._totals]
        return [DecisionTotal(*key, self._totals[key[0]][key[1]]) for key in known]

    def shown(self) -> dict[str, dict[str, int]]:
        """Present totals by cgroup and event."""
        return {cgroup: dict(counted) for cgroup, counted in self._totals.items()}

    def keep_only(self, cgroups: Iterable[str]) -> set[str]:
        """Forget all tenants but `cgroups`; return those that were forgotten."""
        gone = self._totals.keys() - set(cgroups)
        for cgroup in gone:
            del self._totals[cgroup]
        return gone
