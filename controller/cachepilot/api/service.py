# SPDX-License-Identifier: Apache-2.0
"""The seam between the HTTP interface and the control loop."""

from typing import Protocol

from cachepilot.api.moving.moving import Moving
from cachepilot.api.shapes.changes import ChangeDetail, ChangeView
from cachepilot.api.shapes.comparison import Comparison
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
from cachepilot.api.shapes.series import SeriesView
from cachepilot.api.shapes.views import DecisionView, NodeView, TenantView
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.past.actor import Actor
from cachepilot.domain.past.budget import Budget
from cachepilot.domain.past.change import ChangeFilter
from cachepilot.domain.past.comparison import TenantComparison, Verdict
from cachepilot.errors import InputError
from cachepilot.node.shown.changes import Changes

NAMES_SHOWN = 10


class UnknownError(InputError):
    """No such node, tenant or objective; names what there is."""


def some(names: list[str]) -> str:
    """The first of the names, and how many more there are."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return (", ".join(names[:NAMES_SHOWN]) + more) or "none"


class Past(Protocol):
    """What can be asked of the past; safe to call from any thread, and read from SQLite."""

    def refused(self, actor: Actor, asked: str, why: str) -> None:
        """Notes that somebody was refused something; returns at once."""

    def changes(self, asked: ChangeFilter, limit: int) -> tuple[list[ChangeView], int]:
        """Changes, the newest first, and how many there are of those."""

    def change(self, number: int) -> ChangeDetail:
        """One change with its evidence; UnknownError when there is none of that id."""

    def compared(
        self, node: str | None = None, cgroup: str | None = None, verdict: Verdict | None = None
    ) -> list[TenantComparison]:
        """Tenants, by node and cgroup; UnknownError for a node that was never seen."""

    def comparison(self, node: str | None = None) -> Comparison:
        """Sums of all nodes or of one, and who gains and who pays most."""

    def series(
        self, cgroup: str, node: str | None, since_s: float | None, until_s: float | None,
        points: int,
    ) -> SeriesView:  # fmt: skip
        """The time series of one tenant; the last five minutes if no time is asked for."""

    def budgets(self, node: str | None = None, cgroup: str | None = None) -> list[Budget]:
        """The error budget of each SLO, by node and cgroup."""


class Service(Protocol):
    """What can be asked of a controller; safe to call from any thread.

    Every call returns at once, from memory or SQLite, but `tenant`, `what_if` and `consolidation`:
    they plan, which takes a second and more for a large fleet.

    A `cgroup` that is on one node only may be named without its node; `UnknownError` when it is
    nowhere, InputError when it is on several.
    """

    @property
    def changes(self) -> Changes:
        """Told of whatever changed in what the calls below answer."""

    @property
    def past(self) -> Past:
        """What was changed, by whom, and what came of it."""

    @property
    def moving(self) -> Moving:
        """Consolidations that are carried out."""

    def store_problem(self) -> str:
        """Why what is asked and decided cannot be stored now; empty when it can."""

    def nodes(self) -> list[NodeView]:
        """Every node that was ever seen, by name."""

    def tenants(self, node: str | None = None) -> list[TenantView]:
        """Tenants of one node or of all, by node and cgroup."""

    def tenant(self, cgroup: str, node: str | None = None) -> TenantDetail:
        """One tenant and why it has what it has."""

    def objectives(self) -> Objectives:
        """The objectives that hold."""

    def set_objectives(self, objectives: Objectives) -> None:
        """Replaces all objectives; they are stored before this returns."""

    def set_objective(self, objective: Objective) -> None:
        """Adds one objective, or replaces that of the same pattern."""

    def delete_objective(self, pattern: str) -> None:
        """Removes one objective; UnknownError when there is none of that pattern."""

    def pin(self, pin: Pin, accept_missed_slos: bool = False) -> None:
        """Fixes the policy, the limit or both of a tenant until it is unpinned.

        ConflictError for one by which an SLO is predicted to be missed, if that is not accepted.
        """

    def last_change(self) -> StatedChange:
        """The last change of objectives or pins by a person; UnknownError without one."""

    def undo(self, change: int | None = None, accept_missed_slos: bool = False) -> StatedChange:
        """Restores objectives and pins as they were before the last change, which is returned.

        ConflictError where the last change is not `change`, and as for a pin.
        """

    def apply(self, asked: Apply) -> Applied:
        """Carries out what a what-if asks, all of it or nothing; ConflictError as for a pin."""

    def revert(self, decision: int, accept_missed_slos: bool = False) -> Pin:
        """Puts back what a decision changed, as a pin that ends by itself; returns the pin.

        UnknownError when there is no such decision, or its tenant is gone; ConflictError as for a
        pin.
        """

    def revert_change(self, change: int, accept_missed_slos: bool = False) -> Pin:
        """Puts back what a change replaced, as `revert` does; UnknownError when there is none."""

    def unpin(self, cgroup: str, node: str | None = None) -> None:
        """Takes the pin away; UnknownError when there is none."""

    def history(
        self,
        cgroup: str | None = None,
        node: str | None = None,
        limit: int = 100,
        before: int | None = None,
        event: str | None = None,
    ) -> list[DecisionView]:
        """The last decisions, the newest first: those of an id below `before`, of one event."""

    def what_if(self, question: WhatIf) -> WhatIfAnswer:
        """What would be planned if this were so; changes nothing."""

    def consolidation(self) -> Consolidation:
        """Least memory per tenant, how many more fit, and which nodes can be drained."""

    def spread(self) -> Spread:
        """Who is to leave nodes without room for what their tenants need next."""
