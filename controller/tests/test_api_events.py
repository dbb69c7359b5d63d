# SPDX-License-Identifier: Apache-2.0
"""Server-sent events over a real connection, and what a slow client receives."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from fake_service import FakeService
from served import served

from cachepilot.api.serving import events as module
from cachepilot.api.serving.events import PENDING_MAX, Client, Events
from cachepilot.fleet.access import Access
from cachepilot.fleet.role import Role
from cachepilot.node.shown.changes import Changes, Topic

PATH = "/api/v1/events"


def _events(lines: Iterator[str]) -> Iterator[tuple[str, object]]:
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def test_a_change_arrives_at_once_and_the_stream_ends_with_the_server() -> None:
    service, server = FakeService(), ExitStack()
    url = server.enter_context(served(service))
    with server, httpx.stream("GET", url + PATH, timeout=10) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        found = _events(answer.iter_lines())
        assert next(found)[0] == "hello"
        started = time.monotonic()
        service.changes.tell(Topic.NODE, "alpha")
        assert next(found) == ("change", {"node": ["alpha"]})
        assert time.monotonic() - started < 1
        service.changes.tell(Topic.ASKED)
        assert next(found) == ("change", {"asked": [""]})
        heard: list[str] = []
        rest = threading.Thread(target=lambda: heard.extend(name for name, _ in found))
        rest.start()
        closing = time.monotonic()
        server.close()
        rest.join(10)
    assert time.monotonic() - closing < 5
    assert heard == ["end"]


def test_a_token_is_needed_where_there_are_tokens() -> None:
    with served(FakeService(), Access({b"x" * 32: Role.VIEWER})) as url:
        assert httpx.get(url + PATH).status_code == 401


async def test_changes_are_merged_until_the_client_reads_them() -> None:
    client = Client(pause_s=0.0)
    found = client.messages()
    assert "hello" in await anext(found)
    for _ in range(10_000):
        client.tell(Topic.NODE, "a")
        client.tell(Topic.DECISIONS, "a")
    assert await anext(found) == 'event: change\ndata: {"node":["a"],"decisions":["a"]}\n\n'


async def test_a_client_that_is_too_far_behind_must_reload() -> None:
    client = Client(pause_s=0.0)
    found = client.messages()
    await anext(found)
    for node in range(2 * PENDING_MAX):
        client.tell(Topic.NODE, str(node))
    assert await anext(found) == "event: reload\ndata: {}\n\n"
    client.tell(Topic.NODE, "a")
    assert '"a"' in await anext(found)


async def test_a_stream_on_which_nothing_happens_beats() -> None:
    client = Client(heartbeat_s=0.01)
    found = client.messages()
    await anext(found)
    assert await anext(found) == ": still here\n\n"
    client.end()
    assert "end" in await anext(found)
    with pytest.raises(StopAsyncIteration):
        await anext(found)


async def test_clients_are_bounded_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS_MAX", 1)
    changes = Changes()
    events = Events(changes)
    events.require_room()
    stream = events.stream()
    await anext(stream)
    with pytest.raises(module.TooManyClientsError):
        events.require_room()
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(events) == 0
    events.require_room()


def test_a_client_beyond_the_limit_gets_503_with_retry_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "CLIENTS_MAX", 1)
    with served(FakeService()) as url:
        with httpx.stream("GET", url + PATH, timeout=10) as first:
            lines = first.iter_lines()
            next(lines)
            answer = httpx.get(url + PATH, timeout=10)
        told = httpx.get(f"{url}/openapi.json").json()["paths"][PATH]["get"]["responses"]
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert list(answer.json()) == ["error"] and "1 listen already" in answer.json()["error"]
    content = told["503"]["content"]
    assert list(content) == ["application/json"]
    assert content["application/json"]["schema"]["$ref"].endswith("/ErrorShape")
    assert list(told["503"]["headers"]) == ["Retry-After"]


def test_a_client_that_disconnects_is_forgotten() -> None:
    service = FakeService()
    with served(service) as url:
        with httpx.stream("GET", url + PATH, timeout=10) as answer:
            lines = answer.iter_lines()
            next(lines)
            assert len(service.changes) == 1
        end = time.monotonic() + 10
        while len(service.changes) and time.monotonic() < end:
            service.changes.tell(Topic.ASKED)
            time.sleep(0.02)
        assert len(service.changes) == 0
