# SPDX-License-Identifier: Apache-2.0
"""Whether a page cache has yet to read what its limit has room for.

Below its limit nothing is evicted. Misses are first accesses then, which more memory does not
spare, and curves, which are of a full cache, say nothing of them. What was filled, dropped and is
read anew is not told from a cache that has no more to read.
"""

from cachepilot.decide.memory_state import FILLED_S
from cachepilot.node.deciding.tenant_state import Filling
from cachepilot.sizes import PAGE_BYTES
from cachepilot.v1 import session_pb2 as wire

ROOM_SHARE = 0.05
"""Of a limit: reclaim takes more at once than it needs, so that a full cache has some room."""
ROOM_BYTES = 64 * PAGE_BYTES
"""The same of small limits: two batches of the kernel's reclaim."""


def is_filling(known: Filling, told: wire.Tenant, elapsed_s: float) -> bool:
    """Takes an interval of `elapsed_s` in; a limit that rose in it is another one to fill."""
    limit, now = told.limit_bytes, told.current_bytes
    room = max(ROOM_SHARE * limit, ROOM_BYTES)
    rose, is_full = 0 < known.limit_bytes < limit, now >= limit - room
    grew = now >= known.most_bytes + room
    known.seconds = 0.0 if rose or is_full or grew else known.seconds + elapsed_s
    known.limit_bytes = limit
    known.most_bytes = now if grew else known.most_bytes
    return rose or (not is_full and known.seconds < FILLED_S)
