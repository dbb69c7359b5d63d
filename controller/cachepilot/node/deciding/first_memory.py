# SPDX-License-Identifier: Apache-2.0
"""The first memory of a tenant: what it had before the autopilot changed anything.

It is the limit that was found, or what a tenant without one held. A limit that somebody writes into
the cgroup takes its place: that is what the autopilot is measured against from then on. A pin does
not: it is in force until it is unpinned, and the tenant is then protected as before.
"""

from cachepilot.domain.objectives.objective import Objective, size_bytes
from cachepilot.domain.snapshot import Tenant
from cachepilot.node.deciding.tenant_state import Recent, Steered
from cachepilot.sense.collect import Seen

AT_REST_CYCLES = 16
"""Cycles after which nothing of a limit that was asked for is still under way on the node."""
SEEN_TIMES = 2
"""Snapshots in a row in which a limit that nobody asked for must be the same."""
EARLIER_MAX = 8
"""Limits at rest that are remembered of one tenant."""


def found_bytes(seen: Seen) -> int:
    """The first memory of a tenant that is seen for the first time, bytes.

    The agent may have been here before, under a controller whose store is lost: it remembers.
    """
    return seen.wire.initial_limit_bytes or seen.limit_bytes


def grown_bytes(seen: Seen, first_bytes: int) -> int:
    """The first memory, bytes, with what a tenant without a limit has read since it was found.

    While its page cache fills nobody took anything from it: what it held when it was first seen
    says only how long it had been there.
    """
    has_limit = seen.wire.limit_bytes or seen.wire.initial_limit_bytes
    return first_bytes if has_limit or not seen.is_filling else max(first_bytes, seen.limit_bytes)


def note_wish(recent: Recent, seen: Seen, limit_bytes: int) -> None:
    """A limit that is asked of the node: what lies on the way there is no operator's."""
    steered = recent.steered or Steered(seen.limit_bytes, seen.limit_bytes)
    steered.low_bytes = min(steered.low_bytes, limit_bytes)
    steered.high_bytes = max(steered.high_bytes, limit_bytes)
    steered.idle = 0
    recent.steered = steered


def set_by_operator(recent: Recent, seen: Seen) -> int | None:
    """A limit that somebody else set in the cgroup, bytes; None when nobody did.

    It is one outside of what was asked for lately, since the agent may stop on the way there, and
    one that the tenant did not have before, since the agent gives limits back by itself. The same
    limit set by an operator is not told apart, nor one that is set while nothing watches.
    """
    limit = seen.wire.limit_bytes
    target = seen.wire.target_limit_bytes or limit
    if limit == 0:
        recent.steered = None
        return None
    low, high = min(limit, target), max(limit, target)
    steered = recent.steered
    if steered is None:
        recent.steered = Steered(low, high)
        return None
    own = (seen.wire.initial_limit_bytes, seen.wire.floor_bytes, *steered.earlier_bytes)
    if limit in own or (steered.low_bytes <= low and high <= steered.high_bytes):
        steered.foreign = 0
        steered.idle += 1
        if steered.idle == AT_REST_CYCLES:
            steered.low_bytes, steered.high_bytes = low, high
            steered.earlier_bytes = [*steered.earlier_bytes, limit][-EARLIER_MAX:]
        return None
    steered.foreign = steered.foreign + 1 if limit == steered.foreign_bytes else 1
    steered.foreign_bytes = limit
    if steered.foreign < SEEN_TIMES:
        return None
    recent.steered = Steered(limit, limit)
    return limit


def allowed_bytes(objective: Objective, tenant: Tenant, budget_bytes: int) -> int:
    """The first memory of a tenant, as far as it may have that."""
    first, most = tenant.first_bytes, objective.memory_max
    return first if most is None else min(first, size_bytes(most, budget_bytes))
