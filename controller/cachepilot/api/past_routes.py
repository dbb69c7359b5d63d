# SPDX-License-Identifier: Apache-2.0
"""The routes below /api/v1 that look back: each reads the store, on a thread of its own pool."""

from asyncio import to_thread
from typing import Annotated

from fastapi import APIRouter, Query, Response

from cachepilot.api.service import Service
from cachepilot.api.shapes.changes import ChangeDetail, ChangeView
from cachepilot.domain.change import ChangeFilter, ChangeKind, ChangeState

CHANGES_MAX = 1000
TOTAL = "X-Total-Count"
"""The header with the number of rows on all pages."""
ID_MAX = (1 << 63) - 1

SomeCgroup = Annotated[str | None, Query(description="Only this cgroup, or pattern of one.")]
OnNode = Annotated[str | None, Query(description="Only this node.")]
Since = Annotated[float | None, Query(description="Begun then or later, seconds since 1970.")]
Until = Annotated[float | None, Query(description="Begun then or before, seconds since 1970.")]
By = Annotated[
    str | None, Query(max_length=256, description="A part of the name, or kind, of who made it.")
]
InState = Annotated[ChangeState | None, Query(description="Only those that stand like this.")]
OfKind = Annotated[ChangeKind | None, Query(description="Only changes of this kind.")]
Below = Annotated[int | None, Query(ge=1, le=ID_MAX, description="Only those of a lower id.")]
Limit = Annotated[int, Query(ge=1, le=CHANGES_MAX, description="How many, the newest first.")]
Number = Annotated[int, Query(ge=1, le=ID_MAX, description="The id of a change.")]


def add_past(routes: APIRouter, service: Service) -> None:
    """Adds what looks back."""
    past = service.past

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
        """What was changed or refused, a row each, the newest first; X-Total-Count: all that match.

        A page goes on below the last id of the one before it.
        """
        asked = ChangeFilter(node, cgroup, since, until, by, state, kind, before)
        found, total = await to_thread(past.changes, asked, limit)
        response.headers[TOTAL] = str(total)
        return found

    @routes.get("/changes/detail", tags=["past"])
    async def change(id: Number) -> ChangeDetail:
        """One change, and its evidence over time."""
        return await to_thread(past.change, id)
