# SPDX-License-Identifier: Apache-2.0
"""Requests to one HTTP server with the standard library: a larger client imports more slowly.

Proxies are not used and redirects are not followed. Each request has its own connection, because
the server closes idle connections.
"""

import json
import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlencode, urlsplit

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 15.0


class UnreachedError(Exception):
    """No connection could be made; the exception's cause has the reason."""


class LostError(Exception):
    """The connection ended, or the answer was not HTTP; the exception's cause has the reason."""


@dataclass(frozen=True)
class Answer:
    """The server's answer."""

    status: int
    body: bytes

    def json(self) -> Any:
        """Return the body as JSON; raise ValueError if it is not JSON."""
        return json.loads(self.body)


class Server:
    """A server by its URL. Raises ValueError for a URL without a host or with an invalid port."""

    def __init__(
        self, url: str, headers: Mapping[str, str], context: ssl.SSLContext | None
    ) -> None:
        parts = urlsplit(url)
        if not parts.hostname:
            raise ValueError(url)
        self._host, self._port = parts.hostname, parts.port
        self._headers, self._context = headers, context

    def request(self, method: str, path: str, query: Mapping[str, Any], body: Any = None) -> Answer:
        """Send a request and return the answer; raise UnreachedError, TimeoutError or LostError."""
        asked = {name: _plain(value) for name, value in query.items() if value is not None}
        target = f"{path}?{urlencode(asked)}" if asked else path
        headers = dict(self._headers)
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        with closing(self._new()) as connection:
            self._connect(connection)
            try:
                connection.request(method, target, data, headers)
                answer = connection.getresponse()
                return Answer(answer.status, answer.read())
            except TimeoutError:
                raise
            except (OSError, HTTPException) as error:
                raise LostError(str(error) or type(error).__name__) from error

    def _connect(self, connection: HTTPConnection) -> None:
        try:
            connection.connect()
        except TimeoutError:
            raise
        except OSError as error:
            raise UnreachedError(str(error)) from error
        connection.sock.settimeout(ANSWER_SECONDS)

    def _new(self) -> HTTPConnection:
        if self._context is None:
            return HTTPConnection(self._host, self._port, timeout=CONNECT_SECONDS)
        return HTTPSConnection(
            self._host, self._port, timeout=CONNECT_SECONDS, context=self._context
        )


def _plain(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value
