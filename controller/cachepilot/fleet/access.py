# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens for HTTP and the role of each, read from files."""

import hashlib
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cachepilot.errors import InputError
from cachepilot.fleet.role import Role

TOKEN_LENGTH = (32, 512)
TOKENS_MAX = 1000
NAME_MAX = 64
_TOKEN_ALPHABET = frozenset(string.ascii_letters + string.digits + "-._~+/=")


@dataclass(frozen=True)
class Access:
    """Roles by SHA-256 of the token; without any tokens, everybody on this host is an operator.

    `names` has, by the same key, the name of the person or program that a token was given to, for
    tokens whose file states it.
    """

    roles: Mapping[bytes, Role] = field(default_factory=dict)
    names: Mapping[bytes, str] = field(default_factory=dict)

    @property
    def needs_token(self) -> bool:
        """Whether requests must carry a token."""
        return bool(self.roles)

    def role_of(self, token: str) -> Role | None:
        """Return the role of a token, or None if the token is unknown.

        The digest is looked up instead of the token, so that the time of the look-up reveals
        nothing about existing tokens.
        """
        return self.roles.get(_digest(token))

    def name_of(self, token: str) -> str:
        """Return the name of a known token: that of its file, else its role and a fingerprint."""
        digest = _digest(token)
        return self.names.get(digest) or f"{self.roles[digest]}-{digest[:4].hex()}"


@dataclass(frozen=True)
class TokenFiles:
    """Files with one token per line, optionally followed by a space and the name of its user.

    Blank lines and lines that begin with `#` are ignored.
    """

    viewer: Path | None = None
    operator: Path | None = None

    def read(self) -> Access:
        """Read both files; raise InputError naming the file, the line and what is allowed."""
        roles: dict[bytes, Role] = {}
        names: dict[bytes, str] = {}
        for role, path in ((Role.VIEWER, self.viewer), (Role.OPERATOR, self.operator)):
            for token, name in [] if path is None else read_named_tokens(path):
                digest = _digest(token)
                if digest in roles:
                    raise InputError(f"{path}: a token that is there twice, or has two roles")
                roles[digest] = role
                if name:
                    names[digest] = name
        return Access(roles, names)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def read_tokens(path: Path) -> list[str]:
    """Return the tokens of a file without their names; see `read_named_tokens`."""
    return [token for token, _ in read_named_tokens(path)]


def read_named_tokens(path: Path) -> list[tuple[str, str]]:
    """Return the tokens of a file with their names, "" for none; 1 to TOKENS_MAX tokens.

    Raises InputError naming the file, the line and what is allowed.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    found = []
    low, high = TOKEN_LENGTH
    for number, line in enumerate(lines, 1):
        token, _, name = line.strip().partition(" ")
        name = name.strip()
        if not token or token.startswith("#"):
            continue
        if not low <= len(token) <= high or not _TOKEN_ALPHABET.issuperset(token):
            allowed = f"{low} to {high} letters, digits or -._~+/=, like `openssl rand -hex 32`"
            raise InputError(f"{path}: line {number}: is not a token (allowed: {allowed})")
        if len(name) > NAME_MAX or not name.isprintable():
            allowed = f"at most {NAME_MAX} characters that can be printed"
            raise InputError(f"{path}: line {number}: the name of the token (allowed: {allowed})")
        found.append((token, name))
    if not 1 <= len(found) <= TOKENS_MAX:
        raise InputError(f"{path}: holds {len(found)} tokens (allowed: 1 to {TOKENS_MAX})")
    return found
