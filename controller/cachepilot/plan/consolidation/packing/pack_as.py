# SPDX-License-Identifier: Apache-2.0
"""A packing that was ordered before: whether there still is room for it."""

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
    """The drains, in their order, each if there is room for it beside those before it.

    All tenants of a node go where that says, or the node is not drained: neither is one to which
    a tenant came since. None of no nodes.
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
    """Where each tenant of a node goes; None where one goes nowhere."""
    tenants = needs.places[node].targets.asked.tenants
    found = {}
    for row, one in zip(needs.rows(node), tenants, strict=True):
        target = nodes.get(targets.get(one.cgroup, ""))
        if target is None:
            return None
        found[row] = target
    return found


def _is_allowed(rules: Rules, goes: Mapping[int, int], before: Mapping[int, int]) -> bool:
    """Whether tenants may go where they are said to."""
    come: dict[int, list[int]] = {}
    for tenant, node in before.items():
        come.setdefault(node, []).append(tenant)
    for tenant, node in goes.items():
        if rules.pinned[tenant] or not rules.allowed(tenant, np.array([node]), come).size:
            return False
        come.setdefault(node, []).append(tenant)
    return True
