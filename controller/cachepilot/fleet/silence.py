# SPDX-License-Identifier: Apache-2.0
"""Detects changes that no message announces: nodes become stale, second agents stop trying."""

import asyncio
import logging

from cachepilot.fleet.fleet import Fleet
from cachepilot.node.shown.changes import Topic

LOG = logging.getLogger(__name__)


class SilenceWatch:
    """Checks every node once per control interval; logs one line per change."""

    def __init__(self, fleet: Fleet, every_s: float) -> None:
        self._fleet, self._every_s = fleet, every_s
        self._stale: set[str] = set()

    def look(self) -> None:
        """Announce nodes that became stale or are heard again; forget idle second agents."""
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
        """Check once per interval until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(self._every_s)
