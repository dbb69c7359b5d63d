# SPDX-License-Identifier: Apache-2.0
"""Refuses requests whose body is larger than anything that can be asked, or does not arrive."""

import asyncio
from contextlib import suppress

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_MAX_BYTES = 1 << 20
BODY_S = 10.0
"""How long a body may take, from the headers on."""


class _RefusedError(Exception):
    """A body that went beyond a bound."""


def _stated_bytes(scope: Scope) -> int:
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0


class _Request:
    """One request: passes its body on within the bounds, and the answer unless it broke one."""

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
        """What the client sends; after the body that is only that it went away."""
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
            # An answer that began without the body just ends.
            return {"type": "http.disconnect"}
        error = f"the body did not arrive within {self._body_s:g} s"
        self.refusal = JSONResponse({"error": error}, 408, {"Connection": "close"})
        raise _RefusedError

    async def send(self, message: Message) -> None:
        """The application's answer; that to a body that was refused is dropped."""
        if self.refusal is None:
            self._is_answered = True
            await self._send(message)


class BoundedBody:
    """ASGI middleware: a body above BODY_MAX_BYTES is answered with 413, unread beyond that.

    One that does not arrive within `body_s` is answered with 408, and the connection is closed.
    """

    def __init__(self, app: ASGIApp, body_s: float = BODY_S) -> None:
        self._app, self._body_s = app, body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on what is within the bounds."""
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
