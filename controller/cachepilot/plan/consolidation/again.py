# SPDX-License-Identifier: Apache-2.0
"""What is left of a rollout, planned again by what is measured now."""

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
    """The rest as it was ordered, as far as there is room for it, and the best plan of it.

    What a tenant has that met its SLO with it in a rehearsal is enough as long as its curve says so
    without its error bars, and it is given no less. What a rollout pinned does not
    count. `before` is what tenants needed in the past. A rest that spreads has one plan, in which
    tenants go where they were ordered to if there is room, and others to their `homes`. Pure;
    InputError for two snapshots of a node.
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
