# SPDX-License-Identifier: Apache-2.0
"""Refuses requests whose body is too large or does not arrive in time."""

import asyncio
from contextlib import suppress

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_MAX_BYTES = 1 << 20
BODY_S = 10.0
"""Seconds for a body to arrive, from the end of the headers on."""


class _RefusedError(Exception):
    """A body exceeded a bound."""


def _stated_bytes(scope: Scope) -> int:
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0


class _Request:
    """One request: passes on its body within the bounds, and the answer if none was broken."""

    def __init__(self, receive: Receive, send: Send, body_s: float) -> None:
        self.refusal: JSONResponse | None = None
        self._receive, self._send = receive, send
        self._body_s = body_s
        self._ends_s = asyncio.get_running_loop().time() + body_s
        self._received_bytes = 0
        self._is_whole = self._is_answered = False

    def refuse_size(self) -> None:
        error = f"the body is larger than {BODY_MAX_BYTES} bytes"
        self.refusal = JSONResponse({"error": error}, 413)

    async def receive(self) -> Message:
        """Return the client's next message; after the body that is only a disconnect."""
        if self._is_whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._ends_s):
                message = await self._receive()
        except TimeoutError:
            return self._too_slow()
        self._is_whole = not message.get("more_body", False)
        self._received_bytes += len(message.get("body", b""))
        if self._received_bytes > BODY_MAX_BYTES:
            self.refuse_size()
            raise _RefusedError
        return message

    def _too_slow(self) -> Message:
        if self._is_answered:
            # An answer that began before the body was complete just ends.
            return {"type": "http.disconnect"}
        error = f"the body did not arrive within {self._body_s:g} s"
        self.refusal = JSONResponse({"error": error}, 408, {"Connection": "close"})
        raise _RefusedError

    async def send(self, message: Message) -> None:
        """Send the application's message, unless the body was refused."""
        if self.refusal is None:
            self._is_answered = True
            await self._send(message)


class BoundedBody:
    """ASGI middleware that answers a body above BODY_MAX_BYTES with 413 and reads no further.

    A body that does not arrive within `body_s` is answered with 408, and the connection is closed.
    """

    def __init__(self, app: ASGIApp, body_s: float = BODY_S) -> None:
        self._app, self._body_s = app, body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on requests within the bounds."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = _Request(receive, send, self._body_s)
        if _stated_bytes(scope) > BODY_MAX_BYTES:
            request.refuse_size()
        else:
            with suppress(_RefusedError):
                await self._app(scope, request.receive, request.send)
        if request.refusal is not None:
            await request.refusal(scope, receive, send)
