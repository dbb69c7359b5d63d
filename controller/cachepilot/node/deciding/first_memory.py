# SPDX-License-Identifier: Apache-2.0
"""The first memory of a tenant: the memory that it had before the autopilot changed anything.

It is the limit that was found, or the memory in use of a tenant without one. A limit that somebody
writes into the cgroup replaces it, because the autopilot is compared with that limit from then on.
A pin does not replace it: once the tenant is unpinned, it is protected as before.
"""

from cachepilot.domain.objectives.objective import Objective, size_bytes
from cachepilot.domain.snapshot import Tenant
from cachepilot.node.deciding.tenant_state import Recent, Steered
from cachepilot.sense.collect import Seen

AT_REST_CYCLES = 16
"""Cycles after which a requested limit is no longer on its way on the node."""
SEEN_TIMES = 2
"""Consecutive snapshots that must show the same limit before it counts as set by somebody else."""
EARLIER_MAX = 8
"""Limits at rest that are remembered per tenant."""


def found_bytes(seen: Seen) -> int:
    """The first memory of a tenant that is seen for the first time, bytes.

    The agent's initial limit comes first: the agent may have run under a controller whose store is
    lost, and have changed the limit since.
    """
    return seen.wire.initial_limit_bytes or seen.limit_bytes


def grown_bytes(seen: Seen, first_bytes: int) -> int:
    """The first memory, bytes, raised by what a tenant without a limit has read since it was found.

    While its page cache fills, nothing was taken from it. What it held when it was first seen
    depends on how long it had been running.
    """
    has_limit = seen.wire.limit_bytes or seen.wire.initial_limit_bytes
    return first_bytes if has_limit or not seen.is_filling else max(first_bytes, seen.limit_bytes)


def note_wish(recent: Recent, seen: Seen, limit_bytes: int) -> None:
    """Note a limit that is requested of the node. Limits on the way to it are not an operator's."""
    steered = recent.steered or Steered(seen.limit_bytes, seen.limit_bytes)
    steered.low_bytes = min(steered.low_bytes, limit_bytes)
    steered.high_bytes = max(steered.high_bytes, limit_bytes)
    steered.idle = 0
    recent.steered = steered


def set_by_operator(recent: Recent, seen: Seen) -> int | None:
    """Return a limit that somebody else set in the cgroup, bytes; None if nobody did.

    Such a limit lies outside the range of recent requests, because the agent may stop on the way to
    a requested one. It also differs from earlier limits of the tenant, because the agent restores
    those by itself. An operator who sets one of these is not noticed, and neither is a limit that
    is set while no controller runs.
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
    """The first memory of a tenant, at most its `memory_max`."""
    first, most = tenant.first_bytes, objective.memory_max
    return first if most is None else min(first, size_bytes(most, budget_bytes))
