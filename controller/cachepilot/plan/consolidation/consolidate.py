# SPDX-License-Identifier: Apache-2.0
"""Consolidation: the least memory of every tenant, room for more, and nodes that can be drained.

To drain a node is to move all of its tenants to other nodes. Everything is predicted, for a fleet
in which every tenant has its least memory. Whatever is uncertain counts against a tenant's room;
see `cachepilot.plan.consolidation.least.needs`.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from cachepilot.domain.consolidation import Consolidation, LeastMemory
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.objectives.pins import Pin, with_pins
from cachepilot.domain.planned import Held
from cachepilot.domain.slos import GOAL
from cachepilot.domain.snapshot import Snapshot, Tenant
from cachepilot.errors import InputError
from cachepilot.plan.consolidation.least.cpus import CpuNeeds
from cachepilot.plan.consolidation.least.needs import (
    FREE,
    MARGIN_MAX,
    TOLERANCE,
    Needs,
    Targets,
)
from cachepilot.plan.consolidation.least.past import NOW, Past, PastByTenant, slots_of
from cachepilot.plan.consolidation.least.place import Place
from cachepilot.plan.consolidation.least.wait_table import WaitTable
from cachepilot.plan.consolidation.moves import drains
from cachepilot.plan.consolidation.packing.options import Options
from cachepilot.plan.consolidation.packing.pack import Packed, pack
from cachepilot.plan.problem.asked import Asked
from cachepilot.plan.problem.config import Config
from cachepilot.readable import clock, number
from cachepilot.sizes import human_bytes

Floors = Mapping[tuple[str, str], int]
"""The least memory of tenants regardless of their curves, bytes by node and cgroup."""
KEPT = f"{100 * (1 - TOLERANCE):g}%"
ASSUMED = (
    "predicted, not measured; it holds when every tenant of the node has its least memory",
    f"without an SLO the least memory gives {KEPT} of the present throughput",
    f"SLOs of throughput and latency are met in {100 * GOAL:g}% of windows, if these are off the "
    f"model by as much as lately; the margin for that is at most {100 * MARGIN_MAX:g}%",
    "a drained node's tenants are assumed to have the same policies and curves on their new nodes",
    "SLOs of drained nodes count with the policy in force; how much intervals vary with less "
    "memory is not predicted: --apply measures that before any tenant moves, with 95% confidence",
)


def _is_known(tenant: Tenant, objective: Objective, follows: bool) -> bool:
    """Whether a tenant's need is known.

    Without curves to follow nothing is predicted of an SLO. A tenant without an SLO needs no more
    than its present memory for its present throughput, whatever its curves are.
    """
    has_p99 = objective.latency_p99_us is None or tenant.indicators.latency_p99_us is not None
    return has_p99 and (follows or not objective.has_slo)


def peak_note(peak_bytes: int, peak_s: float | None) -> str:
    """The note of a row on the time of the tenant's greatest need; empty if that is now."""
    return "" if peak_s is None else f"; {human_bytes(peak_bytes)} at {clock(peak_s)}"


def row_note(limit_bytes: int, least_bytes: int, has_slo: bool, kept: bool, known: bool) -> str:
    """The note of a row: what the least memory achieves, and how much it takes or frees.

    A tenant without an SLO has its present throughput with its present memory. If its least memory
    is more, then its floor, a pin, `memory_min` or the allowed policies need it.
    """
    what = "its SLOs" if has_slo else f"{KEPT} of its present throughput"
    if not known:
        return f"not known: what {what} would take"
    if not kept:
        if has_slo:
            return "no memory of this node would meet its SLOs"
        return f"beside the least memory of the others, none is left that keeps {what}"
    free = limit_bytes - least_bytes
    if free < 0 and has_slo:
        return f"to be sure of its SLOs takes {human_bytes(-free)} more"
    if free < 0:
        return f"its floor, pin, memory_min or policies take {human_bytes(-free)} more"
    return f"{what}, and {human_bytes(free)} less than now" if free else f"{what}, as it is now"


def _rows(place: Place, node_cpus: float) -> list[LeastMemory]:
    """Return one row per tenant of a node.

    A node that is short of memory, reads or CPUs has no room for more tenants.
    """
    point, asked = place.table.least, place.targets.asked
    cpus = CpuNeeds.of(asked)
    by_cpus = cpus.more_like(place.past.more_cpus, node_cpus)
    more_fit = np.minimum(place.table.more_like(place.past), by_cpus).tolist()
    rows = []
    for i, tenant in enumerate(asked.tenants):
        follows, kept = bool(place.targets.follows[i]), bool(point.kept[i])
        objective = asked.objectives[i]
        policy = asked.curves[i].policies[int(point.policy[i])] if follows else tenant.policy
        known = _is_known(tenant, objective, follows)
        least = int(point.size_bytes[i])
        more, peak_s = place.past.peak(i)
        note = row_note(tenant.limit_bytes, least, objective.has_slo, known and kept, known)
        rows.append(
            LeastMemory(
                node=place.name,
                cgroup=tenant.cgroup,
                policy=tenant.policy,
                limit_bytes=tenant.limit_bytes,
                least_policy=policy,
                least_bytes=least,
                has_slo=objective.has_slo,
                known=known,
                kept=kept,
                more_of_this_kind=more_fit[i],
                note=note + peak_note(least + more, peak_s),
                peak_bytes=least + more,
                peak_s=peak_s,
                cpus=cpus.now(i),
            )
        )
    return rows


def _doubts(places: Sequence[Place]) -> Iterator[str]:
    """Yield notes on what is less certain than curves with error bars and models of known error."""
    inexact, unproven = [], []
    for place in places:
        asked = place.targets.asked
        pairs = zip(asked.tenants, asked.held, strict=True)
        kept = [(one.cgroup, why is Held.YIELDED) for one, why in pairs if why not in FREE]
        for told, reason in ((False, "for want of curves"), (True, "others set their limits")):
            names = ", ".join(name for name, is_yielded in kept if is_yielded is told)
            if names:
                yield f"{place.name}: counted as they are, {reason}: {names}"
        known = [one.curves for one in asked.tenants if one.curves is not None]
        if any(curves.error_bar is None for curves in known):
            inexact.append(place.name)
        if any(one.demand.error_pct is None for one in asked.tenants):
            unproven.append(place.name)
        over = int(place.table.needed_bytes[0]) - place.table.budget_bytes
        if over > 0:
            yield f"{place.name}: even the least is {human_bytes(over)} more than its budget"
        yield from _short_before(place, max(over, 0))
    if inexact:
        yield f"curves without error bars are taken as exact, on {', '.join(inexact)}"
    if unproven:
        yield f"models whose error is not known are taken as exact, on {', '.join(unproven)}"


def _short_before(place: Place, over: int) -> Iterator[str]:
    """Yield when the tenants of a node together needed more memory than it has.

    `over` is by how much they exceed it now; only a greater excess counts.
    """
    more = place.past.more_bytes.sum(axis=0)
    at = int(more.argmax())
    beyond = int(place.table.needed_bytes[0] + more[at]) - place.table.budget_bytes
    if at != NOW and beyond > over:
        since = clock(place.past.begin_s(at))
        yield f"{place.name}: at {since} its tenants needed {human_bytes(beyond)} more than it has"


def _doubts_of_cpus(places: Sequence[Place], options: Options) -> Iterator[str]:
    """Yield the nodes that are short of CPUs, and those on which needs of CPUs are not known."""
    unknown = []
    for place in places:
        has, cpus = options.cpus_of(place.snapshot.node), CpuNeeds.of(place.targets.asked)
        if np.isfinite(has) and not all(cpus.known):
            unknown.append(place.name)
        short = cpus.short(place.past.more_cpus, has)
        at = int(short.argmax())
        if short[at] > 0:
            told = "its tenants need"
            if at != NOW:
                told = f"at {clock(place.past.begin_s(at))} its tenants needed"
            yield f"{place.name}: {told} {number(short[at])} CPUs more than it has, with a margin"
    if unknown:
        yield f"CPUs that some tenants need are not known and count as 0, on {', '.join(unknown)}"


def _horizon(places: Sequence[Place], asked_hours: float) -> Iterator[str]:
    """Yield for how many of the requested hours past needs are known."""
    # The present quarter of an hour is not over, so there is one slot more than the hours.
    hours = min(places[0].past.hours, asked_hours) if places else 0.0
    if places and not asked_hours:
        yield "only what tenants need now counts: headroom_hours is 0"
    elif hours:
        yield (
            f"room is left for what tenants needed together at any time of the last {hours:.3g} h"
        )
    elif places:
        yield "only what tenants need now counts: what they needed before is not known"


def _immovable(options: Options) -> Iterator[str]:
    """Yield the nodes that cannot be drained because some tenants cannot be moved."""
    staying: dict[str, list[str]] = {}
    for node, cgroup in sorted(options.staying):
        staying.setdefault(node, []).append(cgroup)
    for node, cgroups in staying.items():
        told = ", ".join(cgroups)
        yield f"{node}: not drained, the program that moves tenants does not have there: {told}"


def _best(packed: Packed | None) -> Iterator[str]:
    """Yield how far the packing may be from the best one."""
    if packed is None or len(packed.needs.places) < 2:
        return
    if packed.homeless:
        yield f"if one of these fails, its tenants fit on no others: {', '.join(packed.homeless)}"
    if packed.gap:
        why = "" if packed.is_exact else "; the fleet is too large for an exact one"
        yield f"at most {packed.gap} more of the nodes could be drained by another packing{why}"
    else:
        yield "no other packing drains more nodes"


def places_of(
    snapshots: Sequence[Snapshot],
    objectives: Objectives,
    config: Config,
    pins: Sequence[Pin] = (),
    refuted: Floors = MappingProxyType({}),
    before: PastByTenant = MappingProxyType({}),
    proven: Collection[tuple[str, str]] = (),
) -> list[Place]:
    """Return the nodes by name, with what their tenants need.

    Tenants in `refuted` need more than their curves predict, see `Needs.of`. For those in `proven`,
    by node and cgroup, measurements showed that their present memory is enough, see `Targets.of`.
    `before` is what tenants needed in the past. Raises InputError for two snapshots of one node.
    """
    names = [snapshot.node.name for snapshot in snapshots]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"consolidation: node {name}: two snapshots (allowed: one per node)")
    ordered = sorted(snapshots, key=lambda one: one.node.name)
    enough: dict[str, set[str]] = {}
    for node, cgroup in proven:
        enough.setdefault(node, set()).add(cgroup)
    floors: dict[str, dict[str, int]] = {}
    for (node, cgroup), size in refuted.items():
        floors.setdefault(node, {})[cgroup] = size
    needs = []
    for one in ordered:
        stated = with_pins(objectives, pins, one.node.name)
        name = one.node.name
        targets = Targets.of(one, Asked.of(one, stated), config, enough.get(name, ()))
        needs.append(Needs.of(targets, one, config, floors.get(name, {})))
    tables = WaitTable.of_all(needs, ordered)
    slots = slots_of(before.values())
    past = [
        Past.of(of_node, seen.node.name, before, slots)
        for of_node, seen in zip(needs, ordered, strict=True)
    ]
    return [Place(*parts) for parts in zip(ordered, needs, tables, past, strict=True)]


def consolidate(
    snapshots: Sequence[Snapshot],
    objectives: Objectives,
    config: Config,
    pins: Sequence[Pin] = (),
    options: Options | None = None,
    refuted: Floors = MappingProxyType({}),
    before: PastByTenant = MappingProxyType({}),
) -> Consolidation:
    """Return what the fleet needs at least, from one snapshot per node.

    A pure function, conservative wherever it can be. A pin applies on its node, or on all nodes if
    it names none. Raises InputError for two snapshots of one node.
    """
    options = options or Options()
    places = places_of(snapshots, objectives, config, pins, refuted, before)
    packed = pack(places, options)
    return Consolidation(
        nodes=len(places),
        tenants=[
            row for place in places for row in _rows(place, options.cpus_of(place.snapshot.node))
        ],
        drains=drains(packed, config) if packed else [],
        notes=[
            *ASSUMED,
            *_horizon(places, options.headroom_hours),
            *_best(packed),
            *_doubts(places),
            *_doubts_of_cpus(places, options),
            *_immovable(options),
        ],
    )
