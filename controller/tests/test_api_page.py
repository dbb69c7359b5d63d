# SPDX-License-Identifier: Apache-2.0
"""The files of the page: how they are cached, and what they may load."""

from pathlib import Path

import pytest
from fake_service import FakeService
from fastapi import FastAPI
from starlette.testclient import TestClient

from cachepilot.api.app import create_app
from cachepilot.api.serving.page import add_page
from cachepilot.fleet.access import Access
from cachepilot.fleet.role import Role

HERE = "http://localhost"


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "assets" / "a-1.js").write_text("1")
    app = FastAPI()
    add_page(app, tmp_path)
    return TestClient(app, HERE)


def test_the_page_is_asked_for_again_and_what_it_loads_is_not(client: TestClient) -> None:
    page, script = client.get("/"), client.get("/assets/a-1.js")
    assert page.headers["cache-control"] == "no-cache"
    assert "immutable" in script.headers["cache-control"]
    for one, path in ((page, "/"), (script, "/assets/a-1.js")):
        assert one.status_code == 200
        again = client.get(path, headers={"If-None-Match": one.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
        policy = one.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "http" not in policy and "unsafe" not in policy


def test_nothing_beside_the_page_is_served(client: TestClient, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")
    for path in ("/assets/../secret", "/assets/%2e%2e/secret", "/secret", "/assets/none.js"):
        assert client.get(path).status_code == 404


def test_a_page_that_was_not_built_answers_503_with_the_fix(tmp_path: Path) -> None:
    app = FastAPI()
    add_page(app, tmp_path / "none")
    answer = TestClient(app, HERE).get("/")
    assert answer.status_code == 503 and "make build" in answer.json()["error"]


def test_the_page_asks_for_a_token_and_so_needs_none() -> None:
    app = create_app(FakeService(), access=Access({b"x" * 32: Role.VIEWER}))
    client = TestClient(app, "http://elsewhere")
    assert client.get("/").status_code != 401
    assert client.get("/assets/x.js").status_code == 404
    assert client.post("/").status_code == 401
    assert client.get("/api/v1/fleet").status_code == 401
    assert client.get("/assets").status_code == 401


def test_without_tokens_the_page_is_for_this_host() -> None:
    client = TestClient(create_app(FakeService()), "http://elsewhere")
    assert client.get("/").status_code == 403
