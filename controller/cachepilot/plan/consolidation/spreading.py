# SPDX-License-Identifier: Apache-2.0
"""Spreading: find nodes that will be short of memory, reads or CPUs, and move tenants off in time.

The prediction of what tenants need next is what they needed a day ago, from this time of the day
on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import MappingProxyType

from cachepilot.domain.consolidation import Drain, Spread
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.objectives.pins import Pin
from cachepilot.domain.snapshot import Snapshot
from cachepilot.plan.consolidation.consolidate import Floors, places_of
from cachepilot.plan.consolidation.least.past import NOW, PastByTenant
from cachepilot.plan.consolidation.least.place import Place
from cachepilot.plan.consolidation.moves import drains
from cachepilot.plan.consolidation.packing.options import Options
from cachepilot.plan.consolidation.packing.spread import Homes, Relieved, spread
from cachepilot.plan.problem.config import Config
from cachepilot.readable import clock
from cachepilot.sizes import human_bytes

FITS = "all nodes have room for their tenants"


def plan_spread(
    snapshots: Sequence[Snapshot],
    objectives: Objectives,
    config: Config,
    pins: Sequence[Pin] = (),
    options: Options | None = None,
    refuted: Floors = MappingProxyType({}),
    ahead: PastByTenant = MappingProxyType({}),
    homes: Homes = MappingProxyType({}),
) -> Spread:
    """Return which tenants are to leave which node, and where they go; a pure function.

    `ahead` is what tenants needed a day ago in the hours that come next. `homes` are the nodes from
    which they came. Raises InputError for two snapshots of one node.
    """
    options = options or Options()
    places = places_of(snapshots, objectives, config, pins, refuted, ahead)
    found = spread(places, options, homes, ahead)
    return Spread(
        drains=relieved_drains(found, config),
        notes=[
            *_horizon(places, options.lookahead_hours),
            *_staying(options),
            *([] if found is None or found.short else [FITS]),
        ],
        left=left(found),
    )


def relieved_drains(found: Relieved | None, config: Config) -> list[Drain]:
    """The nodes that tenants leave, each with the reason; nodes that are short first come first."""
    if found is None:
        return []
    told = {one.node: one for one in drains(found.packed, config, keeps=True)}
    names = {found.packed.needs.places[node].name: node for node in found.short}
    return [
        replace(told[name], why=_why(node, found)) for name, node in names.items() if name in told
    ]


def _why(node: int, found: Relieved) -> str:
    """Explain what a node is short of at the first time of a shortage, and when that is."""
    needs, short = found.packed.needs, found.short[node]
    what = "more reads/s than its device serves" if short.is_of_reads else "more CPUs than it has"
    if short.bytes:
        what = f"{human_bytes(short.bytes)} more than it has"
    who = f"the tenants of {needs.places[node].name}"
    if short.then == NOW:
        return f"{who} need {what}"
    return f"{who} needed {what} at {clock(needs.past.begin_s(short.then))} a day ago"


def _horizon(places: Sequence[Place], hours: float) -> Iterator[str]:
    """Yield which needs count beside the present ones."""
    if not hours:
        yield "only what tenants need now counts: lookahead_hours is 0"
    elif places and places[0].past.slots.size:
        yield f"what tenants needed a day ago in the {hours:.3g} h that come next counts"
    elif places:
        yield "only what tenants need now counts: what they needed a day ago is not known"


def _staying(options: Options) -> Iterator[str]:
    """Yield the tenants that the plan must leave in place because they cannot be moved."""
    for node, cgroup in sorted(options.staying):
        why = "the program that moves tenants does not have it there"
        yield f"{cgroup} on {node} cannot be moved: {why}"


def left(found: Relieved | None) -> dict[str, str]:
    """The nodes that stay short, with the reason."""
    if found is None:
        return {}
    names = [one.name for one in found.packed.needs.places]
    return {names[node]: _why(node, found) for node in found.short if node in found.left}
