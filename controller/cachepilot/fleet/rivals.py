# SPDX-License-Identifier: Apache-2.0
"""Second agents under a node's name: they are refused and shown as a condition of the node."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from cachepilot.node.shown.changes import Changes, Topic

LOG = logging.getLogger(__name__)
FORGOTTEN_S = 60.0
"""How long a second agent is shown after its last attempt: six times the longest pause between two
attempts of an agent with default settings."""


@dataclass
class Rival:
    """A second agent; `since_s` is this host's time of its first attempt, in seconds since 1970.

    `tried_at` is the time of its last attempt by the monotonic clock.
    """

    address: str
    since_s: float
    tried_at: float

    @property
    def text(self) -> str:
        """The condition of the node, in words."""
        return (
            f"a second agent in this node's name, at {self.address}, is refused: give it another"
            " `node`, or stop one of the two"
        )


class Rivals:
    """The last second agent of each node; written on one thread, read from any."""

    def __init__(self, changes: Changes, clock: Callable[[], float] = time.monotonic) -> None:
        self._changes, self._clock = changes, clock
        self._known: dict[str, Rival] = {}

    def of(self, node: str) -> Rival | None:
        """Return the second agent of a node, or None."""
        return self._known.get(node)

    def refused(self, node: str, address: str, now_s: float) -> None:
        """Note that an agent was refused; log the first refusal, and one from another address."""
        known = self._known.get(node)
        if known is not None and known.address == address:
            known.tried_at = self._clock()
            return
        found = self._known[node] = Rival(address, now_s, self._clock())
        LOG.warning("node %s: %s", node, found.text)
        self._changes.tell(Topic.NODE, node)

    def end_old(self) -> None:
        """Forget agents whose last attempt is more than FORGOTTEN_S ago."""
        now = self._clock()
        for node, one in list(self._known.items()):
            if now - one.tried_at > FORGOTTEN_S:
                del self._known[node]
                LOG.info("node %s: the second agent, at %s, tries no more", node, one.address)
                self._changes.tell(Topic.NODE, node)
