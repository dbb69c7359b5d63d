# SPDX-License-Identifier: Apache-2.0
"""Choose the nodes to drain by a heuristic, for fleets of any size.

Nodes are drained smallest first, and among nodes of the same size the one with the least load
first. Tenants are packed by best fit decreasing (Johnson, 1974, for one dimension). The greatest
tenant comes first, by the largest of its shares of memory, device and CPUs. It goes to the node
that it leaves with the least to spare, now or at any past time. For each tenant only `OPEN_MAX`
nodes are tried, and others only if it fits on none of these (bounded-space best fit; Csirik and
Johnson, 2001). A node is drained completely or not at all. In small fleets, each further node
repacks all tenants of drained nodes. In large fleets tenants stay where they were packed, and the
nodes that would be drained last are filled first.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import numpy as np

from cachepilot.domain.snapshot import FloatArray, IntArray
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds
from cachepilot.plan.consolidation.packing.loads import Load, Loads
from cachepilot.plan.consolidation.packing.packing import Packing
from cachepilot.plan.consolidation.packing.rules import Rules

OPEN_MAX = 16
AGAIN_MAX = 64
"""The largest fleet, in nodes, in which each further node repacks all tenants."""
FULL = 0.005
"""A node with less than this share to spare takes no more tenants in."""


class BestFit:
    """Packs the tenants of some nodes into others."""

    def __init__(self, needs: FleetNeeds, loads: Loads, rules: Rules, spare_nodes: int) -> None:
        self._needs, self._loads, self._rules = needs, loads, rules
        self._spare_nodes = spare_nodes
        self._iops = np.where(needs.kept, needs.device_iops, np.inf)
        self._share = self._shares()

    def _shares(self) -> FloatArray:
        """The largest share of its node's capacity that each tenant needs, or needed, (I,)."""
        needs, loads, homes = self._needs, self._loads, self._needs.homes
        if not homes.size:
            return np.zeros(0)
        first = loads.runs.argmax(axis=1)[homes], np.arange(homes.size)
        size = needs.size_bytes[first] + needs.past.more_bytes.max(axis=1)
        iops = needs.device_iops[first] + needs.past.more_iops.max(axis=1)
        memory, reads = size / loads.budget_bytes[homes], iops / loads.capacity_iops[homes]
        measured = needs.cpus.measured + needs.past.more_cpus.max(axis=1)
        cpus = (needs.cpus.stated + measured) / loads.cpus[homes]
        found: FloatArray = np.maximum(np.maximum(memory, reads), cpus)
        return found

    def _best(self, loads: Loads, tenant: int, nodes: IntArray) -> int | None:
        """The node that a tenant leaves with the least to spare; None if it fits on none."""
        if not nodes.size:
            return None
        spare, _ = loads.spare(nodes, self.load(tenant))
        fits = np.where(spare >= 0, spare, np.inf)
        at = int(fits.argmin())
        return int(nodes[at]) if np.isfinite(fits[at]) else None

    def load(self, tenant: int) -> Load:
        """The load of a tenant on a node that it comes to."""
        past, cpus = self._needs.past, self._needs.cpus
        return Load(
            self._needs.size_bytes[:, tenant], self._iops[:, tenant],
            float(cpus.stated[tenant]), float(cpus.measured[tenant]),
            past.more_bytes[tenant], past.more_iops[tenant], past.more_cpus[tenant],
        )  # fmt: skip

    def place(
        self,
        loads: Loads,
        tenants: Sequence[int],
        nodes: IntArray,
        to: dict[int, int],
        before: Mapping[int, int] = MappingProxyType({}),
    ) -> bool:
        """Place tenants on nodes, trying `nodes` in their order; False if one does not fit.

        Changes `loads`, and `to`, which maps tenants to nodes. The tenants of `before` were placed
        already.
        """
        by_node: dict[int, list[int]] = {}
        for tenant, node in (*before.items(), *to.items()) if self._rules.apart else ():
            by_node.setdefault(node, []).append(tenant)
        begin = 0
        for tenant in sorted(tenants, key=lambda one: (-self._share[one], one)):
            best = None
            for first in (begin, *range(0, nodes.size, OPEN_MAX)):
                some = nodes[first : first + OPEN_MAX]
                allowed = self._rules.allowed(tenant, some, by_node)
                best = self._best(loads, tenant, allowed)
                if best is not None:
                    begin = first
                    break
            if best is None:
                return False
            loads.add(best, self.load(tenant))
            to[tenant] = best
            by_node.setdefault(best, []).append(tenant)
        return True

    def _roomy(self, nodes: Sequence[int], loads: Loads) -> IntArray:
        """Sort nodes, those with most to spare first."""
        found = np.array(sorted(nodes), dtype=np.int64)
        return found[np.argsort(-loads.spare_now(found)[0], kind="stable")]

    def into_others(self, drained: Sequence[int]) -> Packing | None:
        """Pack the tenants of some nodes into the others; None if there is no room."""
        tenants = [tenant for node in drained for tenant in self._needs.rows(node)]
        if self._rules.pinned[tenants].any():
            return None
        loads, to = self._loads.copy(), dict[int, int]()
        rest = set(range(len(self._needs.places))) - set(drained)
        if not rest or not self.place(loads, tenants, self._roomy(list(rest), loads), to):
            return None
        found = Packing(tuple(drained), to, loads)
        return found if self._spare_nodes == 0 or self._survives(found) else None

    def packing(self, drained: Sequence[int], to: Mapping[int, int]) -> Packing:
        """The packing in which tenants go where `to` says."""
        loads = self._loads.copy()
        for tenant, node in to.items():
            loads.add(node, self.load(tenant))
        return Packing(tuple(drained), dict(to), loads)

    def holds(self, packing: Packing) -> bool:
        """Whether every node that takes tenants in has room for them, also after a loss."""
        nodes = np.array(sorted(set(packing.to.values())), dtype=np.int64)
        has_room = bool((packing.loads.spare_now(nodes)[0] >= 0).all())
        return has_room and (self._spare_nodes == 0 or self._survives(packing))

    @cached_property
    def homeless(self) -> frozenset[int]:
        """Nodes whose tenants would not fit on the others before any node is drained.

        Empty unless the loss of a node counts.
        """
        now = Packing((), {}, self._loads)
        nodes = range(len(self._needs.places)) if self._spare_nodes else ()
        return frozenset(node for node in nodes if not self._survives_without(now, node))

    def _survives(self, packing: Packing) -> bool:
        """Whether the tenants of any node that is left fit on the others if it fails.

        If the tenants of a node would not fit even before any drain, only those that come to it
        count.
        """
        rest = set(range(len(self._needs.places))) - set(packing.drained)
        lost = self.homeless
        return all(self._survives_without(packing, one, one not in lost) for one in sorted(rest))

    def _survives_without(self, packing: Packing, node: int, with_own: bool = True) -> bool:
        """Whether a node's tenants, with or without its own, fit elsewhere if it fails."""
        gone = {node, *packing.drained}
        others = [one for one in range(len(self._needs.places)) if one not in gone]
        own = (one for one in self._needs.rows(node) if one not in packing.to)
        must = [one for one in own if with_own and self._needs.must[one]]
        come = [one for one, at in packing.to.items() if at == node]
        before = {one: at for one, at in packing.to.items() if at != node}
        roomy = self._roomy(others, packing.loads)
        return self.place(packing.loads.copy(), [*must, *come], roomy, {}, before)

    def pack(self) -> Packing:
        """The packing that drains nodes, all of them at once."""
        load = self._loads.size_bytes.min(axis=1)
        places = self._needs.places
        order = sorted(
            range(len(places)),
            key=lambda one: (places[one].table.budget_bytes, load[one], places[one].name),
        )
        if len(order) > AGAIN_MAX:
            return self._surviving(self._each_once(order))
        best = Packing((), {}, self._loads)
        for node in order:
            if len(best.drained) + 1 < len(order):
                best = self.into_others([*best.drained, node]) or best
        return best

    def _each_once(self, order: Sequence[int]) -> Packing:
        """Drain node by node; each tenant is packed once."""
        loads, to, drained = self._loads.copy(), dict[int, int](), list[int]()
        takes_in = set[int]()
        last_first = np.array(order[::-1], dtype=np.int64)
        for node in order:
            tenants = list(self._needs.rows(node))
            if node in takes_in or self._rules.pinned[tenants].any():
                continue
            others = last_first[~np.isin(last_first, [*drained, node])]
            others = others[loads.spare_now(others)[0] >= FULL]
            before, come = loads.copy(), dict[int, int]()
            if others.size and self.place(loads, tenants, others, come, to):
                drained.append(node)
                to |= come
                takes_in |= set(come.values())
            else:
                loads = before
        return Packing(tuple(drained), to, loads)

    def _surviving(self, packing: Packing) -> Packing:
        """The longest prefix of the drains after which the fleet survives the loss of a node.

        Found by bisection; all of the drains if no loss counts.
        """
        if self._spare_nodes == 0:
            return packing
        least, most = 0, len(packing.drained)
        while least < most:
            middle = (least + most + 1) // 2
            fine = self._survives(self._first(packing, middle))
            least, most = (middle, most) if fine else (least, middle - 1)
        return self._first(packing, least)

    def _first(self, packing: Packing, count: int) -> Packing:
        """A packing with only the first `count` drained nodes."""
        drained = packing.drained[:count]
        moved = {tenant for node in drained for tenant in self._needs.rows(node)}
        to = {tenant: node for tenant, node in packing.to.items() if tenant in moved}
        return self.packing(drained, to)
