# SPDX-License-Identifier: Apache-2.0
"""Mutual TLS for agents and for HTTP: clients need a certificate of the client authority."""

import ssl
from typing import Any

import grpc

from cachepilot.errors import InputError
from cachepilot.fleet.config import Tls


def check_tls(tls: Tls) -> None:
    """Raise InputError naming the files that are no certificate, no key, or not a matching pair."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Without an explicit password OpenSSL would prompt for one on the terminal.
        context.load_cert_chain(tls.certificate, tls.key, password="")
    except (OSError, ssl.SSLError):
        raise InputError(
            f"[tls]: certificate: {tls.certificate}, key: {tls.key}: not a certificate and its "
            "key (allowed: PEM, the key without a password)"
        ) from None
    try:
        context.load_verify_locations(tls.client_ca)
    except (OSError, ssl.SSLError):
        raise InputError(
            f"[tls]: client_ca: {tls.client_ca}: not a certificate (allowed: PEM)"
        ) from None


def http_options(tls: Tls) -> dict[str, Any]:
    """Return the TLS options of uvicorn."""
    return {
        "ssl_certfile": str(tls.certificate),
        "ssl_keyfile": str(tls.key),
        "ssl_ca_certs": str(tls.client_ca),
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
    }


def agent_credentials(tls: Tls) -> grpc.ServerCredentials:
    """Return the server credentials for gRPC."""
    pair = (tls.key.read_bytes(), tls.certificate.read_bytes())
    return grpc.ssl_server_credentials(
        [pair], root_certificates=tls.client_ca.read_bytes(), require_client_auth=True
    )
