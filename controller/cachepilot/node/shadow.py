# SPDX-License-Identifier: Apache-2.0
"""The node as it would be with its recommendations in force (its shadow), and its objectives.

A plan for the shadow says what to recommend next. If it changes nothing, the recommendations stand.
"""

from collections.abc import Container, Mapping
from dataclasses import replace

from cachepilot.domain.objectives.objective import Mode, Objectives
from cachepilot.node.deciding.tenant_state import Advised, TenantState
from cachepilot.node.protection import protected
from cachepilot.sense.collect import Collected, Seen


def _shadow(seen: Seen, is_told: bool, advised: Advised | None) -> Seen:
    """One tenant under its recommendation, with the floor that the node reports.

    The decider chooses the policy of a tenant in mode `auto`, so that only its limit is replaced.
    """
    tenant = replace(seen.tenant, floor_bytes=seen.wire.floor_bytes)
    if advised is not None:
        policy = advised.policy if is_told else tenant.policy
        tenant = replace(tenant, policy=policy, limit_bytes=advised.limit_bytes)
    return replace(seen, tenant=tenant)


def shadowed(
    collected: Collected,
    objectives: Objectives,
    states: Mapping[str, TenantState],
    told: Container[str],
    share: float,
) -> Collected:
    """The collected node as if the recommendations for tenants that are `told` were in force.

    `objectives` are those of `in_auto`; `share` is `least_share`.

    A tenant whose curves cannot be trusted has a certain curve, which is valid at its present limit
    alone. It is dropped if a limit is recommended.
    """
    found = {
        cgroup: _shadow(seen, cgroup in told, states[cgroup].advised)
        for cgroup, seen in collected.seen.items()
    }
    tenants = tuple(one.tenant for one in found.values())
    snapshot = replace(collected.snapshot, tenants=tenants)
    first = {cgroup: one.tenant.first_bytes for cgroup, one in found.items()}
    missed = {cgroup: one.tenant.first_miss for cgroup, one in found.items()}
    certain = {
        cgroup: one.tenant.certain
        for cgroup, one in found.items()
        if one.tenant.certain is not None and states[cgroup].advised is None
    }
    shadow = replace(collected, snapshot=snapshot, seen=found)
    return protected(shadow, objectives, share, first, {}, certain, missed)


def in_auto(objectives: Objectives, collected: Collected, margin: float) -> Objectives:
    """Objectives as if tenants that get recommendations were in mode `auto`.

    Such a tenant may get any policy that the objectives allow and the node can attach. A tenant in
    mode `auto` keeps the policy that the decider chose. Keeps are raised by the share `margin`, as
    in `held_fast`.
    """
    found = []
    for cgroup, seen in collected.seen.items():
        objective, policies = objectives.of(cgroup), None
        allowed = objective.policies or tuple(sorted(seen.usable))
        if objective.is_advised:
            objective, policies = replace(objective, mode=Mode.AUTO), allowed
        elif objective.mode is Mode.AUTO and seen.measured and seen.tenant.policy in allowed:
            policies = (seen.tenant.policy,)
        found.append(objective.narrowed(cgroup, policies, keep_margin=margin))
    return replace(objectives, pinned=(*found, *objectives.pinned))
