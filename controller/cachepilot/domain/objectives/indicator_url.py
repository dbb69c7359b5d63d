# SPDX-License-Identifier: Apache-2.0
"""The URL of an application's metrics, in which `{node}` stands for the tenant's node."""

import ipaddress
import socket
from urllib.parse import urlsplit

from cachepilot.errors import InputError

NODE = "{node}"
"""Stands for the address of the node, as the controller sees its agent."""
ALLOWED = f"http://HOST:PORT/PATH or https://..., with {NODE} as HOST for the tenant's own node"


def host_of(url: str) -> str:
    """Return the host of a URL in lower case; raises InputError if it is not a URL with a host."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise InputError(f"{url!r}: {error} (allowed: {ALLOWED})") from None
    if parts.scheme not in ("http", "https") or not host:
        raise InputError(f"{url!r} is not allowed (allowed: {ALLOWED})")
    return host


def check_url(url: str) -> str:
    """Return the URL; raises InputError if it cannot be scraped.

    `{node}` is allowed only as the host.
    """
    host = host_of(url)
    if any(brace in url.replace(NODE, "", 1 if host == NODE else 0) for brace in "{}"):
        raise InputError(f"{url!r} is not allowed (allowed: {ALLOWED})")
    return url


def at_node(url: str, address: str) -> str:
    """Replace `{node}` in the URL by the address of the node."""
    return url.replace(NODE, f"[{address}]" if ":" in address else address, 1)


def is_loopback(host: str) -> bool:
    """Whether a host is the local one, without a look at DNS."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        # The system's resolver accepts short forms, too: 127.1 is an address.
        address = ipaddress.ip_address(socket.inet_aton(name))
    except OSError:
        try:
            found = ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            return False
        address = getattr(found, "ipv4_mapped", None) or found
    return address.is_loopback or address.is_unspecified
