# SPDX-License-Identifier: Apache-2.0
"""Checks whether the controller of a configuration answers; for probes on its own host."""

import ssl
from pathlib import Path

import httpx

from cachepilot.cli.asking.credentials import Credentials
from cachepilot.errors import InputError
from cachepilot.fleet.config import ControllerConfig, Tls, split_address
from cachepilot.fleet.default_config import configured

ANSWER_SECONDS = 8.0
LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The addresses that reach a server which listens at every address, from its own host."""


def _url(config: ControllerConfig, path: str) -> str:
    """Return the URL of the controller, as seen from its own host."""
    host, port = split_address(config.http)
    host = LOOPBACK_OF.get(host, host)
    shown = f"[{host}]" if ":" in host else host
    scheme = "http" if config.tls is None else "https"
    return f"{scheme}://{shown}:{port}{path}"


def _context(tls: Tls) -> ssl.SSLContext:
    """Return a context that shows the controller's own certificate and does not check the server's.

    The server's certificate need not name the loopback address, and nothing secret is sent. A
    successful answer proves that the certificate is valid for a client. An expired one makes the
    probe fail, and the restart of the controller that follows reads the files again.
    """
    found = Credentials(certificate=tls.certificate, key=tls.key).context()
    found.check_hostname = False
    found.verify_mode = ssl.CERT_NONE
    return found


def _reason(answer: httpx.Response) -> str:
    try:
        problem = answer.json()["problem"]
    except (ValueError, TypeError, KeyError):
        return ""
    return f": {problem}"


def check_health(config_path: Path | None, only_alive: bool = False) -> str:
    """Return the answer of /healthz, or of /livez.

    Raises InputError if there is no answer in time, or its status is not a success.
    """
    config = configured(config_path)
    url = _url(config, "/livez" if only_alive else "/healthz")
    verify = False if config.tls is None else _context(config.tls)
    try:
        answer = httpx.get(url, verify=verify, timeout=ANSWER_SECONDS, trust_env=False)
    except httpx.TransportError as error:
        why = str(error) or type(error).__name__
        raise InputError(f"{url}: no answer: {why}") from None
    if not answer.is_success:
        raise InputError(f"{url}: answers {answer.status_code}{_reason(answer)}")
    return answer.text
