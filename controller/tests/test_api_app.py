# SPDX-License-Identifier: Apache-2.0
"""The HTTP interface over the fake service: answers, refusals, bounds, the schema."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fake_service import FakeService
from fastapi.testclient import TestClient

from cachepilot.api.app import create_app
from cachepilot.api.serving.bounded_body import BODY_MAX_BYTES
from cachepilot.api.shapes.questions import Pin
from cachepilot.api.shapes.views import DecisionView, NodeView
from cachepilot.domain.objectives.objective import Goal, Objectives
from cachepilot.errors import OutOfRangeError

API = "/api/v1"
HERE = "http://127.0.0.1:7071"


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def client(service: FakeService) -> Iterator[TestClient]:
    with TestClient(create_app(service), HERE) as client:
        yield client


def test_state_is_answered(client: TestClient, service: FakeService) -> None:
    assert [node["name"] for node in client.get(f"{API}/nodes").json()] == ["alpha", "beta"]
    assert len(client.get(f"{API}/tenants").json()) == 4
    assert len(client.get(f"{API}/tenants", params={"node": "beta"}).json()) == 1
    detail = client.get(f"{API}/tenants/detail", params={"cgroup": "/db"}).json()
    assert detail == service.tenant("/db").model_dump(mode="json")
    assert len(client.get(f"{API}/history", params={"limit": 1}).json()) == 1
    drains = client.get(f"{API}/consolidation").json()["drains"]
    assert [one["node"] for one in drains] == ["beta"]


def test_history_is_read_beside_the_loop() -> None:
    threads: dict[str, int] = {}

    class Noting(FakeService):
        def nodes(self) -> list[NodeView]:
            threads["nodes"] = threading.get_ident()
            return super().nodes()

        def history(self, *asked: Any) -> list[DecisionView]:
            threads["history"] = threading.get_ident()
            return super().history(*asked)

    with TestClient(create_app(Noting()), HERE) as client:
        assert {client.get(f"{API}/{one}").status_code for one in ("nodes", "history")} == {200}
    assert threads["history"] != threads["nodes"]


def test_objectives_are_the_keys_of_the_file(client: TestClient, service: FakeService) -> None:
    stated = {"cgroup": "/db", "throughput_ops": 5000, "priority": 10}
    assert client.get(f"{API}/objectives").json() == {
        "goal": "proportional_fairness",
        "tenant": [stated],
    }
    more = {"cgroup": "/web*", "hit_ratio": 0.9, "memory_min": "1%", "policies": ["lfu"]}
    assert client.post(f"{API}/objectives", json=more).json()["tenant"] == [stated, more]
    assert service.stated.of("/web2").hit_ratio == 0.9
    client.request("DELETE", f"{API}/objectives", params={"cgroup": "/db"})
    assert [one.pattern for one in service.stated.tenants] == ["/web*"]
    answer = client.put(f"{API}/objectives", json={"goal": "least_memory", "tenant": []})
    assert answer.json() == {"goal": "least_memory", "tenant": []}
    assert service.stated == Objectives((), Goal.LEAST_MEMORY)


def test_pins(client: TestClient, service: FakeService) -> None:
    assert client.post(f"{API}/pins", json={"cgroup": "/db", "policy": "mru"}).status_code == 200
    assert service.pins == [Pin(cgroup="/db", policy="mru")]
    answer = client.request("DELETE", f"{API}/pins", params={"cgroup": "/db"})
    assert (answer.status_code, service.pins) == (204, [])


def test_what_if_answers_with_the_asked_policy(client: TestClient) -> None:
    question = {"node": "alpha", "policy": {"/db": "mru"}, "budget_bytes": 2 << 30}
    answer = client.post(f"{API}/what-if", json=question).json()
    assert answer["tenants"][0]["to_policy"] == "mru"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "part"),
    [
        ("GET", "tenants/detail?cgroup=/x", None, 404, "tenant /x: unknown"),
        ("GET", "tenants/detail", None, 422, "cgroup: Field required"),
        ("GET", "tenants?nodes=alpha", None, 422, "unknown parameter 'nodes' (allowed: node, "),
        ("GET", "nodes?x=1", None, 422, "(allowed: none)"),
        ("GET", "history?limit=0", None, 422, "limit: "),
        ("GET", "changes?since=nan", None, 422, "since: Input should be a finite number"),
        ("GET", "changes?until=inf", None, 422, "until: Input should be a finite number"),
        ("GET", "tenants/series?cgroup=/a&until=nan", None, 422, "until: Input should be a finite"),
        ("GET", "nowhere", None, 404, "Not Found"),
        ("PATCH", "objectives", {}, 405, "Method Not Allowed"),
        ("DELETE", "objectives?cgroup=/x", None, 404, "objective /x"),
        ("DELETE", "pins?cgroup=/x", None, 404, "pin of /x"),
        ("POST", "objectives", {"cgroup": "/a", "wieght": 1}, 422, "wieght: unknown key"),
        ("POST", "objectives", {"cgroup": "/a", "weight": -1}, 422, "weight: -1.0 is not allowed"),
        ("POST", "objectives", {"cgroup": "/a", "weight": "2"}, 422, "weight: "),
        ("POST", "objectives", {"weight": 2}, 422, "cgroup: Field required"),
        ("POST", "objectives", {"cgroup": "/a", "indicator": "x"}, 422, "indicator"),
        ("PUT", "objectives", {"tenant": [{"cgroup": ""}]}, 422, "tenant 1: cgroup"),
        ("PUT", "objectives", {"tenant": [{"cgroup": "a", "x": 1}]}, 422, "tenant.0.x: unknown"),
        ("POST", "pins", {"cgroup": "/db"}, 422, "nothing is pinned"),
        ("POST", "pins", {"cgroup": "/db", "limit_bytes": 0}, 422, "limit_bytes: 0"),
        ("POST", "what-if", {"node": "alpha", "polices": {}}, 422, "polices: unknown key"),
        ("POST", "what-if", {"node": "alpha", "policy": {"/x": "lfu"}}, 422, "/x: no such tenant"),
    ],
)
def test_refusals_are_one_line(
    client: TestClient, method: str, path: str, body: Any, status: int, part: str
) -> None:
    answer = client.request(method, f"{API}/{path}", json=body)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert part in answer.json()["error"] and "\n" not in answer.json()["error"]


def test_a_refusal_of_a_number_has_its_range(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pin(*_: Any) -> None:
        raise OutOfRangeError("pin /db: limit 4 KiB", "limit_bytes", 4096, 1 << 20, 1 << 28)

    monkeypatch.setattr(FakeService, "pin", pin)
    answer = client.post(f"{API}/pins", json={"cgroup": "/db", "limit_bytes": 4096})
    given = {"key": "limit_bytes", "value": 4096, "least": 1 << 20, "most": 1 << 28}
    assert answer.status_code == 422
    assert answer.json() == {"error": "pin /db: limit 4 KiB", "range": given}


def test_a_body_that_is_not_json_is_refused(client: TestClient) -> None:
    headers = {"content-type": "application/json"}
    answer = client.post(f"{API}/pins", content=b"{", headers=headers)
    assert answer.status_code == 422 and list(answer.json()) == ["error"]
    told = "body: no JSON from character 1 on: Expecting property name"
    assert answer.json()["error"].startswith(told)


@pytest.mark.parametrize("chunked", [False, True])
def test_large_bodies_are_refused(client: TestClient, chunked: bool) -> None:
    def body(length: int) -> Any:
        data = b" " * (length - 2) + b"{}"
        return iter([data[: length // 2], data[length // 2 :]]) if chunked else data

    headers = {"content-type": "application/json"}
    fits = client.put(f"{API}/objectives", content=body(BODY_MAX_BYTES), headers=headers)
    assert fits.status_code == 200
    too_large = client.put(f"{API}/objectives", content=body(BODY_MAX_BYTES + 1), headers=headers)
    assert too_large.status_code == 413 and "1048576" in too_large.json()["error"]


def test_a_failure_is_one_line_too() -> None:
    class Failing(FakeService):
        def nodes(self) -> list[NodeView]:
            raise KeyError("a secret")

    with TestClient(create_app(Failing()), HERE, raise_server_exceptions=False) as client:
        answer = client.get(f"{API}/nodes")
    assert answer.status_code == 500
    assert answer.json() == {"error": "internal error of the controller; its log has the reason"}


def test_health(client: TestClient) -> None:
    assert client.get("/healthz").json() == {
        **{"status": "ok", "nodes": 2, "connected": 1},
        "problem": "",
    }


def test_the_schema_names_every_route_and_the_keys_of_objectives(client: TestClient) -> None:
    schema = client.get("/openapi.json").json()
    routes = {path: sorted(methods) for path, methods in schema["paths"].items()}
    assert routes[f"{API}/objectives"] == ["delete", "get", "post", "put"]
    assert routes[f"{API}/pins"] == ["delete", "post"]
    assert routes[f"{API}/reverts"] == ["post"]
    assert {f"{API}/nodes", f"{API}/history", "/metrics", "/healthz", "/livez"} <= set(routes)
    assert routes[f"{API}/undo"] == ["get", "post"]
    assert routes[f"{API}/what-if/apply"] == ["post"]
    shape = schema["components"]["schemas"]["ObjectiveShape"]
    assert "latency_p99_us" in shape["properties"] and shape["additionalProperties"] is False
    refusal = schema["paths"][f"{API}/pins"]["post"]["responses"]["422"]
    assert refusal["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorShape")
