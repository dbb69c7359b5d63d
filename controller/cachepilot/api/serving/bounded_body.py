# SPDX-License-Identifier: Apache-2.0
"""Refuses requests whose body is larger than anything that can be asked."""

from contextlib import suppress

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_MAX_BYTES = 1 << 20


class _TooLargeError(Exception):
    """A body without a stated length went beyond the bound."""


def _stated_bytes(scope: Scope) -> int:
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0


class BoundedBody:
    """ASGI middleware: a body above BODY_MAX_BYTES is answered with 413, unread beyond that."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes on what is within the bound."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        received_bytes = _stated_bytes(scope)
        if received_bytes <= BODY_MAX_BYTES:
            received_bytes = await self._pass_on(scope, receive, send)
        if received_bytes > BODY_MAX_BYTES:
            error = f"the body is larger than {BODY_MAX_BYTES} bytes"
            await JSONResponse({"error": error}, 413)(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> int:
        """Bytes that were received. Beyond the bound the application's answer is dropped.

        It reads the whole body before it answers, so nothing of an answer was sent by then.
        """
        received_bytes = 0

        async def bounded() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > BODY_MAX_BYTES:
                raise _TooLargeError
            return message

        async def answer(message: Message) -> None:
            if received_bytes <= BODY_MAX_BYTES:
                await send(message)

        with suppress(_TooLargeError):
            await self._app(scope, bounded, answer)
        return received_bytes
