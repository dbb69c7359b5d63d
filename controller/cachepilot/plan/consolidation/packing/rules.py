# SPDX-License-Identifier: Apache-2.0
"""Where tenants may go at all: what an operator says of nodes, of each other, and names.

A node cannot have two tenants of one path, so a tenant goes to none that has one of its path.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from cachepilot.domain.objectives.objective import Objective
from cachepilot.domain.snapshot import BoolArray, IntArray
from cachepilot.plan.consolidation.least.place import Place


def node_matches(wanted: str, name: str, labels: Sequence[str]) -> bool:
    """Whether a node is what an affinity names: its name, a label of its own, or a glob of one."""
    return any(fnmatchcase(one, wanted) for one in (name, *labels))


@dataclass(frozen=True)
class Rules:
    """Rules for I tenants and N nodes.

    `may_go`, (I, N), is where affinities allow a tenant to be; `pinned`, (I,), who stays where it
    is. `own` is which tenants each node has. `apart` is, of tenants that must not be beside some
    others, sets of those.
    """

    may_go: BoolArray
    pinned: BoolArray
    own: list[range]
    apart: Mapping[int, Sequence[Set[int]]]

    @classmethod
    def of(
        cls, places: Sequence[Place], own: list[range], labels: Sequence[Sequence[str]]
    ) -> "Rules":
        """The rules of a fleet; `labels` are those of each node."""
        tenants = [one for place in places for one in place.targets.asked.tenants]
        stated = [one for place in places for one in place.targets.asked.objectives]
        known: dict[tuple[str, ...], list[bool]] = {}
        for one in stated:
            if one.affinity not in known:
                known[one.affinity] = [
                    all(node_matches(wish, place.name, has) for wish in one.affinity)
                    for place, has in zip(places, labels, strict=True)
                ]
        may_go = np.array([known[one.affinity] for one in stated], dtype=np.bool_)
        return cls(
            may_go=may_go.reshape(len(tenants), len(places)),
            pinned=np.array([not one.movable for one in stated], dtype=np.bool_),
            own=own,
            apart=_apart([one.cgroup for one in tenants], stated),
        )

    def within(self, closed: Sequence[int], staying: Sequence[int]) -> "Rules":
        """The same where some nodes take nobody in, and some tenants stay."""
        may_go, pinned = self.may_go.copy(), self.pinned.copy()
        may_go[:, list(closed)] = False
        pinned[list(staying)] = True
        return replace(self, may_go=may_go, pinned=pinned)

    def allowed(self, tenant: int, nodes: IntArray, come: Mapping[int, Sequence[int]]) -> IntArray:
        """Which of the nodes may take a tenant in beside those they have and those that `come`."""
        fine = self.may_go[tenant, nodes]
        sets = self.apart.get(tenant, ())
        if sets:
            for at, node in enumerate(nodes.tolist()):
                others = {*self.own[node], *come.get(node, ())} - {tenant}
                fine[at] &= all(others.isdisjoint(some) for some in sets)
        found: IntArray = nodes[fine]
        return found


def _apart(cgroups: Sequence[str], stated: Sequence[Objective]) -> dict[int, list[Set[int]]]:
    """Of each tenant that has any, sets of tenants that it must not be beside."""
    found: dict[int, list[Set[int]]] = {}
    named: dict[str, set[int]] = {}
    users: dict[str, set[int]] = {}
    for row, (cgroup, one) in enumerate(zip(cgroups, stated, strict=True)):
        named.setdefault(cgroup, set()).add(row)
        for glob in one.anti_affinity:
            users.setdefault(glob, set()).add(row)
    groups = [(rows, rows) for rows in named.values() if len(rows) > 1]
    for glob, rows in users.items():
        matched = {row for row, path in enumerate(cgroups) if fnmatchcase(path, glob)}
        groups += [(rows, matched), (matched, rows)]
    for rows, others in groups:
        for row in rows:
            found.setdefault(row, []).append(others)
    return found
