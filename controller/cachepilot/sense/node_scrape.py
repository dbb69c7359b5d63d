# SPDX-License-Identifier: Apache-2.0
"""Application counters of one node's tenants: never those of the controller's own host."""

import socket
from collections.abc import Callable
from dataclasses import replace

from cachepilot.domain.objectives.indicator_url import NODE, at_node, host_of, is_loopback
from cachepilot.domain.objectives.objective import Indicator
from cachepilot.errors import InputError

LOOPBACK = "127.0.0.1"


def is_own(address: str) -> bool:
    """Whether a network address is one of this host, tested by binding to it."""
    if is_loopback(address):
        return True
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as found:
            found.bind((address, 0))
    except OSError:
        return False
    return True


class NodeScrape:
    """Looks up counters for the tenants of one node.

    The placeholder `{node}` in a URL stands for the address from which the node's agent connects.
    """

    def __init__(self, scraped: Callable[[Indicator], float | None]) -> None:
        self._scraped = scraped
        self._address, self._is_here = LOOPBACK, True

    def move(self, address: str) -> None:
        """Follow the agent: a session began from the network address `address`."""
        self._address, self._is_here = address, is_own(address)

    def __call__(self, indicator: Indicator) -> float | None:
        """The last value, or None if unknown.

        Raises InputError for a URL of the controller's host if the node is another host.
        """
        if not self._is_here and is_loopback(host_of(indicator.url)):
            raise InputError(
                f"indicator: {indicator.url} is the controller's own host, and the node is at"
                f" {self._address} (allowed: {NODE} as the host, for the tenant's own node)"
            )
        return self._scraped(replace(indicator, url=at_node(indicator.url, self._address)))
