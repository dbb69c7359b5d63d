# SPDX-License-Identifier: Apache-2.0
"""Who is at the other end of a TLS connection: by the name of its certificate, or refused."""

import ssl
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from cachepilot.api.serving.access import CERTIFICATE_KEY
from cachepilot.api.serving.timed_headers import TimedHeaders

NAME_MAX = 128
STRANGERS = ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "CERTIFICATE_VERIFY_FAILED")
"""Reasons for which OpenSSL refuses a client; whatever else fails is no matter of access."""


def name_of(certificate: Any) -> str:
    """The common name of a certificate as `ssl` tells it, else the first other name; or empty."""
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for key, value in subject if key == "commonName"]
    names += [value for _, value in certificate.get("subjectAltName", ())]
    name = next((one for one in names if one), "")[:NAME_MAX]
    return name if name.isprintable() else ascii(name)


class NamedPeer(TimedHeaders):
    """HTTP whose scope holds the name of the client's certificate."""

    def connection_made(self, transport: Any) -> None:
        """A connection is there, its handshake done."""
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.app = _named(self.app, name_of(certificate))


def _named(app: Any, name: str) -> ASGIApp:
    async def named(scope: Scope, receive: Receive, send: Send) -> None:
        scope[CERTIFICATE_KEY] = name
        await app(scope, receive, send)

    return named


def telling_context(
    refused: Callable[[str], None],
) -> Callable[[uvicorn.Config, Callable[[], ssl.SSLContext]], ssl.SSLContext]:
    """Makes contexts that tell why a client was refused; its address OpenSSL does not know."""

    class Telling(ssl.SSLObject):
        """One connection."""

        def do_handshake(self) -> None:
            """Goes on with the handshake."""
            try:
                super().do_handshake()
            except ssl.SSLError as error:
                if error.reason in STRANGERS:
                    told = getattr(error, "verify_message", "") or "it shows no certificate"
                    refused(told)
                raise

    def make(_: uvicorn.Config, default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        context = default()
        context.sslobject_class = Telling
        return context

    return make
