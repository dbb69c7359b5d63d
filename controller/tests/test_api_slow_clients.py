# SPDX-License-Identifier: Apache-2.0
"""Requests that do not arrive completely: only their connections are closed."""

import json
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from fake_service import FakeService
from served import served

from cachepilot.api.serving.timed_headers import TimedHeaders
from cachepilot.node.shown.changes import Topic

SHORT_S, DEADLINE_S = 0.5, 60.0
BODY = json.dumps({"cgroup": "/db", "policy": "lfu"}).encode()


class Hasty(TimedHeaders):
    headers_s = SHORT_S


@pytest.fixture(scope="module")
def service() -> FakeService:
    return FakeService()


@pytest.fixture(scope="module")
def url(service: FakeService) -> Iterator[str]:
    with served(service, body_s=SHORT_S, http=Hasty) as found:
        yield found


def _head(method: str, path: str, length: int, more: str = "") -> bytes:
    return (
        f"{method} /api/v1/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{more}"
        f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


def _until_closed(url: str, sent: bytes) -> bytes:
    """Send bytes, and return everything that the server answers until it closes the connection."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    with socket.create_connection((parts.hostname, parts.port or 0), DEADLINE_S) as client:
        client.sendall(sent)
        told = b""
        while more := client.recv(1 << 16):
            told += more
    return told


@pytest.mark.parametrize("sent", [0, 1, len(BODY) - 1])
@pytest.mark.parametrize("path", ["pins", "objectives", "what-if", "reverts"])
def test_a_body_that_does_not_arrive_is_refused_and_its_connection_closed(
    url: str, path: str, sent: int
) -> None:
    told = _until_closed(url, _head("POST", path, len(BODY)) + BODY[:sent])
    head, _, body = told.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ") and b"connection: close" in head.lower()
    assert json.loads(body) == {"error": "the body did not arrive within 0.5 s"}


def test_a_chunked_body_that_stops_is_refused(url: str) -> None:
    head = _head("POST", "pins", 0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    assert b" 408 " in _until_closed(url, head + b"5\r\n" + BODY[:5] + b"\r\n")


@pytest.mark.parametrize("sent", [b"", b"GET /api/v1/no", b"GET /healthz HTTP/1.1\r\nHost: "])
def test_headers_that_do_not_arrive_end_the_connection(url: str, sent: bytes) -> None:
    _until_closed(url, sent)


def test_a_second_request_has_no_more_time_than_the_first(url: str) -> None:
    told = _until_closed(url, _head("GET", "nodes", 0) + b"GET /api/v1/no")
    assert told.startswith(b"HTTP/1.1 200 ") and told.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("path", ["nodes", "events"])
def test_an_unexpected_body_holds_no_connection_open(url: str, path: str) -> None:
    assert _until_closed(url, _head("GET", path, 100)).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_listens_to_events_stays_connected(url: str, service: FakeService) -> None:
    with httpx.Client(base_url=url, timeout=DEADLINE_S) as client:
        with client.stream("GET", "/api/v1/events") as events:
            parts = urlsplit(url)
            assert parts.hostname is not None
            # Wait longer than either time-out: until two other connections ran into theirs.
            for _ in range(2):
                _until_closed(url, b"")
            service.changes.tell(Topic.NODE, "alpha")
            assert "event: change" in events.iter_lines()
        assert client.get("/api/v1/nodes").status_code == 200
