# SPDX-License-Identifier: Apache-2.0
"""The past needs (memory, device operations, CPUs) of all tenants, on whatever node they were.

The needs of a tenant that moved include those on the node that it left. They fill the slots
(quarters of an hour) for which nothing is known on its present node, provided that no other node
has its path: the same path on several nodes means several tenants. Needs on two nodes differ in
level. Of the other node, only the excess of each slot over the last slot there is used.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from cachepilot.domain.past.need import SLOT_S, PastNeeds
from cachepilot.domain.snapshot import FloatArray
from cachepilot.fleet.tenants.homes import homes_of
from cachepilot.node.loop import NodeLoop
from cachepilot.plan.consolidation.least.past import PastByTenant

UNKNOWN = np.full(3, np.nan)


def past_needs(
    loops: Mapping[str, NodeLoop], tenants: Mapping[str, Iterable[str]], now_s: float, hours: float
) -> PastByTenant:
    """Return the needs of `tenants` in the last `hours`, by node and cgroup; {} if `hours` is 0."""
    if hours <= 0:
        return {}
    slots = int(hours * 3600 // SLOT_S) + 1
    here = {name: list(cgroups) for name, cgroups in tenants.items()}
    wanted = {cgroup for cgroups in here.values() for cgroup in cgroups}
    told = {name: loop.needs.told(now_s, slots, wanted) for name, loop in loops.items()}
    homes = homes_of(loops, wanted)
    elsewhere: dict[str, list[PastNeeds]] = {}
    for of_node in told.values():
        for cgroup, past in of_node.items():
            elsewhere.setdefault(cgroup, []).append(past)
    found = {}
    for name, cgroups in here.items():
        for cgroup in cgroups:
            own = told.get(name, {}).get(cgroup)
            is_alone = homes.get(cgroup, {name}) <= {name}
            others = elsewhere.get(cgroup, []) if is_alone else []
            known = [one for one in others if one is not own]
            if known:
                found[name, cgroup] = _filled(own, known)
            elif own is not None:
                found[name, cgroup] = own
    return found


def _filled(own: PastNeeds | None, others: Sequence[PastNeeds]) -> PastNeeds:
    """Return `own` with its missing slots filled from `others`.

    A filled slot has, per resource, the largest excess over the last slot in any of the others, and
    at least 0.
    """
    more, last = dict[int, FloatArray](), dict[int, FloatArray]()
    for one in others:
        values = _values(one)
        # Where the last need is unknown (NaN, as CPUs may be), the excess is unknown, too.
        for slot, then in zip(one.slots.tolist(), values - values[-1], strict=True):
            most = np.fmax(then, more.get(slot, 0.0 * then))
            is_new = (then >= most) | np.isnan(most)
            last[slot] = np.where(is_new, values[-1], last.get(slot, UNKNOWN))
            more[slot] = most
    known = {} if own is None else dict(zip(own.slots.tolist(), _values(own), strict=True))
    found = more | known
    slots = sorted(found)
    moved = np.array([slot not in known for slot in slots], dtype=np.bool_)
    size, iops, cpus = np.array([found[slot] for slot in slots]).T
    lasts = np.array([UNKNOWN if slot in known else last[slot] for slot in slots])
    return PastNeeds(np.array(slots, dtype=np.int64), size, iops, cpus, moved, lasts)


def _values(one: PastNeeds) -> FloatArray:
    """Return an array of one row per slot: size in bytes, device operations/s, CPUs."""
    return np.column_stack((one.size_bytes, one.device_iops, one.cpus))
