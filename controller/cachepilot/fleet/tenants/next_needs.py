# SPDX-License-Identifier: Apache-2.0
"""The next needs of a fleet's tenants, predicted from their needs a day ago."""

from collections.abc import Iterable, Mapping
from math import ceil

from cachepilot.domain.past.need import SLOT_S, SLOTS, slot_of
from cachepilot.domain.units import DAY_S
from cachepilot.fleet.tenants.past_needs import past_needs
from cachepilot.node.loop import NodeLoop
from cachepilot.plan.consolidation.least.past import PastByTenant


def next_needs(
    loops: Mapping[str, NodeLoop], tenants: Mapping[str, Iterable[str]], now_s: float, hours: float
) -> PastByTenant:
    """Return, by node and cgroup, the needs of `tenants` a day ago, for the `hours` that followed.

    The slots (quarters of an hour) of the first and the last moment are included. Tenants without a
    known slot in that range are left out.
    """
    if hours <= 0:
        return {}
    first = slot_of(now_s) - SLOTS + 1
    next_slots = range(first, first + ceil(hours * 3600 / SLOT_S) + 1)
    known = past_needs(loops, tenants, now_s, DAY_S / 3600)
    found = {tenant: one.within(next_slots) for tenant, one in known.items()}
    return {tenant: one for tenant, one in found.items() if one.slots.size}
