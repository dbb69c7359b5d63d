# SPDX-License-Identifier: Apache-2.0
"""Choose the better of two packings, and bound how far it is from the optimum."""

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
    """A packing of a fleet, and the needs that it is based on.

    `most` is an upper bound on how many nodes can be drained. `is_exact` says whether the integer
    program found a solution. `homeless` are nodes whose tenants would not fit on the others if the
    node failed, before any node is drained.
    """

    needs: FleetNeeds
    packing: Packing
    most: int
    is_exact: bool
    homeless: tuple[str, ...] = ()

    @property
    def gap(self) -> int:
        """The most nodes that another packing could drain beyond this one."""
        return self.most - len(self.packing.drained)


def loads_of(needs: FleetNeeds, options: Options) -> Loads:
    """The loads of the nodes of a fleet as they are now."""
    cpus = np.array([options.cpus_of(one.snapshot.node) for one in needs.places])
    return Loads.of(needs, cpus)


def rules_of(needs: FleetNeeds, options: Options) -> Rules:
    """The rules of where the tenants of a fleet may go."""
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
    """Return which nodes can be drained; None if there are no nodes.

    The packing of the program is used only if it drains more nodes than the heuristic. It passes
    the same checks as that of the heuristic.
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
    """An upper bound on how many nodes can be drained, by memory alone.

    The nodes that stay, the largest ones, must have what all tenants need together, now and at each
    past time. The needs of a node count up to its budget: what exceeds it is needed nowhere while
    the node stays.
    """
    needs = loads.size_bytes.min(axis=1)[:, None] + loads.more_bytes
    needed = np.minimum(needs, loads.budget_bytes[:, None]).sum(axis=0).max()
    smallest_first = np.sort(loads.budget_bytes)
    left = smallest_first.sum() - np.cumsum(smallest_first)
    return int((left[:-1] >= needed).sum())


def _solved(needs: FleetNeeds, loads: Loads, rules: Rules, known: int) -> "Exact | None":
    """Solve the integer program.

    Importing its solver takes half a second, and most callers never need it.
    """
    from cachepilot.plan.consolidation.packing.exact import solve  # noqa: PLC0415

    return solve(needs, loads, rules, known)


def _checked(best_fit: BestFit, exact: "Exact") -> Packing | None:
    """The program's packing; None if it leaves a node short, or if a loss of a node would."""
    packing = best_fit.packing(exact.drained, exact.to)
    return packing if best_fit.holds(packing) else None
