# SPDX-License-Identifier: Apache-2.0
"""The routes below /api/v1 about the past; each reads the store on a pool thread."""

from asyncio import to_thread
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from cachepilot.api.service import Past, Service
from cachepilot.api.shapes.budgets import BudgetView
from cachepilot.api.shapes.changes import ChangeDetail, ChangeView
from cachepilot.api.shapes.comparison import Comparison, TenantComparisonView
from cachepilot.api.shapes.series import SeriesView
from cachepilot.api.shapes.shape import CgroupPath, CgroupPattern, NodeName
from cachepilot.domain.past.change import ChangeFilter, ChangeKind, ChangeState
from cachepilot.domain.past.comparison import Verdict
from cachepilot.domain.past.series import POINTS_MAX

CHANGES_MAX = 1000
TOTAL = "X-Total-Count"
"""The header with the number of rows on all pages."""
ID_MAX = (1 << 63) - 1

SomeCgroup = Annotated[
    CgroupPattern | None, Query(description="Only this cgroup, or pattern of one.")
]
OnNode = Annotated[NodeName | None, Query(description="Only this node.")]
Seconds = Annotated[float, Field(allow_inf_nan=False)]
Since = Annotated[Seconds | None, Query(description="Begun then or later, seconds since 1970.")]
Until = Annotated[Seconds | None, Query(description="Begun then or before, seconds since 1970.")]
By = Annotated[
    str | None, Query(max_length=256, description="Part of the name or kind of the author.")
]
InState = Annotated[ChangeState | None, Query(description="Only changes in this state.")]
OfKind = Annotated[ChangeKind | None, Query(description="Only changes of this kind.")]
Below = Annotated[int | None, Query(ge=1, le=ID_MAX, description="Only rows with a lower id.")]
Limit = Annotated[int, Query(ge=1, le=CHANGES_MAX, description="Number of rows, the newest first.")]
Number = Annotated[int, Query(ge=1, le=ID_MAX, description="The id of a change.")]

Judged = Annotated[Verdict | None, Query(description="Only tenants with this result.")]
Cgroup = Annotated[CgroupPath, Query(description="Path of a cgroup, like /db.")]
From = Annotated[Seconds | None, Query(description="Seconds since 1970; 5 minutes before `until`.")]
To = Annotated[Seconds | None, Query(description="Seconds since 1970; the last snapshot.")]
Points = Annotated[int, Query(ge=2, le=POINTS_MAX, description="How many points at most.")]
Offset = Annotated[int, Query(ge=0, le=1 << 31, description="Number of rows to skip.")]


def _add_comparison(routes: APIRouter, past: Past) -> None:
    @routes.get("/comparison", tags=["past"])
    async def comparison(node: OnNode = None) -> Comparison:
        """Gains and losses: now against the default and against before, summed."""
        return await to_thread(past.comparison, node)

    @routes.get("/comparison/tenants", tags=["past"])
    async def compared(
        response: Response,
        node: OnNode = None,
        cgroup: SomeCgroup = None,
        verdict: Judged = None,
        offset: Offset = 0,
        limit: Limit = 1000,
    ) -> list[TenantComparisonView]:
        """Gains and losses of each tenant; X-Total-Count counts all pages."""
        found = await to_thread(past.compared, node, cgroup, verdict)
        response.headers[TOTAL] = str(len(found))
        return [TenantComparisonView.of(one) for one in found[offset : offset + limit]]


def _add_budgets(routes: APIRouter, past: Past) -> None:
    @routes.get("/budgets", tags=["past"])
    async def budgets(node: OnNode = None, cgroup: SomeCgroup = None) -> list[BudgetView]:
        """The error budget of each SLO: attainment, what is left, and how fast it is used up."""
        found = await to_thread(past.budgets, node, cgroup)
        return [BudgetView.of(one) for one in found]


def _add_series(routes: APIRouter, past: Past) -> None:
    @routes.get("/tenants/series", tags=["past"])
    async def series(
        cgroup: Cgroup,
        node: OnNode = None,
        since: From = None,
        until: To = None,
        points: Points = 600,
    ) -> SeriesView:
        """The time series of a tenant over any range, also of before the controller started."""
        return await to_thread(past.series, cgroup, node, since, until, points)


def add_past(routes: APIRouter, service: Service) -> None:
    """Add the routes about the past to `routes`."""
    past = service.past
    _add_comparison(routes, past)
    _add_budgets(routes, past)
    _add_series(routes, past)

    @routes.get("/changes", tags=["past"])
    async def changes(
        response: Response,
        node: OnNode = None,
        cgroup: SomeCgroup = None,
        since: Since = None,
        until: Until = None,
        by: By = None,
        state: InState = None,
        kind: OfKind = None,
        before: Below = None,
        limit: Limit = 100,
    ) -> list[ChangeView]:
        """Changes and refused changes, the newest first; X-Total-Count counts all that match.

        What was stated for all nodes, such as a pin without a node, is among those of each node.
        A page goes on below the last id of the one before it.
        """
        asked = ChangeFilter(node, cgroup, since, until, by, state, kind, before)
        found, total = await to_thread(past.changes, asked, limit)
        response.headers[TOTAL] = str(total)
        return found

    @routes.get("/changes/detail", tags=["past"])
    async def change(id: Number) -> ChangeDetail:
        """One change with its evidence over time."""
        return await to_thread(past.change, id)
