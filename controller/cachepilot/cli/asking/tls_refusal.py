# SPDX-License-Identifier: Apache-2.0
"""Explains in words why a TLS connection failed."""

import ssl
from http.client import RemoteDisconnected

WANTS_CERTIFICATE = "wants a certificate that its client_ca signed: --certificate and --key"
_NO_TLS = "does not speak TLS: is it http://?"
_BY_REASON = {
    "CERTIFICATE_REQUIRED": WANTS_CERTIFICATE,
    "HANDSHAKE_FAILURE": WANTS_CERTIFICATE,
    "UNKNOWN_CA": WANTS_CERTIFICATE,
    "BAD_CERTIFICATE": WANTS_CERTIFICATE,
    "CERTIFICATE_EXPIRED": WANTS_CERTIFICATE,
    "WRONG_VERSION_NUMBER": _NO_TLS,
    "RECORD_LAYER_FAILURE": _NO_TLS,
}
CLOSED = (RemoteDisconnected, ConnectionError)
"""Errors of a connection that the server closed without a reason, as uvicorn does to refuse."""


def _cause(error: BaseException | None) -> ssl.SSLError | None:
    """Return the TLS error in the chain of causes of an HTTP client's error, or None."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__ or error.__context__
    return None


def tls_refusal(error: Exception) -> str | None:
    """Return what `error` means for TLS, as words that follow a controller's name.

    Returns None if the error is not about TLS.
    """
    cause = _cause(error)
    if cause is None:
        is_closed = isinstance(error.__cause__, CLOSED)
        return f"closed the connection: it {WANTS_CERTIFICATE}" if is_closed else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"shows a certificate that is not trusted (--ca): {cause.verify_message}"
    reason = cause.reason or str(cause)
    for ending, words in _BY_REASON.items():
        if reason.endswith(ending):
            return words
    return f"and this side do not agree on TLS: {reason}"
