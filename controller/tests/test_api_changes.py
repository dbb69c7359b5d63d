# SPDX-License-Identifier: Apache-2.0
"""The routes about past changes, over the real service and store."""

from pathlib import Path

from experiments.control_loop.world import World
from starlette.testclient import TestClient
from worlds import fooled, looping, until, world

from cachepilot.api.app import create_app


def client(here: World) -> TestClient:
    return TestClient(create_app(here.service), base_url="http://localhost")


def test_changes_are_listed_filtered_and_paged(tmp_path: Path) -> None:
    here = world(tmp_path, fooled("/lies"), looping())
    here.run(60)
    http = client(here)
    answer = http.get("/api/v1/changes")
    found = answer.json()
    assert answer.headers["X-Total-Count"] == str(len(found)) and len(found) >= 2
    (kept,) = http.get("/api/v1/changes?cgroup=/scan&state=confirmed&kind=policy").json()
    assert kept["in_force"] and kept["by"] == "autopilot" and kept["text"] == "default → mru"
    undone = http.get("/api/v1/changes?cgroup=/lies&kind=policy").json()
    assert {one["state"] for one in undone} == {"undone"}
    assert not any(one["in_force"] for one in undone)
    assert http.get(f"/api/v1/changes?until={kept['begun_s'] - 100}").json() == []
    first = http.get("/api/v1/changes?limit=1")
    assert first.headers["X-Total-Count"] == str(len(found)) and len(first.json()) == 1
    rest = http.get(f"/api/v1/changes?before={first.json()[0]['id']}").json()
    assert first.json() + rest == found


def test_a_live_change_is_in_force_and_shows_its_evidence(tmp_path: Path) -> None:
    here = world(tmp_path, looping())
    http = client(here)
    until(here, lambda: http.get("/api/v1/changes").json())
    here.run(2)
    (live,) = http.get("/api/v1/changes").json()
    assert (live["state"], live["ended_s"], live["in_force"]) == ("live", None, True)
    here.loop.end()
    told = http.get(f"/api/v1/changes/detail?id={live['id']}").json()
    assert told["change"]["id"] == live["id"]
    columns = {key: len(value) for key, value in told["evidence"].items() if key != "unit"}
    assert set(columns.values()) == {3}


def test_unknown_changes_parameters_and_states_are_refused(tmp_path: Path) -> None:
    http = client(world(tmp_path, looping()))
    assert http.get("/api/v1/changes/detail?id=7").status_code == 404
    refused = http.get("/api/v1/changes?who=me")
    assert refused.status_code == 422 and "unknown parameter 'who'" in refused.json()["error"]
    assert http.get("/api/v1/changes?state=lost").status_code == 422


def test_a_change_is_reverted_by_its_id_once(tmp_path: Path) -> None:
    here = world(tmp_path, looping())
    here.run(40)
    http = client(here)
    (kept,) = http.get("/api/v1/changes?state=confirmed").json()
    pinned = http.post("/api/v1/reverts", json={"change": kept["id"]})
    assert pinned.status_code == 200 and pinned.json()["policy"] == "default"
    here.run(5)
    assert here.plant.of("/scan").policy == "default"
    again = http.post("/api/v1/reverts", json={"change": kept["id"]})
    assert again.status_code == 422 and "not in force" in again.json()["error"]
    (pin,) = http.get("/api/v1/changes?kind=pin").json()
    refused = http.post("/api/v1/reverts", json={"change": pin["id"]})
    assert refused.status_code == 422 and "policy, memory" in refused.json()["error"]
    assert http.post("/api/v1/reverts", json={"change": 99}).status_code == 404
    for body in ({}, {"change": 1, "decision": 1}):
        answer = http.post("/api/v1/reverts", json=body)
        assert answer.status_code == 422 and "one of both" in answer.json()["error"]
