# SPDX-License-Identifier: Apache-2.0
"""Names from outside: what each may be, and its canonical form.

Every entry point uses these functions: objectives documents, pins, the HTTP interface, the command
line, agents and the store. An InputError says what is allowed; the caller adds the key.
"""

import re
from collections.abc import Callable
from functools import lru_cache

from cachepilot.errors import InputError

PATH_BYTES_MAX = 4096
"""PATH_MAX of the kernel."""
NODE_MAX = 253
"""The greatest length of a host name, RFC 1035."""
GLOB = "*?["
"""A path with one of these characters is a glob."""
WORKLOAD = "pod:"
"""The prefix of a pattern that names workloads of Kubernetes instead of cgroups."""
_SHOWN = 80
# The kernel accepts all other characters in a cgroup name; no encoding has lone surrogates.
_FORBIDDEN = re.compile("[\x00\n\ud800-\udfff]")
_SLASHES = re.compile("/{2,}")


def shown(value: str) -> str:
    """A name in quotes for a message, truncated if it is long; always encodable."""
    return repr(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}..."


def is_plain(value: str) -> bool:
    """Whether a text is not empty, and has no NUL, no newline and no lone surrogate."""
    return bool(value) and _FORBIDDEN.search(value) is None


def plain(value: str) -> str:
    """Return the text unchanged; raises InputError unless it `is_plain`."""
    if not is_plain(value):
        allowed = "Unicode text that is not empty, without NUL and newlines"
        raise InputError(f"{shown(value)} is not allowed (allowed: {allowed})")
    return value


def _normal(value: str) -> str:
    path = _SLASHES.sub("/", plain(value)).rstrip("/") or "/"
    if len(path.encode()) > PATH_BYTES_MAX:
        raise InputError(f"{shown(path)}: too long (allowed: {PATH_BYTES_MAX} bytes)")
    if any(part in (".", "..") for part in path.split("/")):
        raise InputError(f"{shown(path)}: . and .. are not names of cgroups (allowed: a path)")
    return path


@lru_cache(maxsize=4096)
def cgroup_path(value: str) -> str:
    """Return the path of a cgroup below the mount of the hierarchy, like `/tenants/kv`.

    The first slash may be missing. A last slash, and repeated ones between parts, are dropped.
    """
    path = _normal(value)
    return path if path.startswith("/") else f"/{path}"


@lru_cache(maxsize=4096)
def cgroup_pattern(value: str) -> str:
    """Return the pattern of an objective: a path as by `cgroup_path`, a glob, or workloads.

    A glob that begins with a wildcard gets no slash before it.
    """
    if value.startswith(WORKLOAD):
        return plain(value)
    path = _normal(value)
    return path if path[0] in GLOB else cgroup_path(path)


def of_key(key: str, read: Callable[[str], str]) -> Callable[[str], str]:
    """Wrap `read`, one of these functions, so that its errors name a key."""

    def read_of_key(value: str) -> str:
        try:
            return read(value)
        except InputError as error:
            raise InputError(f"{key}: {error}") from None

    return read_of_key


def node_name(value: str) -> str:
    """Return the name of a node: 1 to 253 printable characters; raises InputError otherwise."""
    if not 0 < len(value) <= NODE_MAX or not value.isprintable():
        allowed = f"1 to {NODE_MAX} printable characters"
        raise InputError(f"{shown(value)} is not allowed (allowed: {allowed})")
    return value
