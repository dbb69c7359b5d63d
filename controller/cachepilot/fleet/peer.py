# SPDX-License-Identifier: Apache-2.0
"""Which nodes an agent's certificate is valid for: those that it names, and no others."""

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote, urlsplit

from cachepilot.errors import InputError
from cachepilot.sense.node_scrape import LOOPBACK

PLAIN = ("x509_common_name", "peer_dns")
"""gRPC's keys for the common name and the DNS names of a certificate; each is a node's name."""
URI = "peer_uri"
URI_PART = "/node/"
"""In the path of a URI, the part after the last occurrence of this is a node's name."""
SHOWN_MAX = 8


class StrangerError(InputError):
    """A session under the name of a node that the certificate does not name.

    `node` is the requested node, `names` the nodes that the certificate names (at most SHOWN_MAX).
    """

    def __init__(self, message: str, node: str, names: Sequence[str]) -> None:
        super().__init__(message)
        self.node, self.names = node, names


def address_of(peer: str) -> str:
    """Return the address in gRPC's name of a peer (`ipv4:10.0.0.3:4711`).

    A peer that is not connected by IP, such as one on a local socket, has the loopback address.
    """
    kind, _, rest = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return LOOPBACK
    return unquote(rest.rpartition(":")[0]).strip("[]").removeprefix("::ffff:")


def _of_uri(uri: str) -> str:
    """Return the node that a URI names, or ""."""
    try:
        path = urlsplit(uri).path
    except ValueError:
        return ""
    _, part, name = path.rpartition(URI_PART)
    return name if part and "/" not in name else ""


def named_nodes(auth_context: Mapping[str, Iterable[bytes]]) -> list[str]:
    """Return the nodes that a certificate names, from gRPC's authentication context of the peer."""

    def texts(key: str) -> list[str]:
        return [value.decode("utf-8", "replace") for value in auth_context.get(key, ())]

    found = [name for key in PLAIN for name in texts(key)]
    found += map(_of_uri, texts(URI))
    return list(dict.fromkeys(name for name in found if name))


def check_peer(node: str, auth_context: Mapping[str, Iterable[bytes]]) -> None:
    """Raise StrangerError if the certificate of the peer does not name the node."""
    names = named_nodes(auth_context)
    if node in names:
        return
    # The names come from whoever signed the certificate and may contain unprintable characters.
    shown = [name if name.isprintable() else ascii(name) for name in names[:SHOWN_MAX]]
    more = f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else ""
    told = f"names {', '.join(shown)}{more}" if shown else "names no node"
    raise StrangerError(
        f"node {node}: the certificate {told} (allowed: one whose common name or DNS name is"
        f" {node}, or with a URI that ends in {URI_PART}{node})",
        node,
        shown,
    )
