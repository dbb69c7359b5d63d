# SPDX-License-Identifier: Apache-2.0
"""Who changed an objective or pin, and who was refused, in the history, the log and the API."""

import logging
import re
import sqlite3
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from certificates import Authority
from experiments.control_loop.world import World
from served import served
from starlette.testclient import TestClient
from worlds import looping, world

from cachepilot.api.app import create_app
from cachepilot.api.main import tls_options
from cachepilot.api.service import UnknownError
from cachepilot.api.shapes.questions import Pin
from cachepilot.domain.past.actor import CONTROLLER, Actor, ActorKind, acting, acts
from cachepilot.domain.past.change import ChangeFilter, ChangeKind, ChangeRow
from cachepilot.errors import InputError
from cachepilot.fleet.access import Access, TokenFiles
from cachepilot.fleet.audit import refusals as refusals_module
from cachepilot.fleet.audit.refusals import Refusals
from cachepilot.fleet.config import Tls
from cachepilot.fleet.peer import StrangerError, check_peer
from cachepilot.readable import moment
from cachepilot.store.store import Store

ALICE, VIEWER = "a" * 40, "v" * 40
MIB = 1 << 20


@pytest.fixture
def here(tmp_path: Path) -> World:
    found = world(tmp_path, looping())
    found.run(3)
    return found


@pytest.fixture
def access(tmp_path: Path) -> Access:
    (tmp_path / "operators").write_text(f"# people\n{ALICE} Alice Liddell\n")
    (tmp_path / "viewers").write_text(f"{VIEWER}\n")
    return TokenFiles(tmp_path / "viewers", tmp_path / "operators").read()


def client(here: World, access: Access | None = None, token: str = "") -> TestClient:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    app = create_app(here.service, access=access)
    return TestClient(app, base_url="http://localhost", headers=headers)


def rows(here: World, kind: ChangeKind) -> list[ChangeRow]:
    here.fleet.refusals.flush()
    return here.store.changes(ChangeFilter(kind=kind), 1000)[::-1]


def test_a_changed_objective_is_recorded_with_its_author_and_its_former_value(
    here: World, access: Access, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "cachepilot.audit")
    http = client(here, access, ALICE)
    stated = {"cgroup": "/scan", "throughput_ops": 4000}
    assert http.post("/api/v1/objectives", json=stated).status_code == 200
    http.post("/api/v1/objectives", json={**stated, "throughput_ops": 5000, "priority": 3})
    http.delete("/api/v1/objectives?cgroup=/scan")
    told = http.get("/api/v1/changes?kind=objective&by=alice").json()[::-1]
    assert [(one["by_kind"], one["by"]) for one in told] == [("token", "Alice Liddell")] * 3
    assert [one["cgroup"] for one in told] == ["/scan"] * 3
    assert told[0]["before"] is None and told[0]["after"] == stated
    assert told[1]["before"] == stated
    assert told[1]["text"] == "throughput_ops: 4000 → 5000, priority: nothing → 3"
    assert told[2]["after"] is None and told[2]["before"]["priority"] == 3
    assert {one["state"] for one in told} == {"done"}
    assert sum("by token Alice Liddell" in line for line in caplog.messages) == 3


def test_an_objective_stated_again_unchanged_is_no_change(here: World) -> None:
    http = client(here)
    document = http.get("/api/v1/objectives").json()
    assert http.put("/api/v1/objectives", json=document).status_code == 200
    assert rows(here, ChangeKind.OBJECTIVE) == []


def test_a_document_of_many_entries_is_bounded(here: World) -> None:
    entries = [{"cgroup": f"/t{i}", "weight": 2} for i in range(500)]
    client(here).put("/api/v1/objectives", json={"tenant": entries})
    found = rows(here, ChangeKind.OBJECTIVE)
    assert len(found) == 200 and found[-1].text == "and 302 more, which are not listed"


def test_a_pin_and_its_end_are_recorded(here: World) -> None:
    http = client(here)
    http.post("/api/v1/pins", json={"cgroup": "/scan", "limit_bytes": 64 * MIB})
    http.delete("/api/v1/pins?cgroup=/scan")
    pinned, removed = rows(here, ChangeKind.PIN)
    assert pinned.text == "limit_bytes: nothing → 64 MiB" and pinned.to_limit_bytes == 64 * MIB
    assert removed.text == "limit_bytes: 64 MiB → nothing" and removed.after is None
    assert {(one.by_kind, one.by) for one in (pinned, removed)} == {("address", "testclient")}
    written = [http.get(f"/api/v1/changes?cgroup={one}").json() for one in ("/scan", "scan/")]
    assert written[0] == written[1] and len(written[0]) >= 2
    assert http.get("/api/v1/tenants/series?cgroup=scan").status_code == 200
    assert http.get("/api/v1/changes?cgroup=/a/../b").status_code == 422


def test_the_change_by_a_pin_is_shown_in_units(here: World) -> None:
    http = client(here)
    end = {"until_s": here.store.now_s() + 600}
    for limit in (64 * MIB, 64 * MIB + 4096):
        http.post("/api/v1/pins", json={"cgroup": "/scan", "limit_bytes": limit, **end})
    first, second = rows(here, ChangeKind.PIN)
    until = rf"until: nothing → {re.escape(moment(end['until_s']))}"
    assert re.fullmatch(rf"limit_bytes: nothing → 64 MiB, {until}", first.text)
    assert second.text == "limit_bytes: 64.000 MiB → 64.004 MiB"


def test_a_refused_path_is_one_line_that_no_terminal_obeys(
    here: World, access: Access, caplog: pytest.LogCaptureFixture
) -> None:
    client(here, access).get("/api/v1/%0aINFO all is well%1b%5b2J")
    here.fleet.refusals.flush()
    (row,) = rows(here, ChangeKind.REFUSAL)
    assert row.text == "GET /api/v1/\\nINFO all is well\\x1b[2J"
    assert all("\n" not in line and "\x1b" not in line for line in caplog.messages)


def test_a_pin_that_ends_by_itself_is_the_controllers(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = here.store.now_s()
    pin = {"cgroup": "/scan", "policy": "mru", "until_s": now_s + 60}
    assert client(here).post("/api/v1/pins", json=pin).status_code == 200
    monkeypatch.setattr(here.store, "now_s", lambda: now_s + 61)
    with acts(Actor(ActorKind.TOKEN, "whoever looks")):
        assert here.fleet.asked().pins == ()
    last = rows(here, ChangeKind.PIN)[-1]
    assert (last.by_kind, last.why, last.after) == ("controller", "its time is over", None)


def test_the_end_of_an_expired_pin_is_not_attributed_to_a_person(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = here.store.now_s()
    here.service.pin(Pin(cgroup="/scan", policy="mru", until_s=now_s + 60))
    monkeypatch.setattr(here.store, "now_s", lambda: now_s + 61)
    with acts(Actor(ActorKind.TOKEN, "alice")), pytest.raises(UnknownError):
        here.service.unpin("/nobody")
    last = rows(here, ChangeKind.PIN)[-1]
    assert (last.by_kind, last.why) == ("controller", "its time is over")


def test_a_pin_that_ended_while_no_controller_ran_is_recorded(here: World) -> None:
    now_s = here.store.now_s()
    here.service.pin(Pin(cgroup="/scan", policy="mru", until_s=now_s + 60))
    here.store.close()
    here.store = Store(here.path, clock=lambda: now_s + 61)
    here.begin()
    assert here.fleet.asked().pins == () and here.store.pins() == []
    last = rows(here, ChangeKind.PIN)[-1]
    assert (last.by_kind, last.why, last.after) == ("controller", "its time is over", None)


def test_a_change_that_cannot_be_recorded_is_not_made(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = here.fleet.asked()

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(here.store, "save_changes", full)
    with pytest.raises(sqlite3.OperationalError):
        here.service.unpin("/scan")
        here.service.set_objectives(type(before.objectives)())
    monkeypatch.undo()
    with pytest.raises(sqlite3.OperationalError):
        monkeypatch.setattr(here.store, "save_changes", full)
        here.service.set_objectives(type(before.objectives)())
    assert here.fleet.asked() == before and here.store.objectives() == before.objectives


REFUSED: list[tuple[str, str, Callable[[TestClient], Any], int, str]] = [
    ("", "address testclient", lambda http: http.get("/api/v1/nodes"), 401, "a token is needed"),
    ("x" * 40, "address testclient", lambda http: http.get("/api/v1/nodes"), 401, "not known"),
    (VIEWER, "token viewer-", lambda http: http.delete("/api/v1/pins?cgroup=/a"), 403, "only look"),
]


@pytest.mark.parametrize(("token", "who", "ask", "status", "why"), REFUSED)
def test_repeated_refusals_are_one_row_with_a_count(
    here: World, access: Access, token: str, who: str, ask: Callable[[TestClient], Any],
    status: int, why: str, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    http = client(here, access, token)
    for _ in range(5):
        assert ask(http).status_code == status
    (row,) = rows(here, ChangeKind.REFUSAL)
    assert f"{row.by_kind} {row.by}".startswith(who) and why in row.why and row.count == 5
    assert (
        row.text.split()[0] in ("GET", "DELETE") and token[:8] not in row.by + row.why
    ) or not token
    assert sum("refused" in line for line in caplog.messages) == 1
    told = client(here, access, ALICE).get("/api/v1/changes?state=refused&kind=refusal").json()
    assert told[0]["count"] == 5


def test_a_request_from_another_site_is_refused_and_recorded(here: World) -> None:
    http = client(here)
    answer = http.post("/api/v1/pins", headers={"Origin": "http://evil.example"}, json={})
    assert answer.status_code == 403
    assert "evil.example" in rows(here, ChangeKind.REFUSAL)[0].why


def test_refusals_are_bounded_and_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals_module, "ROWS_MAX", 3)
    now, store = [1000.0], Store(tmp_path / "c.db")
    found = Refusals(store, lambda: now[0])
    for i in range(100):
        found.note(Actor(ActorKind.ADDRESS, f"10.0.0.{i}"), "GET /", "a token is needed")
    assert found.flush() and not found.flush()
    told = store.changes(ChangeFilter(), 100)
    assert [(one.by, one.count) for one in told] == [
        ("others", 97), ("10.0.0.2", 1), ("10.0.0.1", 1), ("10.0.0.0", 1),
    ]  # fmt: skip
    now[0] += refusals_module.MERGE_S
    found.note(Actor(ActorKind.ADDRESS, "10.0.0.1"), "GET /", "a token is needed")
    found.flush()
    assert store.count_changes(ChangeFilter()) == 5


def test_refusals_wait_for_a_store_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "c.db")
    found = Refusals(store)

    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(store, "save_changes", full)
    found.note(Actor(ActorKind.ADDRESS, "10.0.0.1"), "GET /", "why")
    assert not found.flush()
    monkeypatch.undo()
    assert found.flush() and store.count_changes(ChangeFilter()) == 1


def test_a_certificate_for_another_node_is_refused_with_its_names() -> None:
    with pytest.raises(StrangerError) as refused:
        check_peer("db-1", {"x509_common_name": [b"web-1"]})
    assert (refused.value.node, list(refused.value.names)) == ("db-1", ["web-1"])


def test_tls_clients_are_known_by_their_certificate_and_refused_without(
    here: World, tmp_path: Path
) -> None:
    ours, theirs = Authority(tmp_path / "ours", "ours"), Authority(tmp_path / "theirs", "theirs")
    own, mine, foreign = ours.issue("controller"), ours.issue("alice"), theirs.issue("mallory")
    tls = Tls(own.certificate, own.key, ours.certificate)
    token = {"Authorization": f"Bearer {ALICE}"}
    (tmp_path / "operators").write_text(f"{ALICE}\n")
    access = TokenFiles(operator=tmp_path / "operators").read()

    def context(certificate: Path | None, key: Path | None) -> ssl.SSLContext:
        found = ssl.create_default_context(cafile=str(ours.certificate))
        if certificate is not None:
            found.load_cert_chain(certificate, key)
        return found

    with served(here.service, access, **tls_options(tls, here.service.past)) as url:
        own_context = context(mine.certificate, mine.key)
        with httpx.Client(base_url=url, verify=own_context, headers=token) as http:
            pin = {"cgroup": "/scan", "policy": "mru"}
            assert http.post("/api/v1/pins", json=pin).status_code == 200
        for some in (context(None, None), context(foreign.certificate, foreign.key)):
            refused = httpx.Client(base_url=url, verify=some, headers=token)
            with refused as http, pytest.raises(httpx.TransportError):
                http.get("/api/v1/nodes")
    (pinned,) = rows(here, ChangeKind.PIN)
    assert pinned.by_kind == "token"
    assert pinned.by.startswith("operator-") and pinned.by.endswith(", certificate alice")
    told = {row.why for row in rows(here, ChangeKind.REFUSAL) if row.by_kind == "certificate"}
    assert "it shows no certificate" in told and len(told) == 2


def test_without_a_request_the_controller_acts() -> None:
    assert acting() is CONTROLLER
    with acts(Actor(ActorKind.TOKEN, "bob")):
        assert str(acting()) == "token bob"
    assert acting() is CONTROLLER


def test_a_name_of_a_token_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(f"{ALICE} {'n' * 65}\n")
    with pytest.raises(InputError, match="name of the token"):
        TokenFiles(operator=tmp_path / "t").read()
