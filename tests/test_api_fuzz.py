# SPDX-License-Identifier: Apache-2.0
"""The HTTP interface of the real controller service, under requests generated from its schema."""

import hashlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from served import served

from cachepilot.api.serving.bounded_body import BODY_MAX_BYTES
from cachepilot.fleet.access import Access
from cachepilot.fleet.role import Role

EXAMPLES = 20
"""Generated requests of each operation."""
VIEWER, OPERATOR = "v" * 40, "o" * 40
SIZES = tuple(MIB * size for size in (16, 64, 128, 256))
ENDLESS = "/api/v1/events"
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
HERE = {"Authorization": f"Bearer {OPERATOR}"}
BOUNDED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    curves = {"default": linear(512 * MIB), "lfu": linear(200 * MIB)}
    tenants = [PlantTenant(name, curves, 128 * MIB) for name in ("/a", "/b")]
    found = World(tmp_path_factory.mktemp("world"), Plant(tenants, 256 * MIB, SIZES))
    found.run(20)
    return found


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[httpx.Client]:
    roles = {VIEWER: Role.VIEWER, OPERATOR: Role.OPERATOR}
    access = Access({hashlib.sha256(one.encode()).digest(): role for one, role in roles.items()})
    with served(world.service, access) as url, httpx.Client(base_url=url, timeout=30) as found:
        yield found


def _checked(operation: Any, url: str, mode: GenerationMode) -> None:
    """Send EXAMPLES generated requests of one operation; `mode` says if they fit its schema."""

    @BOUNDED
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        case.call_and_validate(base_url=url, headers=HERE, checks=CHECKS)

    ask()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_operation_answers_as_its_schema_says(
    client: httpx.Client, world: World, mode: GenerationMode
) -> None:
    url = str(client.base_url).rstrip("/")
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", headers=HERE)
    found: list[Any] = list(schema.get_all_operations())
    asked = [one.ok() for one in found if one.ok().path != ENDLESS]
    assert len(asked) >= 16
    for operation in asked:
        # An operation without any input has no request that does not fit.
        has_input = operation.query.items or operation.body.items
        if mode is GenerationMode.POSITIVE or has_input:
            _checked(operation, url, mode)
    world.run(3)
    assert client.get("/healthz").json()["status"] == "ok"


def _state(client: httpx.Client) -> list[Any]:
    """Return the state that requests could change."""
    tenants = client.get("/api/v1/tenants", headers=HERE).json()
    pins = [(one["pinned_policy"], one["pinned_limit_bytes"]) for one in tenants]
    return [client.get("/api/v1/objectives", headers=HERE).json(), pins]


REFUSED: dict[str, tuple[int, dict[str, Any]]] = {
    "no token": (401, {"headers": {}}),
    "a wrong token": (401, {"headers": {"Authorization": f"Bearer {'x' * 40}"}}),
    "another scheme": (401, {"headers": {"Authorization": f"Basic {OPERATOR}"}}),
    "a viewer": (403, {"headers": {"Authorization": f"Bearer {VIEWER}"}}),
    "a wrong type": (422, {"json": {"cgroup": 7}}),
    "a list": (422, {"json": []}),
    "no JSON": (422, {"content": b"{", "headers": {"content-type": "application/json"} | HERE}),
    "an unknown key": (422, {"json": {"cgroup": "/a", "colour": "red"}}),
    "an unknown tenant": (404, {"json": {"cgroup": "/none", "policy": "lfu"}}),
    "an unknown policy": (422, {"json": {"cgroup": "/a", "policy": "none"}}),
    "a huge number": (422, {"json": {"cgroup": "/a", "limit_bytes": 1 << 70}}),
    "a huge body": (413, {"content": b" " * (BODY_MAX_BYTES + 1)}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_refused_request_changes_nothing(client: httpx.Client, world: World, what: str) -> None:
    status, request = REFUSED[what]
    before = _state(client)
    asked: dict[str, Any] = {"headers": HERE, "json": {"cgroup": "/a", "policy": "lfu"}} | request
    if "content" in request:
        del asked["json"]
    answer = client.post("/api/v1/pins", **asked)
    assert answer.status_code == status, answer.text
    assert set(answer.json()) <= {"error", "range"} and "\n" not in answer.json()["error"]
    world.run(1)
    assert _state(client) == before


def test_an_accepted_request_changes_something(client: httpx.Client, world: World) -> None:
    before = _state(client)
    body = {"cgroup": "/a", "policy": "lfu"}
    assert client.post("/api/v1/pins", json=body, headers=HERE).status_code == 200
    world.run(1)
    assert _state(client) != before
