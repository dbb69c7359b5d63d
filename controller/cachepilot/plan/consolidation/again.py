# SPDX-License-Identifier: Apache-2.0
"""Plan the rest of a rollout again, from present measurements."""

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from cachepilot.domain.consolidation import Drain, Plans, Rest
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.objectives.pins import Pin
from cachepilot.domain.snapshot import Snapshot
from cachepilot.plan.consolidation.consolidate import Floors, places_of
from cachepilot.plan.consolidation.least.past import PastByTenant
from cachepilot.plan.consolidation.moves import drains
from cachepilot.plan.consolidation.packing.options import Options
from cachepilot.plan.consolidation.packing.pack import Packed, pack
from cachepilot.plan.consolidation.packing.pack_as import pack_as
from cachepilot.plan.consolidation.packing.spread import Homes, spread
from cachepilot.plan.consolidation.spreading import left, relieved_drains
from cachepilot.plan.problem.config import Config


def plan_again(
    rest: Rest,
    snapshots: Sequence[Snapshot],
    objectives: Objectives,
    config: Config,
    pins: Sequence[Pin],
    options: Options,
    refuted: Floors,
    before: PastByTenant = MappingProxyType({}),
    homes: Homes = MappingProxyType({}),
) -> Plans:
    """Return what is left of a rollout as ordered, where it fits, and the best plan for it.

    In a rehearsal tenants get the memory of the plan before they move. A limit with which a tenant
    met its SLO in a rehearsal counts as enough if its curve predicts so without error bars, and the
    tenant gets no less. Limits that a rollout pinned do not count as pinned. `before` is what
    tenants needed in the past.

    A rest that spreads has only one plan. In it, tenants go where they were ordered to go if there
    is room, and other tenants to their `homes`. A pure function; raises InputError for two
    snapshots of one node.
    """
    stated = [one for one in pins if one.rollout is None]
    floors = dict(refuted)
    for tenant, size in rest.proven.items():
        floors[tenant] = max(size, floors.get(tenant, 0))
    places = places_of(snapshots, objectives, config, stated, floors, before, rest.proven)
    within = replace(options, drainable=rest.drainable, closed=options.closed | rest.closed)

    if rest.spreads:
        ordered = {move.cgroup: move.to_node for one in rest.drains for move in one.moves}
        found = spread(places, within, {**homes, **ordered}, before)
        anew = relieved_drains(found, config)
        return Plans(anew, anew, frozenset(left(found)))

    def told(packed: Packed | None) -> list[Drain]:
        return drains(packed, config) if packed is not None else []

    return Plans(told(pack_as(places, within, rest.drains)), told(pack(places, within)))
