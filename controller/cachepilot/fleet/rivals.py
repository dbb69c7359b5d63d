# SPDX-License-Identifier: Apache-2.0
"""Second agents in the name of a node: they are refused, and told as the node's condition."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from cachepilot.node.shown.changes import Changes, Topic

LOG = logging.getLogger(__name__)
FORGOTTEN_S = 60.0
"""So long after its last attempt a second agent is told: six of the longest pauses that agents
make between two attempts by default."""


@dataclass
class Rival:
    """A second agent; `since_s` is this host's time of its first attempt, seconds since 1970."""

    address: str
    since_s: float
    tried_at: float

    @property
    def text(self) -> str:
        """What is told of it."""
        return (
            f"a second agent in this node's name, at {self.address}, is refused: give it another"
            " `node`, or stop one of the two"
        )


class Rivals:
    """The last one of each node; used on one thread, looked at from any."""

    def __init__(self, changes: Changes, clock: Callable[[], float] = time.monotonic) -> None:
        self._changes, self._clock = changes, clock
        self._known: dict[str, Rival] = {}

    def of(self, node: str) -> Rival | None:
        """The second agent of a node; None without one."""
        return self._known.get(node)

    def refused(self, node: str, address: str, now_s: float) -> None:
        """One was refused; a log line for the first time and for another address."""
        known = self._known.get(node)
        if known is not None and known.address == address:
            known.tried_at = self._clock()
            return
        found = self._known[node] = Rival(address, now_s, self._clock())
        LOG.warning("node %s: %s", node, found.text)
        self._changes.tell(Topic.NODE, node)

    def end_old(self) -> None:
        """Forgets those that try no more."""
        now = self._clock()
        for node, one in list(self._known.items()):
            if now - one.tried_at > FORGOTTEN_S:
                del self._known[node]
                LOG.info("node %s: the second agent, at %s, tries no more", node, one.address)
                self._changes.tell(Topic.NODE, node)
