# SPDX-License-Identifier: Apache-2.0
"""The tenants on the remaining nodes of a rollout, as seen by the agents and by the provider.

An agent leaves out a tenant whose cgroup it could not read, and the first snapshot of a session may
be incomplete. A tenant therefore counts as gone only if the provider agrees. A tenant that came to
a node is moved only if the provider has it there.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from cachepilot.domain.moving import MoveState, Rollout
from cachepilot.fleet.moving.seen.observation import NodeSeen

Where = Callable[[str], tuple[str | None, str]]
"""Returns the node that the provider names for a cgroup, or None, and why it cannot name one."""


@dataclass(frozen=True)
class Whereabouts:
    """What prevents planning with the remaining nodes.

    `waits` has, by node, the first reason to wait. `refused` has the reason why the node is not
    drained if that does not change. `gone` has, by cgroup, the tenants that left, and in words
    where they are. `unseen` are nodes with a tenant that their agents do not report: the memory it
    takes is not known, so no tenant may be moved there.
    """

    waits: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    gone: dict[str, str] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)

    def _lost(self, node: str, why: str) -> None:
        self.waits[node] = why
        self.refused[node] = f"node {node}: {why}"

    def _asked(self, node: str, cgroup: str, where: Where) -> tuple[str | None, str]:
        """Ask the provider about a tenant that its node does not report; it may be on that node."""
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
        """Treat a tenant that its node reports as gone if the provider has it elsewhere."""
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
    """Examine the remaining nodes, and the nodes to which their tenants are to go."""
    found = Whereabouts()
    for node in rollout.left:
        there = seen[node]
        if there.lost:
            found._lost(node, there.lost)
            continue
        going = [one.move.cgroup for one in rollout.going(node)]
        # A tenant that does nothing can be spread, once any tenant of the node is measured.
        may_be_idle = rollout.spreads and any(one.ops is not None for one in there.tenants.values())
        for cgroup in going:
            tenant = there.tenants.get(cgroup)
            if tenant is None:
                found._missing(node, cgroup, where)
            elif tenant.ops is None and not may_be_idle:
                found.waits.setdefault(node, f"nothing is measured of {cgroup}")
            if tenant is not None and rollout.spreads:
                found._shown(node, cgroup, where)
        # If tenants are spread, other tenants stay on the node, so newcomers do not matter.
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
