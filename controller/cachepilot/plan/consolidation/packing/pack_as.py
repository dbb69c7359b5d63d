# SPDX-License-Identifier: Apache-2.0
"""Check whether there is still room for a packing that was ordered before."""

from collections.abc import Mapping, Sequence

import numpy as np

from cachepilot.domain.consolidation import Drain
from cachepilot.plan.consolidation.least.place import Place
from cachepilot.plan.consolidation.packing.best_fit import BestFit
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds
from cachepilot.plan.consolidation.packing.options import Options
from cachepilot.plan.consolidation.packing.pack import Packed, loads_of, rules_of
from cachepilot.plan.consolidation.packing.rules import Rules


def pack_as(places: Sequence[Place], options: Options, ordered: Sequence[Drain]) -> Packed | None:
    """Pack the ordered drains, in their order, each if there is room for it beside earlier ones.

    All tenants of a node go where the drain sends them, or the node is not drained. A node is not
    drained either if the drain leaves out one of its tenants, for example one that has arrived
    since. None if there are no nodes.
    """
    if not places:
        return None
    needs = FleetNeeds.of(places)
    rules = rules_of(needs, options)
    best_fit = BestFit(needs, loads_of(needs, options), rules, options.spare_nodes)
    nodes = {one.name: node for node, one in enumerate(places)}
    drained: list[int] = []
    to: dict[int, int] = {}
    for drain in ordered:
        if drain.node not in nodes or not options.may_drain(drain.node):
            continue
        node, targets = nodes[drain.node], {one.cgroup: one.to_node for one in drain.moves}
        goes = _seats(needs, node, targets, nodes)
        if goes is None or node in to.values() or not {node, *drained}.isdisjoint(goes.values()):
            continue
        tried = best_fit.packing([*drained, node], to | goes)
        if _is_allowed(rules, goes, to) and best_fit.holds(tried):
            drained.append(node)
            to |= goes
    return Packed(needs, best_fit.packing(drained, to), len(drained), False)


def _seats(
    needs: FleetNeeds, node: int, targets: Mapping[str, str], nodes: Mapping[str, int]
) -> dict[int, int] | None:
    """Where each tenant of a node goes; None if one goes nowhere."""
    tenants = needs.places[node].targets.asked.tenants
    found = {}
    for row, one in zip(needs.rows(node), tenants, strict=True):
        target = nodes.get(targets.get(one.cgroup, ""))
        if target is None:
            return None
        found[row] = target
    return found


def _is_allowed(rules: Rules, goes: Mapping[int, int], before: Mapping[int, int]) -> bool:
    """Whether the rules allow tenants to go where the drain sends them."""
    come: dict[int, list[int]] = {}
    for tenant, node in before.items():
        come.setdefault(node, []).append(tenant)
    for tenant, node in goes.items():
        if rules.pinned[tenant] or not rules.allowed(tenant, np.array([node]), come).size:
            return False
        come.setdefault(node, []).append(tenant)
    return True
