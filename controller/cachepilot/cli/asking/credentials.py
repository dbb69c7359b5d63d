# SPDX-License-Identifier: Apache-2.0
"""The command line's credentials: a certificate authority, its own certificate, a token."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from cachepilot.errors import InputError


def variable(name: str) -> str:
    """Return the environment variable for a file of the credentials."""
    return f"CACHEPILOT_{name.upper()}"


@dataclass(frozen=True)
class Credentials:
    """The files, each optional; they are read when a connection is prepared."""

    ca: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    token_file: Path | None = None

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of connections; InputError names the option and the file."""
        _check_readable("--ca", self.ca)
        try:
            found = ssl.create_default_context(cafile=self.ca)
        except (OSError, ssl.SSLError):
            raise InputError(f"--ca {self.ca}: not a certificate (allowed: PEM)") from None
        if self.certificate is None or self.key is None:
            if self.certificate != self.key:
                raise InputError("--certificate and --key: one without the other (allowed: both)")
            return found
        _check_readable("--certificate", self.certificate)
        _check_readable("--key", self.key)
        try:
            # Without an explicit password OpenSSL would prompt for one on the terminal.
            found.load_cert_chain(self.certificate, self.key, password="")
        except (OSError, ssl.SSLError):
            raise InputError(
                f"--certificate {self.certificate}, --key {self.key}: not a certificate and its "
                "key (allowed: PEM, without a password)"
            ) from None
        return found

    def headers(self) -> dict[str, str]:
        """Return the headers of every request; InputError for a file that is not a valid token."""
        if self.token_file is None:
            return {}
        try:
            token = self.token_file.read_text("ascii").strip()
        except (OSError, UnicodeError) as error:
            raise InputError(f"--token-file {self.token_file}: cannot be read: {error}") from None
        if not token or any(not one.isprintable() or one == " " for one in token):
            raise InputError(f"--token-file {self.token_file}: not a token (allowed: one line)")
        return {"Authorization": f"Bearer {token}"}


def _check_readable(option: str, path: Path | None) -> None:
    try:
        if path is not None:
            path.read_bytes()
    except OSError as error:
        raise InputError(f"{option} {path}: cannot be read: {error.strerror}") from None
