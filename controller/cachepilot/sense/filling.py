# SPDX-License-Identifier: Apache-2.0
"""Whether a page cache has yet to fill its limit.

Below its limit nothing is evicted, and misses are first accesses, which more memory does not avoid.
Curves are of a full page cache and say nothing of them. A page cache that was dropped and is being
read again looks like one that has nothing more to read. Without a limit, a page cache fills from
when it is seen to grow.
"""

from dataclasses import dataclass

from cachepilot.sizes import PAGE_BYTES
from cachepilot.v1 import session_pb2 as wire

FILLED_S = 60.0
"""A page cache below its limit that has not grown for so many seconds counts as filled."""
ROOM_SHARE = 0.05
"""Share of a limit that a full page cache may leave free, since reclaim exceeds the request."""
ROOM_BYTES = 64 * PAGE_BYTES
"""The least such room, for small limits: two batches of the kernel's reclaim."""


@dataclass
class Filling:
    """The limit of the last interval, and the memory used when growth was last seen.

    `seconds` is the time since the limit rose, or the page cache grew or was full. `since` is the
    number of intervals after the last one in which it was filling; None if it never was.
    """

    limit_bytes: int = 0
    most_bytes: int = 0
    seconds: float = 0.0
    since: int | None = None

    def take(self, told: wire.Tenant, elapsed_s: float) -> bool:
        """Take in an interval of `elapsed_s`, and return whether the page cache is filling.

        A limit that rose in the interval is to be filled again.
        """
        is_filling = self._is_filling(told, elapsed_s)
        if is_filling:
            self.since = 0
        elif self.since is not None:
            self.since += 1
        return is_filling

    def _is_filling(self, told: wire.Tenant, elapsed_s: float) -> bool:
        limit, now = told.limit_bytes, told.current_bytes
        room = max(ROOM_SHARE * (limit or now), ROOM_BYTES)
        rose, is_full = 0 < self.limit_bytes < limit, 0 < limit <= now + room
        grew = now >= self.most_bytes + room
        if limit == 0 and self.most_bytes == 0:
            self.most_bytes, self.seconds = now, FILLED_S
            return False
        self.seconds = 0.0 if rose or is_full or grew else self.seconds + elapsed_s
        self.limit_bytes = limit
        self.most_bytes = now if grew else self.most_bytes
        return rose or (not is_full and self.seconds < FILLED_S)
