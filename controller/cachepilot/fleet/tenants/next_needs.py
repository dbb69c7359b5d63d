# SPDX-License-Identifier: Apache-2.0
"""What the tenants of a fleet will need next, predicted by what they needed a day ago."""

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
    """By node and cgroup, what the `tenants` of nodes needed a day ago in so many hours from then.

    The quarter of an hour of this time a day ago is among them, as those in which the hours end.
    """
    if hours <= 0:
        return {}
    first = slot_of(now_s) - SLOTS + 1
    next_slots = range(first, first + ceil(hours * 3600 / SLOT_S) + 1)
    known = past_needs(loops, tenants, now_s, DAY_S / 3600)
    found = {tenant: one.within(next_slots) for tenant, one in known.items()}
    return {tenant: one for tenant, one in found.items() if one.slots.size}
