# SPDX-License-Identifier: Apache-2.0
"""Tenants in the order of a plan, what is asked of each, and whether it may be changed."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cachepilot.domain.objectives.objective import Fixed, Goal, Mode, Objective, Objectives
from cachepilot.domain.planned import Held
from cachepilot.domain.snapshot import BoolArray, Curves, Snapshot, Tenant
from cachepilot.sizes import PAGE_BYTES

NOTHING_FIXED = Fixed()
NO_CURVES = Curves(("",), np.array([PAGE_BYTES]), np.ones((1, 1)))
"""Stands for the curves of a tenant that has none; it is held, so nothing is read from them."""
BY_MODE = (Held.OBSERVE, Held.RECOMMEND)
"""Who is held although its curves can be believed."""


def may_stay(objective: Objective, policy: str) -> bool:
    """Whether nothing is asked of a tenant that takes more than its present policy and limit."""
    fixed = objective.fixed or NOTHING_FIXED
    if fixed.limit_bytes is not None or fixed.policy not in (None, policy):
        return False
    allowed = not objective.policies or policy in objective.policies or fixed.policy == policy
    return allowed and not objective.has_slo


def _curves(tenant: Tenant, objective: Objective) -> Curves:
    """What a tenant is planned by: what is certain of it, its curves, or `NO_CURVES`."""
    if tenant.certain is not None and may_stay(objective, tenant.policy):
        return tenant.certain
    return tenant.curves or NO_CURVES


def _held(tenant: Tenant, objective: Objective) -> Held:
    if objective.mode is Mode.OBSERVE and objective.fixed is None:
        return Held.OBSERVE
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
    """Tenants sorted by cgroup, with the objective of each and why it is held, if it is."""

    tenants: tuple[Tenant, ...]
    objectives: tuple[Objective, ...]
    held: tuple[Held, ...]
    goal: Goal

    @classmethod
    def of(cls, snapshot: Snapshot, objectives: Objectives) -> "Asked":
        """The tenants of a snapshot under the objectives that hold for them."""
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
        """What is pinned of every tenant by hand."""
        return tuple(one.fixed or NOTHING_FIXED for one in self.objectives)

    def movable(self, free: frozenset[Held]) -> BoolArray:
        """Who follows its curves if those held for a reason in `free` may be changed, (N,).

        One that its mode alone holds does, as far as something is pinned of it.
        """
        pairs = zip(self.held, self.objectives, strict=True)
        follows = [why in free or (why in BY_MODE and one.fixed is not None) for why, one in pairs]
        return np.array(follows, dtype=np.bool_)

    def limits(self, free: frozenset[Held]) -> list[int | None]:
        """The limit of every tenant whose limit is not to be chosen; None where it is.

        What is pinned, never below the floor, or else what the tenant has.
        """
        return [
            max(one.limit_bytes, tenant.floor_bytes)
            if one.limit_bytes is not None
            else (None if why in free else tenant.limit_bytes)
            for tenant, why, one in zip(self.tenants, self.held, self.fixed, strict=True)
        ]

    def policies(self, free: frozenset[Held]) -> list[tuple[str, ...]]:
        """The policies that each tenant may be under; all when empty."""
        rows = zip(self.tenants, self.objectives, self.held, self.fixed, strict=True)
        return [
            (one.policy,)
            if one.policy is not None
            else (stated.policies if why in free else (tenant.policy,))
            for tenant, stated, why, one in rows
        ]
