# SPDX-License-Identifier: Apache-2.0
"""The better of two packings, and how far it may be from the best there is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cachepilot.plan.consolidation.least.place import Place
from cachepilot.plan.consolidation.packing.best_fit import BestFit
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds
from cachepilot.plan.consolidation.packing.loads import Loads
from cachepilot.plan.consolidation.packing.options import Options
from cachepilot.plan.consolidation.packing.packing import Packing
from cachepilot.plan.consolidation.packing.rules import Rules

if TYPE_CHECKING:
    from cachepilot.plan.consolidation.packing.exact import Exact


@dataclass(frozen=True)
class Packed:
    """A packing of a fleet with what its tenants need.

    `most` is how many nodes can be drained at most, as far as is known; `is_exact` says whether the
    program was asked. `homeless` are nodes whose tenants fit on no others if they fail, whether or
    not any node is drained.
    """

    needs: FleetNeeds
    packing: Packing
    most: int
    is_exact: bool
    homeless: tuple[str, ...] = ()

    @property
    def gap(self) -> int:
        """How many nodes more might be drained, at most."""
        return self.most - len(self.packing.drained)


def loads_of(needs: FleetNeeds, options: Options) -> Loads:
    """What the nodes of a fleet carry now."""
    cpus = np.array([options.cpus_of(one.snapshot.node) for one in needs.places])
    return Loads.of(needs, cpus)


def rules_of(needs: FleetNeeds, options: Options) -> Rules:
    """Where the tenants of a fleet may go."""
    places = needs.places
    own = [needs.rows(node) for node in range(len(places))]
    rules = Rules.of(places, own, [options.labels_of(one.name) for one in places])
    names = [one.name for one in places]
    staying = [
        tenant
        for node, place in enumerate(places)
        for tenant, one in zip(own[node], place.targets.asked.tenants, strict=True)
        if not options.may_drain(place.name) or (place.name, one.cgroup) in options.staying
    ]
    return rules.within(
        closed=[node for node, name in enumerate(names) if name in options.closed],
        staying=staying,
    )


def pack(places: Sequence[Place], options: Options) -> Packed | None:
    """Which nodes can be drained; None of no nodes.

    The program's packing is taken only where it drains more, and is checked as the heuristic's is.
    """
    if not places:
        return None
    needs = FleetNeeds.of(places)
    rules = rules_of(needs, options)
    loads = loads_of(needs, options)
    best_fit = BestFit(needs, loads, rules, options.spare_nodes)
    found = best_fit.pack()
    homeless = tuple(needs.places[node].name for node in sorted(best_fit.homeless))
    most = max(most_by_memory(loads), len(found.drained))
    known = len(found.drained)
    exact = _solved(needs, loads, rules, known) if most > known else None
    if exact is None:
        return Packed(needs, found, most, False, homeless)
    most = min(most, max(exact.most, known))
    if len(exact.drained) > known:
        found = _checked(best_fit, exact) or found
    return Packed(needs, found, most, True, homeless)


def most_by_memory(loads: Loads) -> int:
    """A bound of how many nodes can be drained: the largest of the others have all that is needed.

    That is so at any time of the past, too. What a node needs beyond what it has is needed nowhere
    as long as it stays.
    """
    needs = loads.size_bytes.min(axis=1)[:, None] + loads.more_bytes
    needed = np.minimum(needs, loads.budget_bytes[:, None]).sum(axis=0).max()
    smallest_first = np.sort(loads.budget_bytes)
    left = smallest_first.sum() - np.cumsum(smallest_first)
    return int((left[:-1] >= needed).sum())


def _solved(needs: FleetNeeds, loads: Loads, rules: Rules, known: int) -> "Exact | None":
    """What the program finds; its solver takes half a second to import, which most never ask."""
    from cachepilot.plan.consolidation.packing.exact import solve  # noqa: PLC0415

    return solve(needs, loads, rules, known)


def _checked(best_fit: BestFit, exact: "Exact") -> Packing | None:
    """The program's packing, unless a node's tenants would not fit on the others if it failed."""
    packing = best_fit.packing(exact.drained, exact.to)
    return packing if best_fit.holds(packing) else None
