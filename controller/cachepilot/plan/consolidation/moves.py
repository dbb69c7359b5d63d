# SPDX-License-Identifier: Apache-2.0
"""Turn a packing into moves: the memory of each tenant on its new node, and its predictions there.

The packing decides what fits by safe bounds: curves with their error bars, and a wait that bounds
the device's. The predictions of moves use the curve itself, at the wait that results from the reads
of all tenants of the node, so that they err to neither side.

Drains come in the order that frees most memory per second of cold page caches first (Smith, 1956:
the least weighted sum of completion times). Within a drain the shortest moves come first, so that a
rollout that stops early has cost little.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.consolidation import Drain, Move
from cachepilot.domain.snapshot import FloatArray, Tenant
from cachepilot.model.throughput import Throughput, throughput_model
from cachepilot.plan.consolidation.cold_start import ColdStart, cold_start
from cachepilot.plan.consolidation.least.needs import Targets
from cachepilot.plan.consolidation.least.past import NOW
from cachepilot.plan.consolidation.least.place import Place
from cachepilot.plan.consolidation.packing.loads import Loads
from cachepilot.plan.consolidation.packing.pack import Packed
from cachepilot.plan.problem.config import Config
from cachepilot.readable import clock, listed
from cachepilot.sizes import pages_down


@dataclass(frozen=True)
class _Seat:
    """A tenant on a node that takes tenants in: its present node and row, its setting there."""

    home: Place
    row: int
    limit_bytes: int
    policy_index: int

    @property
    def tenant(self) -> Tenant:
        """The tenant as it is now."""
        return self.targets.asked.tenants[self.row]

    @property
    def targets(self) -> Targets:
        """What the tenants of its present node must keep."""
        return self.home.targets

    @property
    def policy(self) -> str:
        """The name of the tenant's policy on the node."""
        if not self.targets.follows[self.row]:
            return self.tenant.policy
        return self.targets.asked.curves[self.row].policies[self.policy_index]

    def curve(self) -> tuple[FloatArray, FloatArray]:
        """The tenant's curve from an empty page cache to its limit, as sizes and miss ratios.

        A curve begins at the size at which none of the memory is page cache (see
        `sense.curves.wire_curves`), with a miss ratio of 1, or else at no memory. A floor is no
        such size: it contains page cache, too, as a margin or as protected memory.
        """
        limit = float(self.limit_bytes)
        if not self.targets.follows[self.row]:
            empty = min(float(self.tenant.floor_bytes), limit)
            return np.array([empty, limit]), np.array([1.0, self.targets.present_miss[self.row]])
        curves = self.targets.asked.curves[self.row]
        is_empty = bool((curves.miss_ratio[:, 0] >= 1.0).all())
        empty = min(float(curves.sizes_bytes[0]) if is_empty else 0.0, limit)
        known = np.concatenate(([0.0], curves.sizes_bytes))
        ratios = np.concatenate(([1.0], curves.miss_ratio[self.policy_index]))
        inside = known[(known > empty) & (known < limit)]
        sizes = np.concatenate(([empty], inside, [limit]))
        return sizes, np.interp(sizes, known, ratios)


class _Arrival:
    """The prediction for a node after all tenants of the packing have arrived."""

    def __init__(self, place: Place, seats: Sequence[_Seat], config: Config) -> None:
        self._curves = [one.curve() for one in seats]
        self._miss = np.array([miss[-1] for _, miss in self._curves])
        tenants = [one.tenant for one in seats]
        device = place.snapshot.device.without_queueing()
        self._model: Throughput = throughput_model(tenants, device, config.model)
        self._ops = self._model.ops(self._miss, self._model.wait_us(self._miss))

    def ops(self, row: int) -> float:
        """Operations per second of a tenant once all are warm."""
        return float(self._ops[row])

    def cold_start(self, row: int) -> ColdStart:
        """The cold start of a tenant."""
        return cold_start(self._model, self._miss, row, *self._curves[row])


def _free(node: int, at: int, loads: Loads) -> FloatArray:
    """The free shares of a node at a read time: memory, reads and CPUs (rows) over time (columns).

    Without CPUs if those of the node are not known. The margin of CPUs counts as free.
    """
    size = loads.size_bytes[node, at] + loads.more_bytes[node]
    iops = loads.device_iops[node, at] + loads.more_iops[node]
    cpus = loads.stated_cpus[node] + loads.measured_cpus[node] + loads.more_cpus[node]
    has = loads.budget_bytes[node], loads.capacity_iops[node], loads.cpus[node]
    rows = [1 - used / most for used, most in zip((size, iops, cpus), has, strict=True)]
    return np.maximum(rows if np.isfinite(loads.cpus[node]) else rows[:2], 0.0)


def _why(node: int, at: int, packed: Packed) -> str:
    """Explain why tenants go to a node: what stays free there after all have arrived.

    That is now, at a read time, and at the past time at which least would have been free.
    """
    name, past = packed.needs.places[node].name, packed.needs.past
    free = _free(node, at, packed.packing.loads)
    then = int(free.min(axis=0).argmin())
    now, before = ([f"{100 * one:.0f}%" for one in free[:, when]] for when in (NOW, then))
    kinds = ("memory", "reads/s", "CPUs")
    shares = listed([f"{one} of its {kind}" for one, kind in zip(now, kinds, strict=False)])
    told = f"{name} has room: {shares} stay free after all moves"
    if then == NOW:
        return told
    return f"{told}, {listed(before)} with the needs of {clock(past.begin_s(then))}"


def _to(
    node: int, guests: Sequence[int], packed: Packed, config: Config, keeps: bool
) -> list[Move]:
    """Return the moves to one node.

    Memory that no tenant needs, now or at any past time, is shared evenly by all tenants of the
    node. With `keeps`, only the arriving tenants share what no tenant needs now.
    """
    needs, place, loads = packed.needs, packed.needs.places[node], packed.packing.loads
    at = loads.roomiest(node)
    free = int(loads.budget_bytes[node] - loads.size_bytes[node, at])
    free = max(0, free if keeps else free - int(loads.more_bytes[node].max()))
    sharing = len(guests) if keeps else len(guests) + len(needs.rows(node))

    def seat(tenant: int, free_bytes: int = 0) -> _Seat:
        home = int(needs.homes[tenant])
        row = tenant - int(needs.start[home])
        size, policy = int(needs.size_bytes[at, tenant]), int(needs.policy[at, tenant])
        has = needs.places[home].targets.asked.tenants[row].limit_bytes
        return _Seat(needs.places[home], row, max(size, min(has, size + free_bytes)), policy)

    share = pages_down(free // sharing)
    own = [seat(one, 0 if keeps else share) for one in needs.rows(node)]
    come = [seat(one, share) for one in guests]
    arrival = _Arrival(place, [*own, *come], config)
    why = _why(node, at, packed)
    found = []
    for row, guest in enumerate(come, start=len(own)):
        cold = arrival.cold_start(row)
        tenant = guests[row - len(own)]
        more_bytes, since_s = needs.past.peak(tenant)
        need_bytes = int(needs.size_bytes[at, tenant])
        peak_bytes = need_bytes if since_s is None else need_bytes + more_bytes
        found.append(
            Move(
                cgroup=guest.tenant.cgroup,
                from_node=guest.home.name,
                to_node=place.name,
                limit_bytes=guest.limit_bytes,
                policy=guest.policy,
                predicted_ops=arrival.ops(row),
                cold_pages=cold.pages,
                cold_s=cold.seconds,
                why=why,
                peak_bytes=peak_bytes,
                peak_s=since_s,
                cpus=needs.cpus.now(tenant),
                need_bytes=need_bytes if need_bytes < guest.limit_bytes else None,
            )
        )
    return found


def _most_for_its_time(drain: Drain) -> tuple[float, str]:
    return (drain.cold_s / max(drain.freed_bytes, 1), drain.node)


def drains(packed: Packed, config: Config, keeps: bool = False) -> list[Drain]:
    """Return the nodes that tenants leave, with their moves, in the order of the drains.

    No tenant gets more memory than the larger of what it needs and what it has. With `keeps` no
    tenant gets less than it has if its new node has enough free memory.
    """
    places = packed.needs.places
    guests: dict[int, list[int]] = {}
    for tenant, node in sorted(packed.packing.to.items()):
        guests.setdefault(node, []).append(tenant)
    moves: dict[str, list[Move]] = {places[node].name: [] for node in packed.packing.drained}
    for node, tenants in sorted(guests.items()):
        for move in _to(node, tenants, packed, config, keeps):
            moves.setdefault(move.from_node, []).append(move)
    freed = {places[node].name: places[node].table.budget_bytes for node in packed.packing.drained}
    found = []
    for name, made in moves.items():
        ordered = sorted(made, key=lambda one: (one.cold_s, one.cgroup))
        found.append(Drain(name, tuple(ordered), freed.get(name, 0)))
    return sorted(found, key=_most_for_its_time)
