# SPDX-License-Identifier: Apache-2.0
"""The tenants of a plan in their order, the objective of each, and whether it may change."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cachepilot.domain.objectives.objective import Fixed, Goal, Mode, Objective, Objectives
from cachepilot.domain.planned import Held
from cachepilot.domain.snapshot import BoolArray, Curves, Snapshot, Tenant
from cachepilot.sizes import PAGE_BYTES

NOTHING_FIXED = Fixed()
NO_CURVES = Curves(("",), np.array([PAGE_BYTES]), np.ones((1, 1)))
"""Stands for the curves of a tenant without curves.

Such a tenant is held, so nothing is read from them.
"""
BY_MODE = (Held.OBSERVE, Held.RECOMMEND)
"""The reasons to hold a tenant that come from its mode, not from its curves."""
UNPREDICTED = frozenset((Held.NO_CURVES, Held.UNTRUSTED, Held.UNKNOWN_POLICY))
"""The reasons to hold a tenant that leave it without a prediction, even of its present setting."""


def may_stay(objective: Objective, policy: str) -> bool:
    """Whether the present policy and limit of a tenant are all that its objective needs."""
    fixed = objective.fixed or NOTHING_FIXED
    if fixed.limit_bytes is not None or fixed.policy not in (None, policy):
        return False
    allowed = not objective.policies or policy in objective.policies or fixed.policy == policy
    return allowed and not objective.has_slo


def _curves(tenant: Tenant, objective: Objective) -> Curves:
    """The curves to plan a tenant with: the certain ones, its own, or `NO_CURVES`.

    The certain ones (`Tenant.certain`) describe only the present policy, so they serve only where
    nothing else is requested of the tenant.
    """
    if tenant.certain is not None and may_stay(objective, tenant.policy):
        return tenant.certain
    return tenant.curves or NO_CURVES


def _held(tenant: Tenant, objective: Objective) -> Held:
    curves = _curves(tenant, objective)
    if curves is NO_CURVES:
        return Held.NO_CURVES
    pinned = (objective.fixed or NOTHING_FIXED).policy
    if not tenant.trust.trusted and curves is not tenant.certain:
        return Held.UNTRUSTED
    known = curves.policies
    if tenant.policy not in known or (pinned is not None and pinned not in known):
        return Held.UNKNOWN_POLICY
    if tenant.yielded:
        return Held.YIELDED
    return Held(objective.mode) if objective.mode is not Mode.AUTO else Held.NOT


@dataclass(frozen=True)
class Asked:
    """Tenants sorted by cgroup, each with its objective and why it is held, if it is."""

    tenants: tuple[Tenant, ...]
    objectives: tuple[Objective, ...]
    held: tuple[Held, ...]
    goal: Goal

    @classmethod
    def of(cls, snapshot: Snapshot, objectives: Objectives) -> "Asked":
        """Combine the tenants of a snapshot with the objectives that apply to them."""
        tenants = tuple(sorted(snapshot.tenants, key=lambda tenant: tenant.cgroup))
        stated = tuple(objectives.of(tenant.cgroup) for tenant in tenants)
        held = tuple(_held(*pair) for pair in zip(tenants, stated, strict=True))
        return cls(tenants, stated, held, objectives.goal)

    @cached_property
    def curves(self) -> tuple[Curves, ...]:
        """The curves of every tenant, or what stands for them."""
        pairs = zip(self.tenants, self.objectives, strict=True)
        return tuple(_curves(*pair) for pair in pairs)

    @cached_property
    def fixed(self) -> tuple[Fixed, ...]:
        """The policy and limit that an operator pinned, for every tenant."""
        return tuple(one.fixed or NOTHING_FIXED for one in self.objectives)

    def movable(self, free: frozenset[Held]) -> BoolArray:
        """Mark the tenants that may change if those held for a reason in `free` may, (N,).

        A tenant that only its mode holds is movable, too, if something of it is pinned.
        """
        pairs = zip(self.held, self.objectives, strict=True)
        follows = [why in free or (why in BY_MODE and one.fixed is not None) for why, one in pairs]
        return np.array(follows, dtype=np.bool_)

    def limits(self, free: frozenset[Held]) -> list[int | None]:
        """The fixed limit of every tenant in bytes; None if the planner is to choose it.

        It is the pinned limit, never below the floor, or else the present limit of a held tenant.
        """
        return [
            max(one.limit_bytes, tenant.floor_bytes)
            if one.limit_bytes is not None
            else (None if why in free else tenant.limit_bytes)
            for tenant, why, one in zip(self.tenants, self.held, self.fixed, strict=True)
        ]

    def policies(self, free: frozenset[Held]) -> list[tuple[str, ...]]:
        """The policies that each tenant may have; an empty tuple allows all."""
        rows = zip(self.tenants, self.objectives, self.held, self.fixed, strict=True)
        return [
            (one.policy,)
            if one.policy is not None
            else (stated.policies if why in free else (tenant.policy,))
            for tenant, stated, why, one in rows
        ]
