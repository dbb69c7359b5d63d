# SPDX-License-Identifier: Apache-2.0
"""Requests to one HTTP server, by the standard library: a larger client takes longer to import.

Neither proxies nor redirects are followed. Each request has a connection of its own: the server
closes one that is kept and idle.
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
    """There was no connection; its cause says why."""


class LostError(Exception):
    """The connection ended, or spoke no HTTP; its cause says why."""


@dataclass(frozen=True)
class Answer:
    """What the server answered."""

    status: int
    body: bytes

    def json(self) -> Any:
        """Raises ValueError for what is no JSON."""
        return json.loads(self.body)


class Server:
    """A server by its URL. Raises ValueError for one that has no host, or a wrong port."""

    def __init__(
        self, url: str, headers: Mapping[str, str], context: ssl.SSLContext | None
    ) -> None:
        parts = urlsplit(url)
        if not parts.hostname:
            raise ValueError(url)
        self._host, self._port = parts.hostname, parts.port
        self._headers, self._context = headers, context

    def request(self, method: str, path: str, query: Mapping[str, Any], body: Any = None) -> Answer:
        """Asks once; raises UnreachedError, TimeoutError or LostError, as it may be."""
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
