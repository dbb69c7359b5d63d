# SPDX-License-Identifier: Apache-2.0
"""The name of a TLS client by its certificate, and notes on clients that TLS refused."""

import ssl
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from cachepilot.api.serving.access import CERTIFICATE_KEY
from cachepilot.api.serving.timed_headers import TimedHeaders

NAME_MAX = 128
STRANGERS = ("PEER_DID_NOT_RETURN_A_CERTIFICATE", "CERTIFICATE_VERIFY_FAILED")
"""OpenSSL's reasons that mean a refused client; any other failure is not about access."""


def name_of(certificate: Any) -> str:
    """Return the common name of a certificate as `ssl` decodes it, else another name or ""."""
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for key, value in subject if key == "commonName"]
    names += [value for _, value in certificate.get("subjectAltName", ())]
    name = next((one for one in names if one), "")[:NAME_MAX]
    return name if name.isprintable() else ascii(name)


class NamedPeer(TimedHeaders):
    """HTTP whose ASGI scope contains the name of the client's certificate."""

    def connection_made(self, transport: Any) -> None:
        """Add the certificate's name to the scope; the TLS handshake is complete by now."""
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
    """Return a factory of TLS contexts that call `refused` with the reason for a refused client.

    The client's address is not available inside OpenSSL's handshake.
    """

    class Telling(ssl.SSLObject):
        """One connection."""

        def do_handshake(self) -> None:
            """Continue the handshake; report a refusal."""
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
