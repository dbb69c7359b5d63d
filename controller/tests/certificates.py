# SPDX-License-Identifier: Apache-2.0
"""Real certificates, which openssl makes for one test."""

import secrets
import subprocess
from dataclasses import dataclass
from pathlib import Path

DAYS = "2"
CONFIG = """
[req]
distinguished_name = name
x509_extensions = authority
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign
subjectKeyIdentifier = hash
[leaf]
basicConstraints = CA:FALSE
subjectAltName = DNS:localhost, IP:127.0.0.1{others}
"""


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, as PEM files."""

    certificate: Path
    key: Path


def _openssl(*arguments: object) -> None:
    command = ["openssl", *map(str, arguments)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


class Authority:
    """A certificate authority for this host. It creates `folder` and keeps its files there."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir()
        self._folder = folder
        self.certificate, self._key = folder / "ca.pem", folder / "ca.key"
        self._config = folder / "openssl.cnf"
        self._config.write_text(CONFIG.format(others=""))
        self._make_key(name, self.certificate, self._key, "-x509", "-days", DAYS)

    def _make_key(self, name: str, out: Path, key: Path, *more: str) -> None:
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        named = ("-config", self._config, "-subj", f"/CN={name}")
        _openssl("req", *curve, *named, "-keyout", key, "-out", out, *more)

    def issue(self, name: str, *others: str) -> Issued:
        """Issue a certificate for `localhost` and 127.0.0.1.

        `others` are more names of its subject, as OpenSSL writes them: `DNS:node-2`,
        `URI:...`.
        """
        found = Issued(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        request = self._folder / f"{name}.csr"
        self._make_key(name, request, found.key)
        signed_by = ("-CA", self.certificate, "-CAkey", self._key)
        serial = ("-set_serial", str(secrets.randbits(64)), "-days", DAYS)
        config = self._folder / f"{name}.cnf"
        config.write_text(CONFIG.format(others="".join(f", {one}" for one in others)))
        extensions = ("-extfile", config, "-extensions", "leaf")
        out = ("-in", request, "-out", found.certificate)
        _openssl("x509", "-req", *signed_by, *serial, *extensions, *out)
        return found
