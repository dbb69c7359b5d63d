# SPDX-License-Identifier: Apache-2.0
"""Tokens and roles of the application, and what a browser on this host is refused."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fake_service import FakeService
from fastapi.testclient import TestClient
from served import served
from starlette.websockets import WebSocketDisconnect

from cachepilot.api.app import create_app
from cachepilot.api.serving.bounded_body import BODY_MAX_BYTES
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.errors import InputError
from cachepilot.fleet.access import TOKENS_MAX, TokenFiles

API = "/api/v1"
VIEWER, OPERATOR = "v" * 32, "o" * 32
STATED = {"cgroup": "/web", "weight": 2}
EVERY_CHANGE = [
    ("PUT", f"{API}/objectives"),
    ("POST", f"{API}/objectives"),
    ("DELETE", f"{API}/objectives?cgroup=/db"),
    ("POST", f"{API}/pins"),
    ("DELETE", f"{API}/pins?cgroup=/db"),
    ("POST", f"{API}/what-if"),
    ("POST", f"{API}/nowhere"),
    ("OPTIONS", f"{API}/pins"),
]
EVERY_LOOK = [f"{API}/{path}" for path in ("access", "nodes", "tenants", "objectives")]
EVERY_LOOK += ["/metrics", "/openapi.json"]


@pytest.fixture
def files(tmp_path: Path) -> TokenFiles:
    (tmp_path / "v").write_text(f"# who looks\n\n{VIEWER}\n{'w' * 40}\n")
    (tmp_path / "o").write_text(OPERATOR)
    return TokenFiles(tmp_path / "v", tmp_path / "o")


@pytest.fixture
def service() -> FakeService:
    return FakeService()


@pytest.fixture
def client(service: FakeService, files: TokenFiles) -> Iterator[TestClient]:
    # Not the loopback host: with tokens, any host name is accepted.
    with TestClient(create_app(service, access=files.read()), "https://pilot.example") as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_an_operator_may_look_and_change(client: TestClient, service: FakeService) -> None:
    for path in EVERY_LOOK:
        assert client.get(path, headers=bearer(OPERATOR)).status_code == 200
    assert client.get(f"{API}/access", headers=bearer(OPERATOR)).json() == {
        "role": "operator",
        "may_change": True,
    }
    answer = client.post(f"{API}/objectives", json=STATED, headers=bearer(OPERATOR))
    assert answer.status_code == 200 and service.stated.of("/web").weight == 2


def test_a_viewer_may_look_and_not_change(client: TestClient, service: FakeService) -> None:
    before: Objectives = service.stated
    for path in EVERY_LOOK:
        assert client.get(path, headers=bearer(VIEWER)).status_code == 200
    assert client.get(f"{API}/access", headers=bearer("w" * 40)).json()["may_change"] is False
    for method, path in EVERY_CHANGE:
        answer = client.request(method, path, json=STATED, headers=bearer(VIEWER))
        assert (answer.status_code, list(answer.json())) == (403, ["error"])
        assert answer.json()["error"] == (
            f"a viewer may only look: {method} is for an operator's token"
        )
    assert (service.stated, service.pins) == (before, [])


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (None, "a token is needed (allowed: Authorization: Bearer TOKEN)"),
        ("Bearer", "a token is needed"),
        ("Bearer  ", "a token is needed"),
        (f"Basic {OPERATOR}", "a token is needed"),
        (OPERATOR, "a token is needed"),
        (f"Bearer {OPERATOR}x", "the token is not known"),
        (f"Bearer {OPERATOR[:-1]}", "the token is not known"),
        (f"Bearer {OPERATOR} {OPERATOR}", "the token is not known"),
        ("Bearer \xe9" + "x" * 40, "the token is not known"),
        ("Bearer # who looks", "the token is not known"),
    ],
)
def test_without_a_known_token_nothing_is_shown_or_changed(
    client: TestClient, service: FakeService, header: str | None, part: str
) -> None:
    before = service.stated
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    for method, path in [*EVERY_CHANGE, *(("GET", path) for path in EVERY_LOOK)]:
        answer = client.request(method, path, headers=headers)
        assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
        assert list(answer.json()) == ["error"] and part in answer.json()["error"]
    assert (service.stated, service.pins) == (before, [])


def test_the_scheme_is_written_as_one_likes(client: TestClient) -> None:
    headers = {"Authorization": f"bearer  {VIEWER}"}
    assert client.get(f"{API}/nodes", headers=headers).status_code == 200


def test_probes_need_no_token(client: TestClient) -> None:
    assert client.get("/healthz").status_code == 200
    assert client.post("/healthz").status_code == 401
    assert client.get("/healthz/").status_code == 401


def test_there_are_no_websockets(client: TestClient) -> None:
    connecting = client.websocket_connect(f"{API}/nodes", headers=bearer(OPERATOR))
    with pytest.raises(WebSocketDisconnect), connecting:
        pass


def test_a_large_body_of_a_stranger_is_not_read(client: TestClient) -> None:
    assert client.put(f"{API}/objectives", content=b" " * (BODY_MAX_BYTES + 1)).status_code == 401


def test_without_tokens_this_host_may_do_everything() -> None:
    with served(FakeService()) as url:
        port = url.rpartition(":")[2]
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", "[::1]", "127.8.0.1"):
            answer = httpx.get(f"{url}{API}/access", headers={"Host": host})
            assert answer.json() == {"role": "operator", "may_change": True}
        own = {"Origin": url}
        assert httpx.post(f"{url}{API}/objectives", json=STATED, headers=own).status_code == 200


@pytest.mark.parametrize(
    ("headers", "part"),
    [
        ({"Origin": "https://elsewhere.example"}, "origin 'https://elsewhere.example'"),
        ({"Origin": "null"}, "origin 'null'"),
        ({"Origin": "http://127.0.0.1:1"}, "origin 'http://127.0.0.1:1'"),
        ({"Host": "elsewhere.example:7071"}, "host 'elsewhere.example:7071'"),
        ({"Host": "127.0.0.1.elsewhere.example"}, "host '127.0.0.1.elsewhere.example'"),
        ({"Host": "10.0.0.1"}, "host '10.0.0.1'"),
        ({"Host": "[::1"}, "host '[::1'"),
        ({"Host": "a@localhost@elsewhere"}, "host "),
    ],
)
def test_pages_of_other_sites_are_refused(headers: dict[str, str], part: str) -> None:
    """These are the requests of a browser here for other sites: a form, or a rebound name."""
    service = FakeService()
    before = service.stated
    with served(service) as url:
        for method in ("GET", "POST"):
            # There is no content type, as when a browser sends a blob, so no preflight request
            # precedes it.
            answer = httpx.request(
                method, f"{url}{API}/objectives", content=b'{"cgroup": "/db"}', headers=headers
            )
            assert answer.status_code == 403 and part in answer.json()["error"]
    assert service.stated == before


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "holds 0 tokens (allowed: 1 to 1000)"),
        ("# nothing\n\n", "holds 0 tokens"),
        ("x" * 31, "line 1: is not a token (allowed: 32 to 512 letters, digits or"),
        (f"{VIEWER}\n{'x' * 513}", "line 2: is not a token"),
        ("a token that is of several words", "line 1: is not a token"),
        ("\u00e9" * 40, "line 1: is not a token"),
        (f"{VIEWER}\n{VIEWER}\n", "a token that is there twice"),
        (OPERATOR, "has two roles"),
        ("".join(f"{n:032}\n" for n in range(TOKENS_MAX + 1)), "holds 1001 tokens"),
    ],
)
def test_files_that_are_refused_name_the_line(files: TokenFiles, text: str, part: str) -> None:
    assert files.viewer is not None
    files.viewer.write_text(text, "utf-8")
    with pytest.raises(InputError) as found:
        files.read()
    assert str(found.value).startswith(str(files.viewer.parent)) and part in str(found.value)
    assert VIEWER not in str(found.value)


def test_files_that_cannot_be_read_are_named(files: TokenFiles) -> None:
    assert files.operator is not None
    files.operator.write_bytes(b"\xff")
    with pytest.raises(InputError, match="o: cannot be read"):
        files.read()
    files.operator.unlink()
    with pytest.raises(InputError, match="o: cannot be read"):
        files.read()
