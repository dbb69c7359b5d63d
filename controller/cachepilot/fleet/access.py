# SPDX-License-Identifier: Apache-2.0
"""Bearer tokens and the role of each, read from files."""

import hashlib
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cachepilot.errors import InputError
from cachepilot.fleet.role import Role

TOKEN_LENGTH = (32, 512)
TOKENS_MAX = 1000
_TOKEN_ALPHABET = frozenset(string.ascii_letters + string.digits + "-._~+/=")


@dataclass(frozen=True)
class Access:
    """Roles by the SHA-256 of a token; without any, everybody on this host is an operator."""

    roles: Mapping[bytes, Role] = field(default_factory=dict)

    @property
    def needs_token(self) -> bool:
        """Whether requests must carry one."""
        return bool(self.roles)

    def role_of(self, token: str) -> Role | None:
        """None for a token that is not known.

        A digest is looked up, so that the time it takes says nothing of the tokens that there are.
        """
        return self.roles.get(_digest(token))


@dataclass(frozen=True)
class TokenFiles:
    """Files with a token per line; blank lines and those that begin with `#` do not count."""

    viewer: Path | None = None
    operator: Path | None = None

    def read(self) -> Access:
        """Raises InputError naming the file, the line and what is allowed."""
        roles: dict[bytes, Role] = {}
        for role, path in ((Role.VIEWER, self.viewer), (Role.OPERATOR, self.operator)):
            for digest in [] if path is None else _digests(path):
                if digest in roles:
                    raise InputError(f"{path}: a token that is there twice, or has two roles")
                roles[digest] = role
        return Access(roles)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def read_tokens(path: Path) -> list[str]:
    """The tokens of a file, 1 to TOKENS_MAX; InputError naming file, line and what is allowed."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
    found = []
    low, high = TOKEN_LENGTH
    for number, line in enumerate(lines, 1):
        token = line.strip()
        if not token or token.startswith("#"):
            continue
        if not low <= len(token) <= high or not _TOKEN_ALPHABET.issuperset(token):
            allowed = f"{low} to {high} letters, digits or -._~+/=, like `openssl rand -hex 32`"
            raise InputError(f"{path}: line {number}: is not a token (allowed: {allowed})")
        found.append(token)
    if not 1 <= len(found) <= TOKENS_MAX:
        raise InputError(f"{path}: holds {len(found)} tokens (allowed: 1 to {TOKENS_MAX})")
    return found


def _digests(path: Path) -> list[bytes]:
    return [_digest(token) for token in read_tokens(path)]
