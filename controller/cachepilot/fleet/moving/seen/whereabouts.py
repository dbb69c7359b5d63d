# SPDX-License-Identifier: Apache-2.0
"""Who is on the nodes that are left of a rollout, by their agents and by the provider.

An agent leaves a tenant out whose cgroup it could not read, and a session may begin with a
snapshot of only some. So nobody counts as gone before the provider says so, too, and nobody who
came is moved whom the provider does not have there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cachepilot.domain.moving import MoveState, Rollout
from cachepilot.fleet.moving.seen.observation import NodeSeen

Where = Callable[[str], tuple[str | None, str]]
"""The node that the provider names for a cgroup, None for none, and why it cannot tell."""


@dataclass(frozen=True)
class Whereabouts:
    """What keeps nodes that are left from being planned with.

    `waits` is, by node, what is waited for first, and `refused` why a node is not drained if that
    stays so. `gone` are the tenants that are not there any more, and in words where they are.
    `unseen` are nodes with a tenant that their agents do not show: how much memory it takes is not
    known, so that nobody may be moved to them.
    """

    waits: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)

    def _lost(self, node: str, why: str) -> None:
        self.waits[node] = why
        self.refused[node] = f"node {node}: {why}"

    def _asked(self, node: str, cgroup: str, where: Where) -> tuple[str | None, str]:
        """Where a tenant is that its node does not show; it may be on that node."""
        at, unknown = where(cgroup)
        if unknown or at == node:
            self.unseen.add(node)
        return at, unknown

    def _missing(self, node: str, cgroup: str, where: Where) -> None:
        self.waits.setdefault(node, f"{cgroup} is not in its last snapshot")
        at, unknown = self._asked(node, cgroup, where)
        if unknown:
            self.refused.setdefault(node, f"it is not known where {cgroup} is: {unknown}")
        elif at == node:
            self.refused.setdefault(node, f"{cgroup} is on it, and its agent does not show it")
        else:
            self.gone[cgroup] = f"it is on {at}" if at else "no node has it"

    def _shown(self, node: str, cgroup: str, where: Where) -> None:
        """A tenant that its node shows stays there if whoever moves it has it elsewhere."""
        at, unknown = where(cgroup)
        if at != node:
            told = f"it is not known where it is: {unknown}"
            self.gone[cgroup] = told if unknown else f"the provider has it on {at or 'no node'}"
            self.waits.setdefault(node, f"{cgroup}: {self.gone[cgroup]}")

    def _came(self, node: str, cgroup: str, where: Where) -> None:
        at, unknown = where(cgroup)
        if at != node:
            told = unknown or (f"the provider has it on {at or 'no node'}")
            self.waits.setdefault(node, f"{cgroup} came to it, and {told}")
            self.refused.setdefault(node, f"{cgroup} came to it, and {told}")


def whereabouts(rollout: Rollout, seen: Mapping[str, NodeSeen], where: Where) -> Whereabouts:
    """That of the nodes that are left, and of those to which their tenants are to go."""
    found = Whereabouts()
    for node in rollout.left:
        there = seen[node]
        if there.lost:
            found._lost(node, there.lost)
            continue
        going = [one.move.cgroup for one in rollout.going(node)]
        # Who does nothing can be spread, once anything is measured of the node.
        may_be_idle = rollout.spreads and any(one.ops is not None for one in there.tenants.values())
        for cgroup in going:
            tenant = there.tenants.get(cgroup)
            if tenant is None:
                found._missing(node, cgroup, where)
            elif tenant.ops is None and not may_be_idle:
                found.waits.setdefault(node, f"nothing is measured of {cgroup}")
            if tenant is not None and rollout.spreads:
                found._shown(node, cgroup, where)
        # Where tenants are spread some stay.
        others = set() if rollout.spreads else there.tenants.keys() - set(going)
        for cgroup in sorted(others):
            found._came(node, cgroup, where)
    for move in (one.move for one in rollout.moves if one.state is MoveState.WAITING):
        lost = seen[move.to_node].lost
        if lost:
            found.waits[move.to_node] = lost
    for one in (one for one in rollout.moves if one.state is MoveState.SKIPPED):
        there, cgroup = seen[one.drain], one.move.cgroup
        if not there.lost and cgroup not in there.tenants:
            found._asked(one.drain, cgroup, where)
    return found
