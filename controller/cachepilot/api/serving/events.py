# SPDX-License-Identifier: Apache-2.0
"""Server-sent events that announce changes, so that a page knows what to request again.

Events that a client has not received yet are merged, not queued: any number of changes of one topic
and node wait as one. A client for which more than PENDING_MAX changes wait is asked to reload
everything.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from cachepilot.errors import InputError
from cachepilot.node.shown.changes import Changes, Topic

CLIENTS_MAX = 256
PENDING_MAX = 256
"""Most changes that wait for one client; there is at most one per topic and node."""
HEARTBEAT_S = 15.0
RETRY_AFTER_S = 30
"""Seconds after which a client that found no room should ask again."""
PAUSE_S = 0.1
"""Least seconds between two messages to one client."""


def _message(event: str, data: object) -> str:
    return f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"


class Client:
    """A listening client and the changes that wait for it; used on one event loop."""

    def __init__(self, heartbeat_s: float = HEARTBEAT_S, pause_s: float = PAUSE_S) -> None:
        self._loop = asyncio.get_running_loop()
        self._heartbeat_s, self._pause_s = heartbeat_s, pause_s
        self._pending: dict[tuple[Topic, str], None] = {}
        self._is_behind = False
        self._is_ended = False
        self._wake = asyncio.Event()

    def tell(self, topic: Topic, node: str) -> None:
        """Note a change; thread-safe; does nothing after the loop has closed."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._note, topic, node)

    def end(self) -> None:
        """End the stream; thread-safe."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end)

    def _note(self, topic: Topic, node: str) -> None:
        self._pending[topic, node] = None
        if len(self._pending) > PENDING_MAX:
            self._pending.clear()
            self._is_behind = True
        self._wake.set()

    def _end(self) -> None:
        self._is_ended = True
        self._wake.set()

    def _take(self) -> str:
        pending, self._pending = self._pending, {}
        behind, self._is_behind = self._is_behind, False
        self._wake.clear()
        if behind:
            return _message("reload", {})
        found: dict[str, list[str]] = {}
        for topic, node in pending:
            found.setdefault(topic, []).append(node)
        return _message("change", found)

    async def messages(self) -> AsyncIterator[str]:
        """Yield the text of the stream until the client disconnects or the controller stops."""
        yield _message("hello", {})
        while not self._is_ended:
            try:
                await asyncio.wait_for(self._wake.wait(), self._heartbeat_s)
            except TimeoutError:
                yield ": still here\n\n"
                continue
            if not self._is_ended:
                yield self._take()
                await asyncio.sleep(self._pause_s)
        yield _message("end", {})


class TooManyClientsError(InputError):
    """Too many clients listen already; the same request may succeed later."""


class EventStream(StreamingResponse):
    """The response; closes its generator at the end, even if the client disconnects early."""

    def __init__(self, messages: AsyncGenerator[str, None]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(messages, headers=headers, media_type="text/event-stream")
        self._messages = messages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream until either side ends."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._messages.aclose()


class Events:
    """All clients that listen to one controller."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._clients: dict[Client, Callable[[], None]] = {}
        self._is_closed = False

    def __len__(self) -> int:
        """Return the number of listening clients."""
        return len(self._clients)

    def require_room(self) -> None:
        """Raise TooManyClientsError if there is no room for one more client."""
        if len(self._clients) >= CLIENTS_MAX:
            raise TooManyClientsError(f"events: {CLIENTS_MAX} listen already (allowed: no more)")

    async def stream(self) -> AsyncGenerator[str, None]:
        """Yield the messages for a new client, which is removed afterwards, however it ends."""
        client = Client()
        self._clients[client] = self._changes.listen(client.tell)
        if self._is_closed:
            client.end()
        try:
            async for text in client.messages():
                yield text
        finally:
            self._clients.pop(client, lambda: None)()

    def close(self) -> None:
        """End all streams, so that a server can stop; thread-safe."""
        self._is_closed = True
        for client in list(self._clients):
            client.end()
