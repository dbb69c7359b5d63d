# SPDX-License-Identifier: Apache-2.0
"""The HTTP application: /api/v1, /metrics, /healthz, /openapi.json, and the page at /."""

from http import HTTPStatus
from typing import Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry
from starlette.exceptions import HTTPException

from cachepilot import _models
from cachepilot.api import routes
from cachepilot.api.metrics import Exposition
from cachepilot.api.service import Service, UnknownError
from cachepilot.api.serving.access import Guarded
from cachepilot.api.serving.bounded_body import BODY_S, BoundedBody
from cachepilot.api.serving.events import RETRY_AFTER_S, Events, TooManyClientsError
from cachepilot.api.serving.fleet_plans import FleetPlans
from cachepilot.api.serving.page import add_page
from cachepilot.api.shapes.errors import ErrorShape, RangeShape
from cachepilot.api.shapes.shape import Shape
from cachepilot.errors import ConflictError, InputError, OutOfRangeError
from cachepilot.fleet.access import Access
from cachepilot.node.shown.changes import Topic
from cachepilot.store.failures import StoreFailedError

REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorShape, "description": "The body is not UTF-8 text"},
    401: {"model": ErrorShape, "description": "No valid token, where one is required"},
    403: {
        "model": ErrorShape,
        "description": "A viewer's token, or a request from another site's page",
    },
    404: {"model": ErrorShape, "description": "No such node, tenant, objective or pin"},
    408: {"model": ErrorShape, "description": "The body did not arrive within 10 s"},
    409: {"model": ErrorShape, "description": "Refused as things are: the line says why"},
    413: {"model": ErrorShape, "description": "The body is larger than 1 MiB"},
    422: {"model": ErrorShape, "description": "Refused: the line names the key and the range"},
    503: {"model": ErrorShape, "description": "The store cannot be read or written"},
    507: {"model": ErrorShape, "description": "The store's file system is full"},
}


class Life(Shape):
    """That the event loop, which also answers agents, is alive."""

    status: Literal["ok"]


class Health(Shape):
    """Whether the controller can do its work, and what it can see."""

    status: Literal["ok", "failing"]
    nodes: int
    connected: int
    problem: str = ""
    """Why the controller cannot store decisions and objectives; "" if all is well."""


def _refusal(status: int, message: str, allowed: RangeShape | None = None) -> JSONResponse:
    # The refused input may not be valid Unicode: a lone surrogate is shown as its escape.
    line = " ".join(message.split()).encode(errors="backslashreplace").decode()
    told = ErrorShape(error=line, range=allowed)
    return JSONResponse(told.model_dump(exclude_none=True), status)


async def _on_input_error(_request: Request, error: Exception) -> Response:
    status = 409 if isinstance(error, ConflictError) else 422
    allowed = RangeShape.model_validate(error.range) if isinstance(error, OutOfRangeError) else None
    return _refusal(404 if isinstance(error, UnknownError) else status, str(error), allowed)


async def _on_too_many(_request: Request, error: Exception) -> Response:
    answer = _refusal(503, str(error))
    answer.headers["Retry-After"] = str(RETRY_AFTER_S)
    return answer


async def _on_store_failure(_request: Request, error: Exception) -> Response:
    assert isinstance(error, StoreFailedError)
    status = HTTPStatus.INSUFFICIENT_STORAGE if error.is_full else HTTPStatus.SERVICE_UNAVAILABLE
    return _refusal(status, f"nothing was changed: {error}")


async def _on_validation_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        at, why = first["loc"][-1], first["ctx"]["error"]
        return _refusal(422, f"body: no JSON from character {at} on: {why} (allowed: JSON)")
    # The first part of the location is "body" or "query", which the client knows.
    where = ".".join(str(part) for part in first["loc"][1:]) or "body"
    if first["type"] == "extra_forbidden":
        return _refusal(422, f"{where}: unknown key (/openapi.json lists those that there are)")
    return _refusal(422, f"{where}: {first['msg']}")


async def _on_http_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _refusal(error.status_code, str(error.detail))


async def _on_failure(_request: Request, _error: Exception) -> Response:
    return _refusal(500, "internal error of the controller; its log has the reason")


def _add_operations(app: FastAPI, service: Service, process: CollectorRegistry) -> None:
    exposition = Exposition(service, process)

    @app.get("/metrics", response_class=Response, tags=["operations"])
    def metrics() -> Response:
        """The text format of Prometheus."""
        return Response(exposition.text(), media_type=CONTENT_TYPE_LATEST)

    @app.get("/livez", tags=["operations"])
    def livez() -> Life:
        """Answers while the event loop runs; without an answer in time the controller hangs."""
        return Life(status="ok")

    @app.get("/healthz", tags=["operations"], responses={503: {"model": Health}})
    def healthz(response: Response) -> Health:
        """200; 503 and the reason while the store cannot be read or written."""
        nodes, problem = service.nodes(), service.store_problem()
        connected = sum(node.connected for node in nodes)
        if problem:
            response.status_code = HTTPStatus.SERVICE_UNAVAILABLE
        status: Literal["ok", "failing"] = "failing" if problem else "ok"
        return Health(status=status, nodes=len(nodes), connected=connected, problem=problem)


def create_app(
    service: Service,
    process: CollectorRegistry = REGISTRY,
    access: Access | None = None,
    body_s: float = BODY_S,
) -> FastAPI:
    """Return the application over `service`, whose methods are called on worker threads only.

    The event loop also serves agents, and a call may compute, write to a disk, or wait for a lock.
    A tenant's details, the history, what-if and consolidation take longest and run on separate
    threads, so that no other call waits for them.

    Errors are answered as one line, `{"error": ...}`, with the `range` of an OutOfRangeError:

    - UnknownError with 404, ConflictError with 409, TooManyClientsError with 503, any other
      InputError with 422, StoreFailedError with 507 (full) or 503;
    - a body above 1 MiB with 413, and a body that does not arrive within `body_s` with 408;
    - any other exception with 500; it is then raised again, so that the server logs it.

    Unknown keys are refused. /metrics includes the metrics registered in `process`, which are those
    of the control loop. Without `access`, only clients on this host are served, as operators.
    Before the server stops, close `state.events`, which keeps streams open, and after that
    `state.plans`, which has a thread of its own.
    """
    app = FastAPI(
        title="cachepilot controller",
        version=_models.version(),
        description="Objectives, state and decisions of the page cache's autopilot.",
        docs_url=None,
        redoc_url=None,
        exception_handlers={
            InputError: _on_input_error,
            TooManyClientsError: _on_too_many,
            StoreFailedError: _on_store_failure,
            RequestValidationError: _on_validation_error,
            HTTPException: _on_http_error,
            Exception: _on_failure,
        },
    )
    app.add_middleware(BoundedBody, body_s=body_s)
    app.add_middleware(Guarded, access=access or Access(), refused=service.past.refused)
    app.state.events = events = Events(service.changes)
    app.state.plans = plans = FleetPlans(
        service.consolidation, service.spread, lambda: service.changes.count(Topic.ASKED)
    )
    router = routes.router(service, events, plans)
    app.include_router(router, prefix="/api/v1", responses=REFUSALS)
    _add_operations(app, service, process)
    add_page(app)
    return app
