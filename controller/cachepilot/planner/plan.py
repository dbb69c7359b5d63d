# SPDX-License-Identifier: Apache-2.0
"""`plan`: what every tenant of a node gets next, and why.

A pure function: no clock, no file and no random number but from the seed of the configuration.
"""

from collections.abc import Sequence

import numpy as np

from cachepilot import allocators
from cachepilot.planner.asked import Asked
from cachepilot.planner.config import Config
from cachepilot.planner.decision import Action, Held, Plan, Setting
from cachepilot.planner.limits import InfeasibleError
from cachepilot.planner.objectives import Objective, Objectives
from cachepilot.planner.outlook import Outlook, outlook
from cachepilot.planner.problem import Problem, build
from cachepilot.planner.slo_outcomes import slo_outcomes
from cachepilot.planner.snapshot import Snapshot, Tenant
from cachepilot.sizes import human_bytes

OVERCOMMITTED = "limits exceed the budget: they shrink by more than the bound on movement"


def _planned(
    snapshot: Snapshot, asked: Asked, config: Config, free: frozenset[Held]
) -> tuple[Problem, Outlook]:
    allocator = allocators.find(config.allocator)
    problem = build(snapshot, asked, config, free)
    random = np.random.default_rng([config.seed, snapshot.epoch])
    return problem, outlook(problem, allocator(problem, random))


def _settings(tenants: Sequence[Tenant], seen: Outlook, held: Sequence[Held]) -> list[Setting]:
    """What an allocation gives each tenant; one that is held keeps the name of its policy."""
    columns = (
        seen.allocation.policy.tolist(),
        seen.allocation.limit_bytes.tolist(),
        seen.miss.tolist(),
        seen.ops.tolist(),
    )
    return [
        Setting(
            tenant.policy if why is not Held.NOT else tenant.curves.policies[policy],
            limit,
            miss,
            ops,
        )
        for tenant, why, policy, limit, miss, ops in zip(tenants, held, *columns, strict=True)
    ]


def _disobeyed(tenant: Tenant, objective: Objective, held: Held, then: Setting) -> str | None:
    """A note on a tenant that may be changed and yet stays under a policy it may not have."""
    if held is not Held.NOT or not objective.policies or then.policy in objective.policies:
        return None
    allowed = ", ".join(objective.policies)
    has_curve = not set(objective.policies).isdisjoint(tenant.curves.policies)
    why = "the allocator changes no policies" if has_curve else "none of them has a curve"
    return f"{tenant.cgroup}: stays under {then.policy}; allowed are {allowed}, but {why}"


def _why(tenant: Tenant, held: Held, now: Setting, then: Setting) -> str:
    if held is Held.UNTRUSTED:
        return f"kept: the curves cannot be trusted: {tenant.trust.reason or 'no reason given'}"
    if held is Held.UNKNOWN_POLICY:
        return f"kept: there is no curve of its present policy, {tenant.policy}"
    if held is not Held.NOT:
        return f"kept: mode is {held}"
    if (now.policy, now.limit_bytes) == (then.policy, then.limit_bytes):
        return "kept: the allocator found no change that is worth its cost"
    changes = []
    if now.policy != then.policy:
        changes.append(f"{now.policy} -> {then.policy}")
    if now.limit_bytes != then.limit_bytes:
        changes.append(f"{human_bytes(now.limit_bytes)} -> {human_bytes(then.limit_bytes)}")
    return (
        f"{', '.join(changes)}: miss ratio {now.miss_ratio:.4f} -> {then.miss_ratio:.4f}, "
        f"{now.throughput_ops:,.4g} -> {then.throughput_ops:,.4g} ops/s predicted"
    )


def _recommended(
    snapshot: Snapshot, asked: Asked, config: Config
) -> tuple[dict[str, Setting], tuple[str, ...]]:
    """What tenants in mode `recommend` would get in mode `auto`, by cgroup, and notes.

    Nothing, and a note why, where their floors and `memory_min` would not fit.
    """
    if Held.RECOMMEND not in asked.held:
        return {}, ()
    try:
        _, seen = _planned(snapshot, asked, config, frozenset((Held.NOT, Held.RECOMMEND)))
    except InfeasibleError as error:
        return {}, (f"nothing to recommend: {error}",)
    freed = [Held.NOT if why is Held.RECOMMEND else why for why in asked.held]
    settings = _settings(asked.tenants, seen, freed)
    found = {
        tenant.cgroup: setting
        for tenant, why, setting in zip(asked.tenants, asked.held, settings, strict=True)
        if why is Held.RECOMMEND
    }
    return found, ()


def plan(snapshot: Snapshot, objectives: Objectives, config: Config) -> Plan:
    """The plan for one node; the same arguments give the same plan.

    Raises InfeasibleError when what tenants must have exceeds the budget, and InputError for an
    allocator that does not exist.
    """
    asked = Asked.of(snapshot, objectives)
    tenants, stated, held = asked.tenants, asked.objectives, asked.held
    problem, seen = _planned(snapshot, asked, config, frozenset((Held.NOT,)))
    present = _settings(tenants, outlook(problem, problem.keep()), held)
    recommended, notes = _recommended(snapshot, asked, config)
    planned = _settings(tenants, seen, held)
    disobeyed = map(_disobeyed, tenants, stated, held, planned)
    actions = tuple(
        Action(
            cgroup=tenant.cgroup,
            policy=then.policy,
            limit_bytes=then.limit_bytes,
            miss_ratio=then.miss_ratio,
            throughput_ops=then.throughput_ops,
            present=now,
            held=why,
            why=_why(tenant, why, now, then),
            recommended=recommended.get(tenant.cgroup),
        )
        for tenant, why, now, then in zip(tenants, held, present, planned, strict=True)
    )
    return Plan(
        epoch=snapshot.epoch,
        node=snapshot.node.name,
        allocator=config.allocator,
        actions=actions,
        slos=slo_outcomes(problem, seen, tenants, stated),
        objective=seen.value,
        bound=seen.allocation.bound,
        device_wait_us=seen.load.wait_us,
        device_share=seen.device_iops / snapshot.device.capacity_iops,
        unallocated_bytes=snapshot.node.budget_bytes - int(seen.allocation.limit_bytes.sum()),
        notes=(
            *((OVERCOMMITTED,) if problem.widened else ()),
            *notes,
            *(note for note in disobeyed if note is not None),
        ),
    )
