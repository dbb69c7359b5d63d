# SPDX-License-Identifier: Apache-2.0
"""Where tenants may go: affinities to nodes, anti-affinities to tenants, and names.

A node cannot have two tenants with the same path, so a tenant cannot go to a node that has one with
its path.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from cachepilot.domain.objectives.objective import Objective
from cachepilot.domain.snapshot import BoolArray, IntArray
from cachepilot.plan.consolidation.least.place import Place


def node_matches(wanted: str, name: str, labels: Sequence[str]) -> bool:
    """Whether an affinity matches a node: by its name or a label, or by a glob of one."""
    return any(fnmatchcase(one, wanted) for one in (name, *labels))


@dataclass(frozen=True)
class Rules:
    """Rules for I tenants and N nodes.

    `may_go`, (I, N), marks the nodes that the affinities of a tenant allow. `pinned`, (I,), marks
    the tenants that stay on their nodes. `own` are the tenants that each node has. `apart` has, for
    each tenant that must not be beside some others, sets of those.
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
        """Restrict the rules: `closed` nodes take no tenants in, and `staying` tenants stay."""
        may_go, pinned = self.may_go.copy(), self.pinned.copy()
        may_go[:, list(closed)] = False
        pinned[list(staying)] = True
        return replace(self, may_go=may_go, pinned=pinned)

    def allowed(self, tenant: int, nodes: IntArray, come: Mapping[int, Sequence[int]]) -> IntArray:
        """The nodes that may take a tenant in, beside their own tenants and those that `come`."""
        fine = self.may_go[tenant, nodes]
        sets = self.apart.get(tenant, ())
        if sets:
            for at, node in enumerate(nodes.tolist()):
                others = {*self.own[node], *come.get(node, ())} - {tenant}
                fine[at] &= all(others.isdisjoint(some) for some in sets)
        found: IntArray = nodes[fine]
        return found


def _apart(cgroups: Sequence[str], stated: Sequence[Objective]) -> dict[int, list[Set[int]]]:
    """For each tenant that has any, the sets of tenants that it must not be beside."""
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
