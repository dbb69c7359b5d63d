# SPDX-License-Identifier: Apache-2.0
"""The routes below /api/v1. A cgroup contains slashes, so it is always a query parameter.

No route calls the service on the event loop, which also serves agents. A route that is not a
coroutine runs on a thread of FastAPI's pool. A route that plans for long or reads much is a
coroutine and uses another pool, so that it does not delay the short ones.
"""

from asyncio import to_thread
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPBearer

from cachepilot.api.fleet_view import PAGE_MAX, FleetView, Only, Order, fleet_view, select
from cachepilot.api.moving.moving_routes import add_moving
from cachepilot.api.past_routes import add_past
from cachepilot.api.service import Service
from cachepilot.api.serving.access import ROLE_KEY
from cachepilot.api.serving.events import Events, EventStream
from cachepilot.api.serving.fleet_plans import FleetPlans
from cachepilot.api.shapes.detail import TenantDetail
from cachepilot.api.shapes.errors import ErrorShape
from cachepilot.api.shapes.matching import objectives_beside
from cachepilot.api.shapes.objectives import ObjectiveShape, ObjectivesShape
from cachepilot.api.shapes.questions import (
    Applied,
    Apply,
    Consolidation,
    Pin,
    PinOrder,
    Revert,
    Spread,
    StatedChange,
    Undo,
    WhatIf,
    WhatIfAnswer,
)
from cachepilot.api.shapes.shape import CgroupPath, CgroupPattern, NodeName
from cachepilot.api.shapes.views import AccessView, DecisionView, NodeView, TenantView
from cachepilot.domain.decisions import Event
from cachepilot.errors import InputError
from cachepilot.fleet.role import Role

HISTORY_MAX = 1000

Cgroup = Annotated[CgroupPath, Query(description="Path of a cgroup, like /db.")]
SomeCgroup = Annotated[CgroupPath | None, Query(description="Only this cgroup.")]
SomeNode = Annotated[
    NodeName | None, Query(description="Required if several nodes have a cgroup of this path.")
]
Pattern = Annotated[CgroupPattern, Query(description="The cgroup of the objective, as stated.")]
Limit = Annotated[int, Query(ge=1, le=HISTORY_MAX, description="Number of rows, the newest first.")]
Search = Annotated[
    str, Query(max_length=256, description="Words; each must occur in the node, cgroup or policy.")
]
Listed = Annotated[Only | None, Query(description="Only tenants of this kind.")]
Sort = Annotated[Order | None, Query(description="By default by node and cgroup.")]
Falling = Annotated[bool, Query(description="The largest value first.")]
Offset = Annotated[int, Query(ge=0, le=1 << 31, description="Number of rows to skip.")]
Page = Annotated[
    int | None, Query(ge=1, le=PAGE_MAX, description="Number of rows; by default all.")
]
Before = Annotated[
    int | None, Query(ge=1, le=(1 << 63) - 1, description="Only rows with a lower id.")
]
Happened = Annotated[Event | None, Query(description="Only decisions of this event.")]
TOTAL = "X-Total-Count"
"""The header with the number of tenants on all pages."""

_BEARER = HTTPBearer(
    auto_error=False,
    description="The token of a viewer or an operator, if the controller requires one.",
)
"""Only for the schema: `Guarded` checks the token before any route is matched."""


def _known_parameters(request: Request) -> None:
    """Refuse query parameters that the route does not have."""
    dependant = request.scope["route"].dependant
    known = [parameter.alias for parameter in dependant.query_params]
    for name in request.query_params:
        if name not in known:
            allowed = ", ".join(known) or "none"
            raise InputError(f"unknown parameter {name!r} (allowed: {allowed})")


def _add_access(routes: APIRouter) -> None:
    @routes.get("/access", tags=["access"])
    async def access(request: Request) -> AccessView:
        """The role of the client, and whether it may change anything."""
        role: Role = request.scope[ROLE_KEY]
        return AccessView(role=role, may_change=role.may("POST"))


def _add_state(routes: APIRouter, service: Service) -> None:
    @routes.get("/nodes", tags=["state"])
    def nodes() -> list[NodeView]:
        """All known nodes, by name."""
        return service.nodes()

    @routes.get("/fleet", tags=["state"])
    def fleet() -> FleetView:
        """Sums over all nodes and tenants."""
        return fleet_view(service.nodes(), service.tenants())

    @routes.get("/tenants", tags=["state"])
    def tenants(
        response: Response,
        node: SomeNode = None,
        search: Search = "",
        only: Listed = None,
        sort: Sort = None,
        falling: Falling = False,
        offset: Offset = 0,
        limit: Page = None,
    ) -> list[TenantView]:
        """Tenants, by default in the order of node and cgroup; X-Total-Count counts all pages."""
        found = select(service.tenants(node), search, only, sort, falling)
        response.headers[TOTAL] = str(len(found))
        return found[offset:] if limit is None else found[offset : offset + limit]

    @routes.get("/tenants/detail", tags=["state"])
    async def tenant(cgroup: Cgroup, node: SomeNode = None) -> TenantDetail:
        """One tenant: curves, model, and the reasons for its policy and limit."""
        return await to_thread(service.tenant, cgroup, node)

    @routes.get("/history", tags=["state"])
    async def history(
        cgroup: SomeCgroup = None,
        node: SomeNode = None,
        limit: Limit = 100,
        before: Before = None,
        event: Happened = None,
    ) -> list[DecisionView]:
        """Decisions, the newest first."""
        return await to_thread(service.history, cgroup, node, limit, before, event)


def _add_events(routes: APIRouter, events: Events) -> None:
    @routes.get(
        "/events",
        tags=["state"],
        response_class=StreamingResponse,
        responses={
            200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}},
            503: {
                "model": ErrorShape,
                "description": "As many listen as may",
                "headers": {"Retry-After": {"schema": {"type": "integer"}}},
            },
        },
    )
    async def listen() -> EventStream:
        """Server-sent events without end: `change` names what changed, `reload` means all."""
        events.require_room()
        return EventStream(events.stream())


def _add_objectives(routes: APIRouter, service: Service) -> None:
    @routes.get("/objectives", tags=["objectives"], response_model_exclude_none=True)
    def objectives() -> ObjectivesShape:
        """All objectives, without keys at their default."""
        return objectives_beside(service.objectives(), service.tenants())

    @routes.put("/objectives", tags=["objectives"], response_model_exclude_none=True)
    def set_objectives(objectives: ObjectivesShape) -> ObjectivesShape:
        """Replaces all objectives, and stores them before it answers."""
        service.set_objectives(objectives.objectives())
        return objectives_beside(service.objectives(), service.tenants())

    @routes.post("/objectives", tags=["objectives"], response_model_exclude_none=True)
    def set_objective(objective: ObjectiveShape) -> ObjectivesShape:
        """Adds one objective, or replaces that of the same cgroup."""
        service.set_objective(objective.objective())
        return objectives_beside(service.objectives(), service.tenants())

    @routes.delete("/objectives", tags=["objectives"], response_model_exclude_none=True)
    def delete_objective(cgroup: Pattern) -> ObjectivesShape:
        """Removes one objective."""
        service.delete_objective(cgroup)
        return objectives_beside(service.objectives(), service.tenants())


def _add_pins(routes: APIRouter, service: Service) -> None:
    @routes.post("/pins", tags=["pins"])
    def pin(order: PinOrder) -> Pin:
        """Pins the policy, the limit or both of a tenant, until it is unpinned.

        Refused with 409 if an SLO is predicted to be missed, unless `accept_missed_slos` is true.
        """
        pin = order.pin()
        if pin.policy is None and pin.limit_bytes is None:
            raise InputError("pin: nothing is pinned (allowed: policy, limit_bytes, or both)")
        if pin.limit_bytes is not None and pin.limit_bytes <= 0:
            raise InputError(f"limit_bytes: {pin.limit_bytes} (allowed: above 0)")
        service.pin(pin, order.accept_missed_slos)
        return pin

    @routes.get("/undo", tags=["pins"])
    def last_change() -> StatedChange:
        """The last change of objectives or pins by a person, which `POST` undoes."""
        return service.last_change()

    @routes.post("/undo", tags=["pins"])
    def undo(wanted: Undo) -> StatedChange:
        """Restores objectives and pins as they were before the last change; answers that change.

        Refused with 409 if an SLO is predicted to be missed, unless `accept_missed_slos` is true.
        """
        return service.undo(wanted.change, wanted.accept_missed_slos)

    @routes.post("/reverts", tags=["pins"])
    def revert(wanted: Revert) -> Pin:
        """Rolls back a decision or a change, and pins the result for an hour.

        Refused with 409 if an SLO is predicted to be missed, unless `accept_missed_slos` is true.
        """
        match wanted.decision, wanted.change:
            case int() as decision, None:
                return service.revert(decision, wanted.accept_missed_slos)
            case None, int() as change:
                return service.revert_change(change, wanted.accept_missed_slos)
        raise InputError("revert: needs a decision or a change, one of both")

    @routes.delete("/pins", tags=["pins"], status_code=204)
    def unpin(cgroup: Cgroup, node: SomeNode = None) -> None:
        """Removes the pin."""
        service.unpin(cgroup, node)


def _add_planning(routes: APIRouter, service: Service, plans: FleetPlans) -> None:
    @routes.post("/what-if", tags=["planning"])
    async def what_if(question: WhatIf) -> WhatIfAnswer:
        """The plan under other objectives, limits or policies; changes nothing."""
        return await to_thread(service.what_if, question)

    @routes.post("/what-if/apply", tags=["planning"])
    async def apply(asked: Apply) -> Applied:
        """Applies a what-if: pins that end by themselves, and objectives.

        Refused with 409 if an SLO is predicted to be missed, unless `accept_missed_slos` is true.
        """
        return await to_thread(service.apply, asked)

    @routes.get("/consolidation", tags=["planning"])
    async def consolidation() -> Consolidation:
        """Least memory per tenant, how many more fit, and which nodes can be drained.

        Up to 5 s old, but never older than what operators last asked for.
        """
        return await plans.consolidation.get()

    @routes.get("/consolidation/spread", tags=["planning"])
    async def spread() -> Spread:
        """Nodes without room for what tenants need now or next, and which tenants should leave.

        Up to 5 s old, but never older than what operators last asked for.
        """
        return await plans.spread.get()


def router(service: Service, events: Events, plans: FleetPlans) -> APIRouter:
    """Return all routes over `service`.

    Plain functions call it on FastAPI's threads; coroutines that plan or read much use another
    pool.
    """
    routes = APIRouter(dependencies=[Depends(_known_parameters), Depends(_BEARER)])
    _add_access(routes)
    _add_state(routes, service)
    _add_events(routes, events)
    _add_objectives(routes, service)
    _add_pins(routes, service)
    _add_planning(routes, service, plans)
    add_moving(routes, service.moving)
    add_past(routes, service)
    return routes
