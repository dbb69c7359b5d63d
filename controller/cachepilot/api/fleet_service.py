# SPDX-License-Identifier: Apache-2.0
"""The implementation of `cachepilot.api.service.Service` over a fleet."""

import threading
from collections.abc import Sequence
from dataclasses import replace

from cachepilot.api.looking_back import LookingBack
from cachepilot.api.moving.consolidating import Consolidating
from cachepilot.api.moving.movable import Staying, of_movable
from cachepilot.api.ordering import Orders, with_objective
from cachepilot.api.service import UnknownError, some
from cachepilot.api.shapes.detail import TenantDetail
from cachepilot.api.shapes.questions import (
    Applied,
    Apply,
    Consolidation,
    Pin,
    Spread,
    StatedChange,
    WhatIf,
    WhatIfAnswer,
)
from cachepilot.api.shapes.views import DecisionView, NodeView, TenantView
from cachepilot.api.stale import stale_detail, stale_tenant
from cachepilot.api.views import node_view, tenant_detail, tenant_view
from cachepilot.domain import consolidation as domain
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.past.change import SETTINGS, ChangeRow
from cachepilot.domain.recorded import RecordedDecision
from cachepilot.domain.snapshot import Snapshot
from cachepilot.domain.what_if import WhatIf as Question
from cachepilot.errors import InputError
from cachepilot.fleet.fleet import Fleet
from cachepilot.fleet.moving.mover import Mover
from cachepilot.fleet.tenants.next_needs import next_needs
from cachepilot.fleet.tenants.past_needs import past_needs
from cachepilot.node.shown.changes import Changes
from cachepilot.node.shown.in_force import changed, is_in_force, why_not
from cachepilot.node.shown.report import Report
from cachepilot.plan.consolidation.again import plan_again
from cachepilot.plan.consolidation.consolidate import consolidate
from cachepilot.plan.consolidation.least.past import PastByTenant
from cachepilot.plan.consolidation.least.uncorrected import sure_snapshot
from cachepilot.plan.consolidation.spreading import plan_spread
from cachepilot.plan.missed_slos import without_floors
from cachepilot.plan.what_if import what_if
from cachepilot.sense.conditions import workloads_of

HISTORY_MAX = 10_000
REVERTED_S = 3600.0
"""Seconds for which a setting restored by an operator stays pinned; then the autopilot decides."""


def _where(cgroup: str, node: str | None) -> str:
    return f"{cgroup} on {'all nodes' if node is None else f'node {node}'}"


class ControlService:
    """Answers from what the last cycles published and from the store."""

    def __init__(self, fleet: Fleet, mover: Mover | None = None) -> None:
        self._fleet = fleet
        self._mover = mover = Mover(fleet, None) if mover is None else mover
        mover.plan = self._left
        self.moving = Consolidating(mover, self.consolidation, self.spread)
        self.past = LookingBack(fleet)
        self._orders = Orders(fleet)
        self._made: dict[str, tuple[Report, str, list[TenantView]]] = {}
        self._making = threading.Lock()

    @property
    def changes(self) -> Changes:
        """The notifier of all changes."""
        return self._fleet.changes

    def _reports(self, node: str | None = None) -> dict[str, Report]:
        """Return the reports by node: of nodes seen since the controller started, or of one."""
        loops = self._fleet.loops()
        if node is not None and node not in loops:
            raise UnknownError(f"node {node}: unknown (known: {some(list(loops))})")
        return {
            name: loop.report
            for name, loop in loops.items()
            if loop.report is not None and node in (None, name)
        }

    def _find(self, cgroup: str, node: str | None) -> tuple[str, Report]:
        reports = self._reports(node)
        found = [name for name, one in reports.items() if cgroup in one.collected.seen]
        if len(found) > 1:
            raise InputError(f"tenant {cgroup}: is on several nodes (allowed: {some(found)})")
        if not found:
            known = sorted({name for one in reports.values() for name in one.collected.seen})
            raise UnknownError(f"tenant {cgroup}: unknown (known: {some(known)})")
        return found[0], reports[found[0]]

    def store_problem(self) -> str:
        """Return why objectives and decisions cannot be stored now; "" if they can."""
        return self._fleet.store.check()

    def nodes(self) -> list[NodeView]:
        """Return every node that was ever seen, by name."""
        rivals = self._fleet.rivals
        return [node_view(loop, rivals.of(name)) for name, loop in self._fleet.loops().items()]

    def tenants(self, node: str | None = None) -> list[TenantView]:
        """Return the tenants of one node or of all, ordered by node and cgroup."""
        reports, stale = self._reports(node), self._stale()
        return [
            one
            for name, report in reports.items()
            for one in self._rows(name, report, stale.get(name, ""))
        ]

    def _rows(self, node: str, report: Report, why: str) -> list[TenantView]:
        """Return the tenants of one node; made once per report, and again if it becomes stale.

        `why` is the reason why the node is stale, or "".
        """
        # A page asks for the fleet and for its tenants at once: the rows are made by one of them.
        with self._making:
            made = self._made.get(node)
            if made is None or made[0] is not report or made[1] != why:
                rows = [tenant_view(node, report, cgroup) for cgroup in report.collected.seen]
                rows = [stale_tenant(row, why) for row in rows] if why else rows
                made = self._made[node] = report, why, rows
            return made[2]

    def _stale(self) -> dict[str, str]:
        """Return the stale nodes, each with the reason."""
        told = ((name, loop.freshness.why) for name, loop in self._fleet.loops().items())
        return {name: why for name, why in told if why}

    def tenant(self, cgroup: str, node: str | None = None) -> TenantDetail:
        """Return one tenant and the reasons for its policy and limit."""
        name, report = self._find(cgroup, node)
        objectives = self._fleet.asked().objectives
        found = tenant_detail(name, report, cgroup, self._fleet.config.planner, objectives)
        why = self._stale().get(name)
        return stale_detail(found, why) if why else found

    def objectives(self) -> Objectives:
        """Return the objectives in force."""
        return self._fleet.asked().objectives

    def set_objectives(self, objectives: Objectives) -> None:
        """Replace all objectives; they are stored before this returns."""
        self._fleet.change_objectives(lambda _: objectives)

    def set_objective(self, objective: Objective) -> None:
        """Add one objective, or replace that of the same pattern."""
        self._fleet.change_objectives(lambda earlier: with_objective(earlier, objective))

    def delete_objective(self, pattern: str) -> None:
        """Remove one objective; raise UnknownError if there is none of that pattern."""

        def change(earlier: Objectives) -> Objectives:
            left = tuple(one for one in earlier.tenants if one.pattern != pattern)
            if len(left) == len(earlier.tenants):
                known = some([one.pattern for one in earlier.tenants])
                raise UnknownError(f"objective {pattern}: unknown (known: {known})")
            return replace(earlier, tenants=left)

        self._fleet.change_objectives(change)

    def pin(self, pin: Pin, accept_missed_slos: bool = False) -> None:
        """Pin the policy, the limit or both of a tenant until it is unpinned."""
        names = [self._find(pin.cgroup, pin.node)[0]] if pin.node else self._everywhere(pin.cgroup)
        reports = self._reports()
        self._orders.pin(pin, {name: reports[name] for name in names}, accept_missed_slos)

    def last_change(self) -> StatedChange:
        """Return a person's last change of objectives or pins; raise UnknownError without one."""
        return self._orders.last()

    def undo(self, change: int | None = None, accept_missed_slos: bool = False) -> StatedChange:
        """Restore objectives and pins to their state before the last change; return that change."""
        return self._orders.undo(change, {} if accept_missed_slos else self._reports())

    def apply(self, asked: Apply) -> Applied:
        """Apply a what-if, all of it or nothing."""
        return self._orders.apply(asked, self._report_of(asked.node))

    def revert(self, decision: int, accept_missed_slos: bool = False) -> Pin:
        """Roll back a decision by a pin that ends by itself; return the pin.

        Raises InputError for a decision that is not in force any more, and for a tenant with a pin
        without an end.
        """
        found = self._fleet.store.history(None, None, 1, decision + 1, None)
        if not found or found[0].id != decision:
            raise UnknownError(f"decision {decision}: unknown")
        one = found[0]
        _, report = self._find(one.cgroup, one.node)
        why = why_not(one, report, self._fleet.store)
        if why:
            raise InputError(f"decision {decision}: {why}")
        return self._put_back(one, accept_missed_slos)

    def revert_change(self, change: int, accept_missed_slos: bool = False) -> Pin:
        """Roll back a change by a pin that ends by itself; return the pin.

        Raises InputError for a change that is not in force any more, and for a tenant with a pin
        without an end.
        """
        found = self._fleet.store.change(change)
        if found is None:
            raise UnknownError(f"change {change}: unknown")
        row, _ = found
        if row.kind not in SETTINGS:
            allowed = ", ".join(SETTINGS)
            raise InputError(
                f"change {change}: {row.kind}: no setting of a tenant (allowed: {allowed})"
            )
        _, report = self._find(row.cgroup, row.node)
        if not is_in_force(row, report, self._fleet.store):
            raise InputError(f"change {change}: not in force any more")
        return self._put_back(row, accept_missed_slos)

    def _put_back(self, one: RecordedDecision | ChangeRow, accept_missed_slos: bool) -> Pin:
        until_s = self._fleet.store.now_s() + REVERTED_S
        before = changed(one)
        pin = Pin.model_validate(
            {"cgroup": one.cgroup, "node": one.node, **before, "until_s": until_s}
        )
        self.pin(pin, accept_missed_slos)
        return pin

    def _everywhere(self, cgroup: str) -> list[str]:
        found = [name for name, one in self._reports().items() if cgroup in one.collected.seen]
        if not found:
            self._find(cgroup, None)
        return found

    def unpin(self, cgroup: str, node: str | None = None) -> None:
        """Remove a pin; raise UnknownError if there is none."""
        if not self._fleet.delete_pin(cgroup, node):
            pins = [pin for pin in self._fleet.asked().pins if pin.rollout is None]
            # List the cgroup's pins first: possibly only the node is missing in the request.
            named = sorted(pins, key=lambda pin: (pin.cgroup != cgroup, pin.cgroup))
            known = some([_where(pin.cgroup, pin.node) for pin in named])
            raise UnknownError(f"pin {_where(cgroup, node)}: unknown (known: {known})")

    def history(
        self,
        cgroup: str | None = None,
        node: str | None = None,
        limit: int = 100,
        before: int | None = None,
        event: str | None = None,
    ) -> list[DecisionView]:
        """Return the last decisions, newest first: with an id below `before`, of one event."""
        if not 1 <= limit <= HISTORY_MAX:
            raise InputError(f"history: limit: {limit} (allowed: 1 to {HISTORY_MAX})")
        found = self._fleet.store.history(cgroup, node, limit, before, event)
        reports = self._reports()
        return [
            DecisionView.of_checked(**vars(one), in_force=self._in_force(one, reports))
            for one in found
        ]

    def _in_force(self, one: RecordedDecision, reports: dict[str, Report]) -> bool:
        report = reports.get(one.node)
        if report is None or one.cgroup not in report.collected.seen:
            return False
        return not why_not(one, report, self._fleet.store)

    def _report_of(self, node: str) -> Report:
        reports = self._reports(node)
        if node not in reports:
            raise UnknownError(f"node {node}: no snapshot was seen yet")
        return reports[node]

    def what_if(self, question: WhatIf) -> WhatIfAnswer:
        """Return the plan under the assumptions of `question`; changes nothing."""
        report = self._report_of(question.node)
        seen, config = report.collected.seen, self._fleet.config.planner
        limited = seen.keys() & question.limit_bytes.keys()
        floors = {cgroup: seen[cgroup].least_limit_bytes for cgroup in limited}
        snapshot = without_floors(report.collected.snapshot, floors)
        asked = Question(**question.model_dump())
        found = what_if(snapshot, report.objectives, config, asked)
        why = self._stale().get(question.node)
        notes = [f"{question.node}: {why}", *found.notes] if why else found.notes
        return WhatIfAnswer.of(replace(found, notes=notes))

    def consolidation(self) -> Consolidation:
        """Return the least memory per tenant, how many more fit, and which nodes can be drained."""
        fresh, left_out = self._fresh()
        found = self._consolidated(fresh)
        return Consolidation.of(replace(found, notes=[*left_out, *found.notes]))

    def spread(self) -> Spread:
        """Return which tenants should leave nodes without room for what their tenants need next."""
        fresh, left_out = self._fresh()
        snapshots, objectives = self._planned_with(fresh)
        config, pins = self._fleet.config, self._fleet.asked().pins
        needed, refuted = self._needed(snapshots, ahead=True), self._mover.refuted
        closed, homes = frozenset(self._mover.closed), self._mover.homes

        def planned(staying: Staying) -> domain.Spread:
            options = replace(config.placement, closed=closed, staying=staying)
            return plan_spread(
                snapshots, objectives, config.planner, pins, options, refuted, needed, homes
            )

        found = of_movable(planned, lambda one: one.drains, self._mover.movable())
        return Spread.of(replace(found, notes=[*left_out, *found.notes]))

    def _fresh(self) -> tuple[list[Report], list[str]]:
        """Return the reports of nodes that are not stale, and notes on the nodes left out."""
        stale, known = self._stale(), self._reports()
        fresh = [report for name, report in known.items() if name not in stale]
        return fresh, [f"{name}: left out, {stale[name]}" for name in known if name in stale]

    def _consolidated(self, reports: Sequence[Report]) -> domain.Consolidation:
        snapshots, objectives = self._planned_with(reports)
        config, pins = self._fleet.config, self._fleet.asked().pins
        refuted, needed = self._mover.refuted, self._needed(snapshots)
        can_leave = self._mover.movable()
        there = {(seen.node.name, one.cgroup) for seen in snapshots for one in seen.tenants}
        staying = frozenset(one for one in there if not can_leave(*one))
        options = replace(config.placement, staying=staying)
        return consolidate(snapshots, objectives, config.planner, pins, options, refuted, needed)

    def _planned_with(self, reports: Sequence[Report]) -> tuple[list[Snapshot], Objectives]:
        """Return the snapshots of the reports, and the objectives that apply to their tenants."""
        snapshots = [sure_snapshot(report.collected) for report in reports]
        told = (one.wire for report in reports for one in report.collected.seen.values())
        return snapshots, self._fleet.asked().objectives.among(workloads_of(told))

    def _needed(self, snapshots: Sequence[Snapshot], ahead: bool = False) -> PastByTenant:
        """Return what the tenants of nodes needed in the last hours, as many as configured.

        With `ahead`: what they needed a day ago, in the hours of the day that come next.
        """
        there = {one.node.name: [tenant.cgroup for tenant in one.tenants] for one in snapshots}
        now_s, placement = self._fleet.store.now_s(), self._fleet.config.placement
        if ahead:
            return next_needs(self._fleet.loops(), there, now_s, placement.lookahead_hours)
        return past_needs(self._fleet.loops(), there, now_s, placement.headroom_hours)

    def _left(self, rest: domain.Rest, reports: Sequence[Report]) -> domain.Plans:
        """Plan the rest of a rollout with the present measurements of these nodes."""
        snapshots, objectives = self._planned_with(reports)
        config, pins = self._fleet.config, self._fleet.asked().pins
        refuted, needed = self._mover.refuted, self._needed(snapshots, rest.spreads)

        def planned(staying: Staying) -> domain.Plans:
            options = replace(config.placement, staying=staying)
            return plan_again(
                rest, snapshots, objectives, config.planner, pins, options, refuted, needed,
                self._mover.homes,
            )  # fmt: skip

        if not rest.spreads:
            return planned(frozenset())
        return of_movable(planned, lambda one: one.anew, self._mover.movable())
