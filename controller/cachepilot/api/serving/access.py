# SPDX-License-Identifier: Apache-2.0
"""Access control by bearer tokens with roles; without tokens, only clients on this host."""

from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from cachepilot.domain.past.actor import Actor, ActorKind, acts
from cachepilot.fleet.access import Access
from cachepilot.fleet.role import LOOKING, Role
from cachepilot.hosts import is_this_host

OPEN_PATHS = frozenset({"/healthz", "/livez", "/"})
"""Served without a token: to probes, and to browsers for the page, which then asks for a token."""
OPEN_BELOW = "/assets/"
"""The path below which the page's files are."""
Refused = Callable[[Actor, str, str], None]
CERTIFICATE_KEY = "cachepilot.certificate"
"""Key in the ASGI scope for the name of the client's certificate, if it has one."""
ROLE_KEY = "cachepilot.role"
"""Key in the ASGI scope for the client's role."""


def _is_open(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith(OPEN_BELOW)


def _netloc_host(netloc: str) -> str:
    try:
        return urlsplit(f"//{netloc}").hostname or ""
    except ValueError:
        return ""


@dataclass(frozen=True)
class Refusal:
    """An error response in place of the requested one."""

    status: int
    error: str


def _of_this_host(headers: Headers) -> Role | Refusal:
    """Return the role of a client without a token: operator if it is on this host.

    A page of another site could send requests through a browser on this host. Such a request has
    that site as its `Origin` header, or as its `Host` header if the site's name was made to resolve
    to this machine. Both are refused.
    """
    host, origin = headers.get("host", ""), headers.get("origin")
    if not is_this_host(_netloc_host(host)):
        return Refusal(403, f"host {host!r}: only this machine without tokens (allowed: localhost)")
    if origin is not None and origin.partition("://")[2] != host:
        return Refusal(403, f"origin {origin!r}: another site's page (allowed: that of {host})")
    return Role.OPERATOR


def _of_token(access: Access, method: str, headers: Headers) -> Role | Refusal:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        return Refusal(401, "a token is needed (allowed: Authorization: Bearer TOKEN)")
    role = access.role_of(token.strip())
    if role is None:
        return Refusal(401, "the token is not known (allowed: one of the controller's [access])")
    if not role.may(method):
        return Refusal(403, f"a viewer may only look: {method} is for an operator's token")
    return role


def actor_of(scope: Scope, access: Access) -> Actor:
    """Return the client's identity: its known token, else its certificate, else its address."""
    scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
    certificate = scope.get(CERTIFICATE_KEY)
    if scheme.lower() == "bearer" and access.role_of(token.strip()) is not None:
        name = access.name_of(token.strip())
        more = f", certificate {certificate}" if certificate else ""
        return Actor(ActorKind.TOKEN, f"{name}{more}")
    if certificate:
        return Actor(ActorKind.CERTIFICATE, certificate)
    client = scope.get("client")
    return Actor(ActorKind.ADDRESS, client[0] if client else "this host")


class Guarded:
    """ASGI middleware that passes on the requests allowed by `access`, with the role in the scope.

    Every other request is answered with 401 or 403, without reading its body.
    """

    def __init__(self, app: ASGIApp, access: Access, refused: Refused) -> None:
        """Wrap `app`; `refused` gets actor, request and reason, and must return at once."""
        self._app, self._access, self._refused = app, access, refused

    def _judge(self, scope: Scope) -> Role | Refusal:
        method, headers = scope["method"], Headers(scope=scope)
        if not self._access.needs_token:
            return _of_this_host(headers)
        if method in LOOKING and _is_open(scope["path"]):
            return Role.VIEWER
        return _of_token(self._access, method, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request; lifespan events pass, and websockets are closed."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "no websockets here"})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        found, actor = self._judge(scope), actor_of(scope, self._access)
        if isinstance(found, Role):
            scope[ROLE_KEY] = found
            with acts(actor):
                await self._app(scope, receive, send)
        else:
            self._refused(actor, f"{scope['method']} {scope['path']}", found.error)
            challenge = {"WWW-Authenticate": "Bearer"} if found.status == 401 else None
            answer = JSONResponse({"error": found.error}, found.status, challenge)
            await answer(scope, receive, send)
