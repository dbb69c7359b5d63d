# SPDX-License-Identifier: Apache-2.0
"""Invalid names: refused over HTTP, and quarantined if an earlier version stored them."""

import json
import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from experiments.control_loop.plant import MIB, Plant, PlantTenant, linear
from experiments.control_loop.world import World
from fastapi.testclient import TestClient
from prometheus_client import REGISTRY

from cachepilot.api.app import create_app
from cachepilot.api.fleet_service import ControlService
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.objectives.pins import Pin
from cachepilot.fleet.config import ControllerConfig
from cachepilot.fleet.fleet import Fleet
from cachepilot.store.store import Store

BAD = "/\ud800/kv"
SIZES = tuple(MIB * size for size in (16, 64, 128, 256))


def quarantined(kind: str) -> float:
    return REGISTRY.get_sample_value("cachepilot_store_quarantined_total", {"kind": kind}) or 0.0


@pytest.fixture
def world(tmp_path: Path) -> World:
    curves = {"default": linear(512 * MIB), "lfu": linear(200 * MIB)}
    found = World(tmp_path, Plant([PlantTenant("/t/kv", curves, 128 * MIB)], 256 * MIB, SIZES))
    found.run(3)
    return found


def client_of(world: World) -> TestClient:
    return TestClient(create_app(world.service), "http://127.0.0.1", raise_server_exceptions=False)


def _sent(client: TestClient, method: str, path: str, body: Any) -> Any:
    # JSON writes a lone surrogate as an escape.
    return client.request(
        method, f"/api/v1/{path}", content=json.dumps(body),
        headers={"Content-Type": "application/json"},
    )  # fmt: skip


@pytest.mark.parametrize("name", [BAD, "/a\0b"])
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "objectives", {"cgroup": "NAME", "hit_ratio": 0.5}),
        ("PUT", "objectives", {"tenant": [{"cgroup": "NAME"}]}),
        ("PUT", "objectives", {"tenant": [{"cgroup": "/a", "policies": ["NAME"]}]}),
        ("PUT", "objectives", {"NAME": 1}),
        ("POST", "pins", {"cgroup": "NAME", "policy": "lfu"}),
        ("POST", "pins", {"cgroup": "/t/kv", "policy": "NAME"}),
        ("POST", "pins", {"cgroup": "/t/kv", "node": "NAME", "policy": "lfu"}),
        ("POST", "what-if", {"node": "plant", "limit_bytes": {"NAME": 4096}}),
        ("POST", "what-if", {"node": "NAME"}),
    ],
)
def test_invalid_names_are_refused_and_change_nothing(
    world: World, name: str, method: str, path: str, body: Any
) -> None:
    client = client_of(world)
    before = client.get("/api/v1/objectives").json()
    told = json.loads(json.dumps(body).replace('"NAME"', json.dumps(name)))
    answer = _sent(client, method, path, told)
    assert answer.status_code == 422, answer.text
    assert list(answer.json()) == ["error"] and "\n" not in answer.json()["error"]
    assert client.get("/api/v1/objectives").json() == before
    world.restart()
    assert client_of(world).get("/api/v1/objectives").json() == before


@pytest.mark.parametrize("path", ["history", "tenants/detail", "tenants/series"])
def test_a_query_names_a_cgroup_with_or_without_its_first_slash(world: World, path: str) -> None:
    client = client_of(world)
    answers = [
        client.get(f"/api/v1/{path}", params={"cgroup": one}).json()
        for one in ("/t/kv", "t/kv", "//t/kv/")
    ]
    assert answers[0] == answers[1] == answers[2] and "error" not in answers[0]
    assert client.get(f"/api/v1/{path}", params={"cgroup": "/t/\0"}).status_code == 422


def test_a_statement_and_a_pin_are_found_however_their_cgroup_is_written(world: World) -> None:
    client = client_of(world)
    for cgroup in ("t/kv", "/t/kv", "/t/kv/"):
        stated = _sent(client, "POST", "objectives", {"cgroup": cgroup, "hit_ratio": 0.5}).json()
        assert [one["cgroup"] for one in stated["tenant"]] == ["*", "/t/kv"]
    assert client.delete("/api/v1/objectives", params={"cgroup": "t//kv"}).status_code == 200
    assert _sent(client, "POST", "pins", {"cgroup": "t/kv", "policy": "lfu"}).status_code == 200
    assert [pin.cgroup for pin in world.store.pins()] == ["/t/kv"]
    assert client.delete("/api/v1/pins", params={"cgroup": "t/kv/"}).status_code == 204


def _stored(path: Path, statements: list[dict[str, Any]]) -> None:
    with sqlite3.connect(path) as db:
        text = json.dumps({"tenants": statements, "goal": "least_memory"})
        db.execute("INSERT OR REPLACE INTO meta VALUES ('objectives', ?)", (text,))


def test_a_stored_statement_that_cannot_be_read_is_kept_aside_and_the_others_hold(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, before = tmp_path / "c.db", quarantined("objective")
    Store(path).close()
    bad: list[dict[str, Any]] = [
        {"pattern": BAD, "hit_ratio": 0.5},
        {"pattern": "/x", "weight": "heavy"},
        {"pattern": "/x", "priority": "high"},
        {"pattern": "/x", "policies": [1]},
        {"pattern": "a", "hit_ratio": 0.1},
    ]
    good = [{"pattern": "b", "hit_ratio": 0.2}, {"pattern": "/a", "hit_ratio": 0.3}]
    _stored(path, [*bad, *good])
    with caplog.at_level(logging.ERROR):
        store = Store(path)
        found = store.objectives()
    assert found is not None and str(found.goal) == "least_memory"
    assert found.tenants == (Objective("/b", hit_ratio=0.2), Objective("/a", hit_ratio=0.3))
    assert [(kind, json.loads(entry)) for kind, entry, _ in store.kept_aside()] == [
        ("objective", one) for one in bad
    ]
    assert len(caplog.records) == len(bad) == quarantined("objective") - before
    assert all("\n" not in one.getMessage() for one in caplog.records)
    caplog.clear()
    # The message comes once: a quarantined row is no longer in its table.
    assert store.objectives() == found and not caplog.records
    store.set_objectives(found)
    store.close()
    again = Store(path)
    assert again.objectives() == found and len(again.kept_aside()) == len(bad)
    again.close()


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"goal": "none"}', b"\xff\xfe", b'{"tenants": 7}']
)
def test_objectives_that_cannot_be_read_at_all_leave_a_controller_that_works(
    tmp_path: Path, text: bytes
) -> None:
    path = tmp_path / "c.db"
    Store(path).close()
    with sqlite3.connect(path) as db:
        db.execute("INSERT INTO meta VALUES ('objectives', CAST(? AS TEXT))", (text,))
    store = Store(path)
    fleet = Fleet(ControllerConfig(store=path), store, lambda indicator: None)
    client = TestClient(create_app(ControlService(fleet)), "http://127.0.0.1")
    assert client.get("/api/v1/objectives").json() == {
        "goal": "proportional_fairness",
        "tenant": [],
    }
    assert _sent(client, "POST", "objectives", {"cgroup": "/a"}).status_code == 200
    assert [(kind, entry) for kind, entry, _ in store.kept_aside()] == [("objective", text)]
    store.close()


def test_a_stored_pin_or_node_that_cannot_be_read_is_kept_aside(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    store = Store(path)
    store.set_objectives(Objectives())
    store.set_pin(Pin("/a", policy="lfu"))
    store.reserve_epochs("n", 0)
    store.close()
    with sqlite3.connect(path) as db:
        for cgroup in (b"/\xed\xa0\x80/kv", b"/a\0b", b"a"):
            db.execute("INSERT INTO pins VALUES ('', CAST(? AS TEXT), 'lfu', NULL)", (cgroup,))
        db.execute("INSERT INTO pins VALUES ('', '/b', NULL, 7)")
        db.execute("INSERT INTO pins VALUES ('', '/c', NULL, 'much')")
        db.execute("UPDATE nodes SET hello = ?, guard = CAST(? AS TEXT)", (b"\xff", b"\xff{"))
        db.execute("INSERT INTO nodes (name) VALUES (CAST(? AS TEXT))", (b"\xed\xa0\x80",))
    for kept in (8, 10):
        store = Store(path)
        fleet = Fleet(ControllerConfig(store=path), store, lambda indicator: None)
        assert store.pins() == [Pin("/a", policy="lfu")]
        assert list(fleet.loops()) == ["n"]
        assert fleet.loops()["n"].hello.node == "n"
        found = [kind for kind, _, _ in store.kept_aside()]
        # A row that the next session writes again is copied, and stays where it is until then.
        assert len(found) == kept and found[:6] == ["pin"] * 5 + ["node"]
        store.close()
