# SPDX-License-Identifier: Apache-2.0
"""Closes connections on which a request's headers do not arrive; `bounded_body` does its body."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADERS_S = 10.0
"""Seconds for the headers of a request, from the connection or from the first byte on."""


class TimedHeaders(H11Protocol):
    """HTTP/1.1 with a time-out of headers; between requests uvicorn's idle time-out applies."""

    headers_s = HEADERS_S
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the time-out: a request must follow the connection."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Start the time-out at a request's first bytes; stop it once the headers are complete."""
        super().data_received(data)
        if self._is_answering:
            self._stop_waiting()
        else:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the time-out."""
        self._stop_waiting()
        super().connection_lost(exc)

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        if self._waiting is None:
            self._waiting = self.loop.call_later(self.headers_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if not self._is_answering:
            self.transport.close()
