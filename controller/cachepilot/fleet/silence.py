# SPDX-License-Identifier: Apache-2.0
"""Tells of what changes by silence: a node becomes stale, or a second agent of it tries no more."""

import asyncio
import logging

from cachepilot.fleet.fleet import Fleet
from cachepilot.node.shown.changes import Topic

LOG = logging.getLogger(__name__)


class SilenceWatch:
    """Looks at every node once per control interval; one log line per change."""

    def __init__(self, fleet: Fleet, every_s: float) -> None:
        self._fleet, self._every_s = fleet, every_s
        self._stale: set[str] = set()

    def look(self) -> None:
        """Tells whoever looks of nodes that became stale, or are no more."""
        loops = self._fleet.loops()
        now = {name: one.freshness.why for name, one in loops.items() if one.freshness.was_heard}
        for name, why in now.items():
            if bool(why) is (name in self._stale):
                continue
            if why:
                self._stale.add(name)
                LOG.warning("node %s: %s", name, why)
            else:
                self._stale.discard(name)
                LOG.info("node %s: heard again", name)
            self._fleet.changes.tell(Topic.NODE, name)
        self._stale &= now.keys()
        self._fleet.rivals.end_old()

    async def run(self) -> None:
        """Looks until it is cancelled."""
        while True:
            self.look()
            await asyncio.sleep(self._every_s)
