# SPDX-License-Identifier: Apache-2.0
"""The interface between the HTTP routes and the control loop."""

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
    """No such node, tenant or objective; the message lists those that exist."""


def some(names: list[str]) -> str:
    """Return the first NAMES_SHOWN names in one text, and how many more there are."""
    more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
    return (", ".join(names[:NAMES_SHOWN]) + more) or "none"


class Past(Protocol):
    """Queries about the past; safe to call from any thread; they read SQLite."""

    def refused(self, actor: Actor, asked: str, why: str) -> None:
        """Note that a request of `actor` was refused; returns at once."""

    def changes(self, asked: ChangeFilter, limit: int) -> tuple[list[ChangeView], int]:
        """Return matching changes, newest first, and the number of all that match."""

    def change(self, number: int) -> ChangeDetail:
        """Return one change with its evidence; raise UnknownError for an unknown id."""

    def compared(
        self, node: str | None = None, cgroup: str | None = None, verdict: Verdict | None = None
    ) -> list[TenantComparison]:
        """Return the comparisons of tenants, ordered by node and cgroup.

        Raises UnknownError for a node that was never seen.
        """

    def comparison(self, node: str | None = None) -> Comparison:
        """Return sums of all nodes or of one, and the tenants that gain most and lose most."""

    def series(
        self, cgroup: str, node: str | None, since_s: float | None, until_s: float | None,
        points: int,
    ) -> SeriesView:  # fmt: skip
        """Return the time series of one tenant; by default of the last five minutes."""

    def budgets(self, node: str | None = None, cgroup: str | None = None) -> list[Budget]:
        """Return the error budget of each SLO, ordered by node and cgroup."""


class Service(Protocol):
    """Queries and orders to a controller; safe to call from any thread.

    Every call returns at once, from memory or SQLite, except `tenant`, `what_if`, `consolidation`
    and `spread`: they plan, which takes a second or more for a large fleet.

    A `cgroup` that exists on one node only may be given without its node. Raises `UnknownError` if
    it exists nowhere, InputError if it exists on several nodes.
    """

    @property
    def changes(self) -> Changes:
        """The notifier of changes in what the calls below return."""

    @property
    def past(self) -> Past:
        """Past changes, who made them, and their outcomes."""

    @property
    def moving(self) -> Moving:
        """Execution of consolidations."""

    def store_problem(self) -> str:
        """Return why objectives and decisions cannot be stored now; "" if they can."""

    def nodes(self) -> list[NodeView]:
        """Return every node that was ever seen, by name."""

    def tenants(self, node: str | None = None) -> list[TenantView]:
        """Return the tenants of one node or of all, ordered by node and cgroup."""

    def tenant(self, cgroup: str, node: str | None = None) -> TenantDetail:
        """Return one tenant and the reasons for its policy and limit."""

    def objectives(self) -> Objectives:
        """Return the objectives in force."""

    def set_objectives(self, objectives: Objectives) -> None:
        """Replace all objectives; they are stored before this returns."""

    def set_objective(self, objective: Objective) -> None:
        """Add one objective, or replace that of the same pattern."""

    def delete_objective(self, pattern: str) -> None:
        """Remove one objective; raise UnknownError if there is none of that pattern."""

    def pin(self, pin: Pin, accept_missed_slos: bool = False) -> None:
        """Pin the policy, the limit or both of a tenant until it is unpinned.

        Raises ConflictError if an SLO is predicted to be missed because of it and that is not
        accepted.
        """

    def last_change(self) -> StatedChange:
        """Return a person's last change of objectives or pins; raise UnknownError without one."""

    def undo(self, change: int | None = None, accept_missed_slos: bool = False) -> StatedChange:
        """Restore objectives and pins to their state before the last change; return that change.

        Raises ConflictError if the last change is not `change`, and as for a pin.
        """

    def apply(self, asked: Apply) -> Applied:
        """Apply a what-if, all of it or nothing; raise ConflictError as for a pin."""

    def revert(self, decision: int, accept_missed_slos: bool = False) -> Pin:
        """Roll back a decision by a pin that ends by itself; return the pin.

        Raises UnknownError if there is no such decision or its tenant is gone, and ConflictError as
        for a pin.
        """

    def revert_change(self, change: int, accept_missed_slos: bool = False) -> Pin:
        """Roll back a change as `revert` does; raise UnknownError if there is none of that id."""

    def unpin(self, cgroup: str, node: str | None = None) -> None:
        """Remove a pin; raise UnknownError if there is none."""

    def history(
        self,
        cgroup: str | None = None,
        node: str | None = None,
        limit: int = 100,
        before: int | None = None,
        event: str | None = None,
    ) -> list[DecisionView]:
        """Return the last decisions, newest first: with an id below `before`, of one event."""

    def what_if(self, question: WhatIf) -> WhatIfAnswer:
        """Return the plan under the assumptions of `question`; changes nothing."""

    def consolidation(self) -> Consolidation:
        """Return the least memory per tenant, how many more fit, and which nodes can be drained."""

    def spread(self) -> Spread:
        """Return which tenants should leave nodes without room for what their tenants need next."""
