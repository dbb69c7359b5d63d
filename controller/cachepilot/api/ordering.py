# SPDX-License-Identifier: Apache-2.0
"""Orders of a person: pins, applied what-ifs, and the undoing of both."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from cachepilot.api.service import UnknownError, some
from cachepilot.api.shapes.errors import ACCEPTABLE
from cachepilot.api.shapes.objectives import ObjectiveShape
from cachepilot.api.shapes.questions import Applied, Apply, Pin, StatedChange
from cachepilot.domain.objectives import pins
from cachepilot.domain.objectives.objective import UNNAMED, Mode, Objective, Objectives
from cachepilot.domain.objectives.workload import Workload
from cachepilot.domain.what_if import WhatIf as Question
from cachepilot.errors import ConflictError, InputError
from cachepilot.fleet.fleet import Fleet
from cachepilot.node.shown.report import Report
from cachepilot.plan.missed_slos import missed_slos, without_floors
from cachepilot.plan.what_if import asked_so
from cachepilot.sense.conditions import workloads_of
from cachepilot.sizes import pages_down

PIN_MAX_S = 30 * 86_400.0
HOLD_MIN_S = 60.0
MISSED_SHOWN = 5
"""How many missed SLOs a refusal names; the others are counted."""


def with_objective(earlier: Objectives, objective: Objective) -> Objectives:
    """Return the objectives with one added, or with that of the same pattern replaced."""
    patterns = [one.pattern for one in earlier.tenants]
    if objective.pattern not in patterns:
        return replace(earlier, tenants=(*earlier.tenants, objective))
    at = patterns.index(objective.pattern)
    tenants = (*earlier.tenants[:at], objective, *earlier.tenants[at + 1 :])
    return replace(earlier, tenants=tenants)


def _workloads(report: Report) -> Iterator[Workload]:
    return workloads_of(one.wire for one in report.collected.seen.values())


class Orders:
    """Orders to a fleet, each checked against the nodes that it concerns."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet

    def require_possible(self, pin: Pin, reports: Mapping[str, Report]) -> None:
        """Raise InputError for a pin that one of these nodes cannot apply."""
        now_s = self._fleet.store.now_s()
        if pin.until_s is not None and not now_s < pin.until_s <= now_s + PIN_MAX_S:
            allowed = f"after {now_s:.0f}, the time now, by {PIN_MAX_S:.0f} at most"
            raise InputError(f"pin {pin.cgroup}: until_s: {pin.until_s} (allowed: {allowed})")
        for name, report in reports.items():
            hello = self._fleet.loops()[name].hello
            if pin.limit_bytes is not None:
                if "limits" not in hello.capabilities:
                    raise InputError(f"pin {pin.cgroup}: limit_bytes: node {name} sets no limits")
                budget = pages_down(report.collected.snapshot.node.budget_bytes)
                least = report.collected.seen[pin.cgroup].least_limit_bytes
                pins.require_possible_limit(f"pin {pin.cgroup}", pin.limit_bytes, least, budget)
            can = ["default", *hello.policies]
            if pin.policy is not None and pin.policy not in can:
                raise InputError(
                    f"pin {pin.cgroup}: policy: {pin.policy!r} cannot be attached on node {name} "
                    f"(allowed: {', '.join(can)})"
                )

    def _objectives(self, report: Report) -> Objectives:
        """Return the objectives in force now; the node's last cycle may have had older ones."""
        return self._fleet.asked().objectives.among(_workloads(report))

    def _present(self, node: str, report: Report) -> Objectives:
        """Return the objectives in force now, with the pins of a node."""
        return pins.with_pins(self._objectives(report), self._fleet.asked().pins, node)

    def require_slos(
        self, what: str, reports: Mapping[str, Report], wanted: Sequence[pins.Pin],
        slos: Callable[[str, Report], Objectives],
    ) -> None:  # fmt: skip
        """Raise ConflictError naming the SLOs that an order is predicted to miss.

        `wanted` are the pins that the order sets, and `slos` returns a node's objectives under the
        order, which may include existing pins. A node for which nothing changes is not checked.
        """
        missed = []
        for name, report in reports.items():
            present, seen = self._present(name, report), report.collected.seen
            after = pins.with_pins(slos(name, report), wanted, name)
            if after == present:
                continue
            pinned = (one.cgroup for one in wanted if one.cgroup in seen)
            floors = {cgroup: seen[cgroup].least_limit_bytes for cgroup in pinned}
            snapshot = without_floors(report.collected.snapshot, floors)
            missed += missed_slos(snapshot, present, after, self._fleet.config.planner)
        if missed:
            told = "; ".join(missed[:MISSED_SHOWN])
            more = len(missed) - MISSED_SHOWN
            told += f"; and {more} more" if more > 0 else ""
            raise ConflictError(f"{what}: {told}{ACCEPTABLE}")

    def pin(self, pin: Pin, reports: Mapping[str, Report], accept_missed_slos: bool) -> None:
        """Pin a tenant on these nodes; raise ConflictError if that misses an SLO."""
        if pin.policy is None and pin.limit_bytes is None:
            raise InputError(f"pin {pin.cgroup}: needs a policy, a limit_bytes, or both")
        self.require_possible(pin, reports)
        wanted = pins.Pin(**pin.model_dump())
        if not accept_missed_slos:
            what = f"pin {pin.cgroup}"
            self.require_slos(what, reports, [wanted], self._present)
        self._fleet.set_pin(wanted)

    def apply(self, asked: Apply, report: Report) -> Applied:
        """Apply a what-if as one change: pins that end, and objectives."""
        if asked.budget_bytes is not None:
            where = "the agent's configuration states it (allowed: none)"
            raise InputError(f"what-if: budget_bytes: {where}")
        if not (asked.policy or asked.limit_bytes or asked.throughput_ops):
            allowed = "allowed: policy, limit_bytes or throughput_ops of a tenant"
            raise InputError(f"what-if: nothing is asked that could be applied ({allowed})")
        hold_s = asked.hold_s
        if hold_s is not None and not HOLD_MIN_S <= hold_s <= PIN_MAX_S:
            allowed = f"{HOLD_MIN_S:g} to {PIN_MAX_S:g} seconds, or null: until unpinned"
            raise InputError(f"what-if: hold_s: {hold_s} (allowed: {allowed})")
        question = Question(**asked.model_dump(exclude={"hold_s", "accept_missed_slos"}))
        snapshot, present = report.collected.snapshot, self._present(asked.node, report)
        slos = asked_so(snapshot, present, replace(question, policy={}, limit_bytes={}))
        asked_so(snapshot, present, replace(question, limit_bytes={}))
        until_s = None if hold_s is None else self._fleet.store.now_s() + hold_s
        wanted = [
            Pin(
                cgroup=cgroup,
                node=asked.node,
                policy=asked.policy.get(cgroup),
                limit_bytes=asked.limit_bytes.get(cgroup),
                until_s=until_s,
            )
            for cgroup in dict.fromkeys((*asked.policy, *asked.limit_bytes))
        ]
        for one in wanted:
            if one.cgroup not in report.collected.seen:
                there = some(sorted(report.collected.seen))
                raise InputError(f"what-if: {one.cgroup!r} is no tenant (allowed: {there})")
            self.require_possible(one, {asked.node: report})
        told = [pins.Pin(**one.model_dump()) for one in wanted]
        if not asked.accept_missed_slos:
            self.require_slos("what-if", {asked.node: report}, told, lambda *_: slos)
        stated = self._stated(report, asked.throughput_ops)

        def change(earlier: Objectives) -> Objectives:
            for one in stated:
                earlier = with_objective(earlier, one)
            return earlier

        before = self._fleet.state(change if stated else None, told)
        return Applied(
            change=None if before is None else before.change,
            what="nothing changes" if before is None else before.what,
            pins=wanted,
            objectives=[ObjectiveShape.of(one) for one in stated],
            until_s=until_s if wanted else None,
        )

    def _stated(self, report: Report, rates: Mapping[str, float]) -> list[Objective]:
        """Return an objective for each cgroup: the one in force, with another throughput SLO.

        Its pattern is exactly the cgroup's path. A cgroup without an objective gets mode `auto`.
        """
        objectives, found = self._objectives(report), []
        for cgroup, ops in rates.items():
            base = objectives.of(cgroup)
            mode = Mode.AUTO if base is UNNAMED else base.mode
            found.append(replace(base, pattern=cgroup, throughput_ops=ops, mode=mode))
        return found

    def _before(self) -> pins.Before:
        before = self._fleet.before()
        if before is None:
            raise UnknownError("undo: there is no change of objectives or pins")
        return before

    def last(self) -> StatedChange:
        """Return the last change that can be undone; raise UnknownError without one."""
        before = self._before()
        return StatedChange(change=before.change, time_s=before.stored_s, what=before.what)

    def undo(self, change: int | None, reports: Mapping[str, Report]) -> StatedChange:
        """Restore objectives and pins to their state before the last change; return that change.

        Raises ConflictError if the last change is not `change`, or if an SLO is predicted to be
        missed because of it on one of these nodes.
        """
        before = self._before()
        if change is not None and change != before.change:
            raise ConflictError(f"undo: the last change is {before.change} by now: {before.what}")

        def slos(_: str, report: Report) -> Objectives:
            return before.objectives.among(_workloads(report))

        held = pins.beside(before.pins, self._fleet.asked().pins)
        wanted, what = [*held, *before.pins], f"undo {before.change} ({before.what})"
        self.require_slos(what, reports, wanted, slos)
        self._fleet.undo(before.change)
        return StatedChange(change=before.change, time_s=before.stored_s, what=before.what)
