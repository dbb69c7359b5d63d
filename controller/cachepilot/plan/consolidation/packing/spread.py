# SPDX-License-Identifier: Apache-2.0
"""Choose tenants to leave nodes that are short of what they need now or next, and their new nodes.

A node is short if its memory, its device or its CPUs are not enough for all of its tenants at some
time. Needs are estimates that err upwards. So a past time counts only if one of these tenants is
known to have been on another node then, and the present counts only if an SLO is measured to be
missed. At any other time at which all of them are known to have been on the node, it had room for
what they needed, whatever its memory. So the node has that much room.

From a node that is short, the first tenant to go is the one without which it is least short. If the
departure of any one of several tenants would be enough, the smallest of them goes. Each tenant that
leaves makes the node less short. It stays after all if, once others have left, the node is no
shorter with it. For memory alone no other choice needs fewer moves. A tenant goes to its home, the
node that it came from, if that has room, otherwise by best fit. Nodes that are short take no
tenants in.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cachepilot.domain.snapshot import BoolArray, FloatArray, IntArray
from cachepilot.plan.consolidation.least.cpus import with_margin
from cachepilot.plan.consolidation.least.past import NOW, PastByTenant
from cachepilot.plan.consolidation.least.place import Place
from cachepilot.plan.consolidation.least.sharing_reads import SLACK
from cachepilot.plan.consolidation.packing.best_fit import BestFit
from cachepilot.plan.consolidation.packing.fleet_needs import FleetNeeds
from cachepilot.plan.consolidation.packing.loads import Load, Loads
from cachepilot.plan.consolidation.packing.options import Options
from cachepilot.plan.consolidation.packing.pack import Packed, loads_of, rules_of
from cachepilot.plan.consolidation.packing.packing import Packing
from cachepilot.plan.consolidation.packing.rules import Rules
from cachepilot.plan.slo_outcomes import misses

LESS = 1e-9
"""The least decrease of what a node lacks that counts."""
Homes = Mapping[str, str]
"""The node to which a tenant goes by preference, by cgroup."""


class Shortage(NamedTuple):
    """The first time, as an index, at which a node is short, and of what.

    `bytes` is what it lacks of memory. If that is 0, it is short of reads or of CPUs.
    """

    then: int
    bytes: int
    is_of_reads: bool


@dataclass(frozen=True)
class Relieved:
    """A packing that relieves nodes.

    `short` are the nodes, by index, that were short before. Those that are `left` still are.
    """

    packed: Packed
    short: Mapping[int, Shortage]
    left: frozenset[int]


def spread(
    places: Sequence[Place], options: Options, homes: Homes, ahead: PastByTenant
) -> Relieved | None:
    """Relieve every node that is short while others have room; None if there are no nodes.

    `ahead` are the needs that the past of `places` was made from.
    """
    if not places:
        return None
    return _Fleet(places, options, homes, ahead).relieved()


def _were(places: Sequence[Place], ahead: PastByTenant) -> tuple[BoolArray, BoolArray]:
    """The times at which each tenant is known to have been on its present node, and on another.

    Both have shape (I, T).
    """
    slots = places[0].past.slots
    names = [(place.name, one.cgroup) for place in places for one in place.targets.asked.tenants]
    here = np.zeros((len(names), slots.size + 1), dtype=np.bool_)
    elsewhere = here.copy()
    here[:, NOW] = True
    for row, name in enumerate(names):
        past = ahead.get(name)
        if past is not None:
            at = past.slots - slots[0] + 1
            here[row, at] = ~past.moved
            elsewhere[row, at] = past.moved
    return here, elsewhere


class _Fleet:
    """The tenants of a fleet while some of them leave their nodes."""

    def __init__(
        self, places: Sequence[Place], options: Options, homes: Homes, ahead: PastByTenant
    ) -> None:
        self._needs = needs = FleetNeeds.of(places)
        self._rules: Rules = rules_of(needs, options)
        loads = loads_of(needs, options)
        self._fit = BestFit(needs, loads, self._rules, options.spare_nodes)
        self._checks_loss = options.spare_nodes > 0
        self._loads = loads.copy()
        self._nodes = {one.name: node for node, one in enumerate(places)}
        self._homes = {
            row: self._nodes[homes[one.cgroup]]
            for row, one in enumerate(
                one for place in places for one in place.targets.asked.tenants
            )
            if homes.get(one.cgroup) in self._nodes
        }
        asked = [one.targets.asked for one in places]
        self._misses = [any(map(misses, one.tenants, one.objectives)) for one in asked]
        self._must = self._could_keep()
        self._here, self._elsewhere = _were(places, ahead)
        for node in range(len(places)):
            self._put(self._loads, node, needs.rows(node))
        self._to: dict[int, int] = {}
        self._short = {
            node: self._shortage(node)
            for node, one in enumerate(places)
            if options.may_drain(one.name)
            and self._spare(self._loads, node, needs.rows(node)) < 0
            and not self._has_room(node)
        }
        self._takes_in = np.flatnonzero(self._loads.spare_now(np.arange(len(places)))[0] >= 0)

    def _could_keep(self) -> BoolArray:
        """Mark the tenants whose needs count on their present nodes, (I,).

        These are tenants whose SLO their device could meet if they were alone there, and tenants
        without an SLO that have what they must keep now.
        """
        needs = self._needs
        stated = [one for place in needs.places for one in place.targets.asked.objectives]
        has_slo = np.array([one.has_slo for one in stated], dtype=np.bool_)
        kept: BoolArray = needs.kept & self._loads.runs[needs.homes].T
        found: BoolArray = np.where(has_slo, kept.any(axis=0), needs.must)
        return found

    def _at_home(self, tenant: int) -> Load:
        """The load of a tenant on its present node.

        What cannot be kept there does not count.
        """
        needs = self._needs
        fine = needs.kept[:, tenant] | ~self._must[tenant]
        iops = np.where(fine, needs.device_iops[:, tenant], np.inf)
        return self._fit.load(tenant)._replace(device_iops=iops)

    def _put(self, loads: Loads, node: int, tenants: Sequence[int]) -> None:
        """Put these of its tenants on a node, and no others."""
        loads.clear(node)
        for one in tenants:
            loads.add(node, self._at_home(one))

    def _decides(self, node: int, tenants: Sequence[int]) -> BoolArray:
        """Mark the times at which the common needs of tenants of a node count, (T,)."""
        found = np.array(self._elsewhere[list(tenants)].any(axis=0), dtype=np.bool_)
        found[NOW] = self._misses[node]
        return found

    def _proves(self, node: int, tenants: Sequence[int]) -> BoolArray:
        """Mark the times at which a node had room for what these tenants needed together, (T,)."""
        found: BoolArray = self._here[list(tenants)].all(axis=0) & ~self._decides(node, tenants)
        return found

    def _over(
        self, loads: Loads, node: int, tenants: Sequence[int]
    ) -> tuple[FloatArray, FloatArray]:
        """The shares by which memory and reads are short at each read time and time, (G, T) each.

        Negative if they are not short, -1 at a time that does not count.
        """
        decides, proves = self._decides(node, tenants), self._proves(node, tenants)
        found = []
        for used, more, has in (
            (loads.size_bytes, loads.more_bytes, loads.budget_bytes),
            (loads.device_iops, loads.more_iops, loads.capacity_iops),
        ):
            needed = used[node][:, None] + more[node].astype(np.float64)
            known = np.where(np.isfinite(needed), needed, 0.0)
            room = known[:, proves].max(axis=1, initial=float(has[node]))
            found.append(np.where(decides, needed / room[:, None] - 1, -1.0))
        return found[0], found[1]

    def _cpus_over(self, loads: Loads, node: int, tenants: Sequence[int]) -> FloatArray:
        """The shares by which CPUs are short at each time, (T,).

        Negative if they are not short. Stated CPUs count at any time.
        """
        decides, proves = self._decides(node, tenants), self._proves(node, tenants)
        stated, has = float(loads.stated_cpus[node]), float(loads.cpus[node])
        needed = with_margin(loads.measured_cpus[node] + loads.more_cpus[node]) + stated
        room = needed[proves].max(initial=has)
        found: FloatArray = np.where(decides, needed / room - 1, -1.0)
        return np.maximum(found, stated / has - 1)

    def _spare(self, loads: Loads, node: int, tenants: Sequence[int]) -> float:
        """The least share that a node with these of its tenants has left at any time.

        This is at the read time at which it is greatest; negative if the node is short.
        """
        over = np.maximum(*self._over(loads, node, tenants)).max(axis=1)
        most = float(np.where(loads.runs[node], -over, -1.0).max())
        return min(most, float(-self._cpus_over(loads, node, tenants).max()))

    def _lacks(self, loads: Loads, node: int, tenants: Sequence[int]) -> float:
        """What a node with these of its tenants lacks: a sum of shares over resources and times.

        This is at the read time at which it lacks least; 0 if and only if the node is not short.
        """
        memory, reads = (np.maximum(one, 0) for one in self._over(loads, node, tenants))
        least = np.where(loads.runs[node], (memory + reads).sum(axis=1), np.inf).min()
        return float(least + np.maximum(self._cpus_over(loads, node, tenants), 0).sum())

    def _shortage(self, node: int) -> Shortage:
        """The first shortage of a node."""
        loads, rows = self._loads, self._needs.rows(node)
        memory, reads = self._over(loads, node, rows)
        over = np.where(loads.runs[node], np.maximum(memory, reads).max(axis=1), np.inf)
        at = int(over.argmin())
        is_short = (memory[at] > 0) | (reads[at] > 0) | (self._cpus_over(loads, node, rows) > 0)
        then = int(is_short.argmax())
        needed = int(loads.size_bytes[node, at] + loads.more_bytes[node, then])
        beyond = needed - int(loads.budget_bytes[node]) if memory[at, then] > 0 else 0
        return Shortage(then, beyond, bool(reads[at, then] > 0 and not beyond))

    def _has_room(self, node: int) -> bool:
        """Whether a node has what its tenants need at one of the waits of its own table.

        These waits lie closer to the present one than the read times that all nodes share.
        """
        place, rows = self._needs.places[node], self._needs.rows(node)
        must, decides = self._must[list(rows)], self._decides(node, rows)
        more_bytes = int(place.past.more_bytes.sum(axis=0)[decides].max(initial=0))
        more_iops = float(place.past.more_iops.sum(axis=0)[decides].max(initial=0.0))
        table, cpus_over = place.table, self._cpus_over(self._loads, node, rows)
        most_iops = table.capacity_iops * (1 + SLACK)
        return cpus_over.max() <= 0 and any(
            bool((point.kept | ~must).all())
            and point.size_bytes.sum() + more_bytes <= table.budget_bytes
            and point.device_iops.sum() + more_iops <= most_iops
            for point in table.points
        )

    def relieved(self) -> Relieved:
        """Relieve the nodes that are short.

        Nodes that are short earliest come first; of these, the node that is shortest.
        """
        spare = {one: self._spare(self._loads, one, self._needs.rows(one)) for one in self._short}
        order = sorted(self._short, key=lambda one: (self._short[one].then, spare[one], one))
        left = frozenset(node for node in order if not self._relieve(node))
        packing = Packing((), dict(self._to), self._loads)
        packed = Packed(self._needs, packing, 0, False)
        return Relieved(packed, {node: self._short[node] for node in order}, left)

    def _relieve(self, node: int) -> bool:
        """Move tenants off a node, and return whether it then has room for the rest."""
        staying, left = list(self._needs.rows(node)), list[int]()
        while self._spare(self._loads, node, staying) < 0:
            gone = next((one for one in self._first_to_go(node, staying) if self._goes(one)), None)
            if gone is None:
                break
            left.append(gone)
            staying.remove(gone)
            self._put(self._loads, node, staying)
        for one in left:
            lacked = self._lacks(self._loads, node, staying)
            self._put(self._loads, node, [*staying, one])
            if self._lacks(self._loads, node, [*staying, one]) <= lacked + LESS:
                staying.append(one)
                self._stays(one)
            else:
                self._put(self._loads, node, staying)
        return self._spare(self._loads, node, staying) >= 0

    def _stays(self, tenant: int) -> None:
        """Undo the move of a tenant that was to leave."""
        node = self._to.pop(tenant)
        self._put(self._loads, node, self._needs.rows(node))
        for one in (one for one, to in self._to.items() if to == node):
            self._loads.add(node, self._fit.load(one))

    def _first_to_go(self, node: int, staying: Sequence[int]) -> list[int]:
        """The tenants without which a node is less short, in the order in which to try them."""
        tried, order = self._loads.copy(), []
        lacked = self._lacks(tried, node, staying)
        for one in staying:
            if not self._rules.pinned[one]:
                others = [other for other in staying if other != one]
                self._put(tried, node, others)
                lacks = self._lacks(tried, node, others)
                if lacks < lacked - LESS:
                    spare = self._spare(tried, node, others)
                    size = int(self._needs.size_bytes[:, one].min())
                    order.append((-min(spare, 0.0), lacks, size, one))
        return [one for *_, one in sorted(order)]

    def _goes(self, tenant: int) -> bool:
        """Move a tenant to its home or to another node, and return whether there was room."""
        home = self._homes.get(tenant)
        others: IntArray = self._takes_in[
            np.argsort(-self._loads.spare_now(self._takes_in)[0], kind="stable")
        ]
        at_home = others[others == (-1 if home is None else home)]
        return any(self._placed(tenant, nodes) for nodes in (at_home, others))

    def _placed(self, tenant: int, nodes: IntArray) -> bool:
        loads, to = self._loads.copy(), dict(self._to)
        if not self._fit.place(loads, [tenant], nodes, to):
            return False
        if self._checks_loss and not self._fit.holds(Packing((), to, loads)):
            return False
        self._loads, self._to = loads, to
        return True
