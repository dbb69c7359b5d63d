# SPDX-License-Identifier: Apache-2.0
"""Counters of applications of one node: its own, never those of the controller's host."""

import socket
from collections.abc import Callable
from dataclasses import replace

from cachepilot.domain.objectives.indicator_url import NODE, at_node, host_of, is_loopback
from cachepilot.domain.objectives.objective import Indicator
from cachepilot.errors import InputError

LOOPBACK = "127.0.0.1"


def is_own(address: str) -> bool:
    """Whether an address of the network is one of this host: who has it can listen at it."""
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
    """Looks a counter up for the tenants of one node; None while it is not known.

    `address` is where its agent connects from: what `{node}` stands for in a URL.
    """

    def __init__(self, scraped: Callable[[Indicator], float | None]) -> None:
        self._scraped = scraped
        self._address, self._is_here = LOOPBACK, True

    def move(self, address: str) -> None:
        """A session began, from an address of the network."""
        self._address, self._is_here = address, is_own(address)

    def __call__(self, indicator: Indicator) -> float | None:
        """The last value; InputError for a URL that is the controller's host and not the node."""
        if not self._is_here and is_loopback(host_of(indicator.url)):
            raise InputError(
                f"indicator: {indicator.url} is the controller's own host, and the node is at"
                f" {self._address} (allowed: {NODE} as the host, for the tenant's own node)"
            )
        return self._scraped(replace(indicator, url=at_node(indicator.url, self._address)))
