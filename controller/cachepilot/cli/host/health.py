# SPDX-License-Identifier: Apache-2.0
"""Whether the controller of a configuration answers, asked as a probe on its own host does."""

import ssl
from pathlib import Path

import httpx

from cachepilot.cli.asking.credentials import Credentials
from cachepilot.errors import InputError
from cachepilot.fleet.config import ControllerConfig, Tls, split_address
from cachepilot.fleet.default_config import configured

ANSWER_SECONDS = 8.0
LOOPBACK_OF = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where who listens at every address is reached from its own host."""


def _url(config: ControllerConfig, path: str) -> str:
    """Where it answers, as seen from its own host."""
    host, port = split_address(config.http)
    host = LOOPBACK_OF.get(host, host)
    shown = f"[{host}]" if ":" in host else host
    scheme = "http" if config.tls is None else "https"
    return f"{scheme}://{shown}:{port}{path}"


def _context(tls: Tls) -> ssl.SSLContext:
    """Shows the controller's own certificate and does not look at the one that is shown.

    It need not name this host's loopback, and nothing secret is sent. That it is good as a client's
    is what the answer proves: one that ran out is not, and a restart reads the files again.
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
    """What /healthz answers, or /livez; InputError when nothing does, in time and with 200."""
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
