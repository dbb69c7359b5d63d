# SPDX-License-Identifier: Apache-2.0
"""Tenants in the order of a plan, what is asked of each, and whether it may be changed."""

from dataclasses import dataclass

from cachepilot.planner.decision import Held
from cachepilot.planner.objectives import Goal, Mode, Objective, Objectives
from cachepilot.planner.snapshot import Snapshot, Tenant


def _held(tenant: Tenant, objective: Objective) -> Held:
    if objective.mode is Mode.OBSERVE:
        return Held.OBSERVE
    if not tenant.trust.trusted:
        return Held.UNTRUSTED
    if tenant.policy not in tenant.curves.policies:
        return Held.UNKNOWN_POLICY
    return Held.RECOMMEND if objective.mode is Mode.RECOMMEND else Held.NOT


@dataclass(frozen=True)
class Asked:
    """Tenants sorted by cgroup, with the objective of each and why it is held, if it is."""

    tenants: tuple[Tenant, ...]
    objectives: tuple[Objective, ...]
    held: tuple[Held, ...]
    goal: Goal

    @classmethod
    def of(cls, snapshot: Snapshot, objectives: Objectives) -> "Asked":
        """The tenants of a snapshot under the statements that hold for them."""
        tenants = tuple(sorted(snapshot.tenants, key=lambda tenant: tenant.cgroup))
        stated = tuple(objectives.of(tenant.cgroup) for tenant in tenants)
        held = tuple(_held(*pair) for pair in zip(tenants, stated, strict=True))
        return cls(tenants, stated, held, objectives.goal)
