# SPDX-License-Identifier: Apache-2.0
"""The implementation of `cachepilot.api.service.Past`: queries about the past."""

from dataclasses import replace

from cachepilot.api.service import UnknownError, some
from cachepilot.api.shapes.changes import ChangeDetail, ChangeView, EvidenceView
from cachepilot.api.shapes.comparison import Comparison, SumView, TenantComparisonView
from cachepilot.api.shapes.series import LatencyView, SeriesView
from cachepilot.domain.past.actor import Actor
from cachepilot.domain.past.budget import Budget
from cachepilot.domain.past.change import ChangeFilter, ChangeRow
from cachepilot.domain.past.comparison import TenantComparison, Verdict, summed
from cachepilot.errors import InputError
from cachepilot.fleet.fleet import Fleet
from cachepilot.node.loop import NodeLoop
from cachepilot.node.series.reading import Range, read_series
from cachepilot.node.shown.comparison import compare
from cachepilot.node.shown.in_force import is_in_force

RECENT_S = 300.0
MOST = 10
"""How many tenants that gain, and how many that lose, are listed with the sums."""


def _compared(loop: NodeLoop) -> list[TenantComparison]:
    report, interval_s = loop.report, loop.interval_s
    if report is None:
        return []
    return compare(loop.name, report, loop.baselines, interval_s, loop.freshness.why)


def _ratio(one: TenantComparison) -> float:
    return 1.0 if one.versus_default is None else one.versus_default.ratio


class LookingBack:
    """Answers from the store, and from what the last cycles published."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def refused(self, actor: Actor, asked: str, why: str) -> None:
        """Note that a request of `actor` was refused; returns at once."""
        self._fleet.refusals.note(actor, asked, why)

    def changes(self, asked: ChangeFilter, limit: int) -> tuple[list[ChangeView], int]:
        """Return matching changes, newest first, and the number of all that match."""
        self._fleet.refusals.flush()
        store = self._fleet.store
        rows = [self._view(row) for row in store.changes(asked, limit)]
        return rows, store.count_changes(asked)

    def change(self, number: int) -> ChangeDetail:
        """Return one change with its evidence; raise UnknownError for an unknown id."""
        found = self._fleet.store.change(number)
        if found is None:
            raise UnknownError(f"change {number}: unknown")
        row, course = found
        evidence = None if course is None else EvidenceView.of(course)
        return ChangeDetail(change=self._view(row), evidence=evidence)

    def compared(
        self, node: str | None = None, cgroup: str | None = None, verdict: Verdict | None = None
    ) -> list[TenantComparison]:
        """Return the comparisons of tenants, ordered by node and cgroup.

        Raises UnknownError for a node that was never seen.
        """
        return [
            one
            for loop in self._loops(node)
            for one in _compared(loop)
            if cgroup in (None, one.cgroup) and verdict in (None, one.verdict)
        ]

    def budgets(self, node: str | None = None, cgroup: str | None = None) -> list[Budget]:
        """Return the error budget of each SLO, by node and cgroup.

        The budgets of a stale node have no measured value.
        """
        found = []
        for loop in self._loops(node):
            report, stale = loop.report, loop.freshness.is_stale
            for name, slos in {} if report is None else report.slos.items():
                for one in slos if cgroup in (None, name) else ():
                    told = replace(one, measured=None, met=None) if stale else one
                    budget = loop.windows.budget(loop.name, name, told, loop.last_seen_s)
                    found += [] if budget is None else [budget]
        return found

    def series(
        self, cgroup: str, node: str | None, since_s: float | None, until_s: float | None,
        points: int,
    ) -> SeriesView:  # fmt: skip
        """Return the time series of one tenant; by default of the last five minutes."""
        loop = self._of_tenant(cgroup, node)
        until_s = loop.last_seen_s if until_s is None else until_s
        since_s = until_s - RECENT_S if since_s is None else since_s
        if not since_s < until_s:
            raise InputError(f"since: {since_s} (allowed: below until, which is {until_s})")
        asked = Range(since_s, until_s, points)
        store, interval_s = self._fleet.store, loop.interval_s
        # The time of the node's clock now: the kept series of a silent node grow old, too.
        now_s = loop.last_seen_s + max(0.0, store.now_s() - loop.heard_s)
        found = read_series(store, loop.series, loop.name, cgroup, asked, interval_s, now_s)
        values = {**vars(found), **found.columns}
        del values["columns"]
        seen = None if loop.report is None else loop.report.collected.seen.get(cgroup)
        latency = None if seen is None else loop.series.latency(seen)
        told = None if latency is None else LatencyView.of(latency)
        return SeriesView(**values, latency=told)

    def _of_tenant(self, cgroup: str, node: str | None) -> NodeLoop:
        """Return the one node with a tenant; a tenant that is gone needs its node named."""
        loops = self._loops(node)
        if node is not None:
            return loops[0]
        found = [
            one for one in loops if one.report is not None and cgroup in one.report.collected.seen
        ]
        if len(found) > 1:
            names = some([one.name for one in found])
            raise InputError(f"tenant {cgroup}: is on several nodes (allowed: {names})")
        if not found:
            raise UnknownError(f"tenant {cgroup}: unknown (of one that is gone name the node)")
        return found[0]

    def _loops(self, node: str | None) -> list[NodeLoop]:
        loops = self._fleet.loops()
        if node is not None and node not in loops:
            raise UnknownError(f"node {node}: unknown (known: {some(list(loops))})")
        return [loop for name, loop in loops.items() if node in (None, name)]

    def comparison(self, node: str | None = None) -> Comparison:
        """Return sums of all nodes or of one, and the tenants that gain most and lose most."""
        tenants = self.compared(node)
        names = dict.fromkeys(one.node for one in tenants)
        known = [one for one in tenants if one.versus_default is not None]
        known.sort(key=_ratio)
        pays = [one for one in known if one.verdict is Verdict.PAYS]
        gains = [one for one in reversed(known) if one.verdict is Verdict.GAINS]
        return Comparison(
            fleet=SumView.of(summed("", tenants)),
            nodes=[
                SumView.of(summed(name, (one for one in tenants if one.node == name)))
                for name in names
            ],
            gains=[TenantComparisonView.of(one) for one in gains[:MOST]],
            pays=[TenantComparisonView.of(one) for one in pays[:MOST]],
        )

    def _view(self, row: ChangeRow) -> ChangeView:
        loop = self._fleet.loops().get(row.node)
        report = None if loop is None else loop.report
        in_force = report is not None and is_in_force(row, report, self._fleet.store)
        return ChangeView.of_row(row, in_force)
