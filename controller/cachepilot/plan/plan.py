# SPDX-License-Identifier: Apache-2.0
"""Plan one node: choose the next policy and limit of every tenant, and give the reasons.

`plan` is a pure function. It reads no clock and no file, and draws random numbers only from a
generator that the seed of the configuration and the epoch of the snapshot initialise.

A tenant is held if the planner leaves its policy and limit as they are (see `Held`).
"""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.planned import Action, Held, Plan, Setting
from cachepilot.domain.snapshot import Snapshot, Tenant
from cachepilot.plan import allocators
from cachepilot.plan.outlook import Outlook, outlook
from cachepilot.plan.problem.asked import BY_MODE, NOTHING_FIXED, Asked
from cachepilot.plan.problem.building import build
from cachepilot.plan.problem.config import Config
from cachepilot.plan.problem.problem import Problem
from cachepilot.plan.slo_outcomes import slo_outcomes
from cachepilot.readable import number
from cachepilot.sizes import human_bytes

BEYOND = "limits that may not change and the minimum of all others exceed the capacity by"
OVERCOMMITTED = "limits exceed the budget: they shrink by more than the bound on movement"
UNPREDICTABLE = frozenset(Held) - {Held.NOT, *BY_MODE}


def _planned(
    snapshot: Snapshot, asked: Asked, config: Config, free: frozenset[Held]
) -> tuple[Problem, Outlook]:
    allocator = allocators.find(config.allocator)
    problem = build(snapshot, asked, config, free)
    random = np.random.default_rng([config.seed, snapshot.epoch])
    return problem, outlook(problem, allocator(problem, random))


def _settings(
    problem: Problem, asked: Asked, seen: Outlook, others: Sequence[str]
) -> list[Setting]:
    """Return what an allocation predicts for each tenant, in the order of `asked`.

    `others` are the policy names of the tenants that are not movable.
    """
    columns = (
        seen.allocation.policy.tolist(),
        seen.allocation.limit_bytes.tolist(),
        seen.miss.tolist(),
        seen.ops.tolist(),
    )
    return [
        Setting(
            curves.policies[policy] if movable else other,
            limit,
            miss,
            ops,
        )
        for curves, movable, other, policy, limit, miss, ops in zip(
            asked.curves, problem.movable.tolist(), others, *columns, strict=True
        )
    ]


def _disobeyed(tenant: Tenant, objective: Objective, held: Held, then: Setting) -> Iterator[str]:
    """Yield notes on a tenant that does not get the limit or the policy that was requested."""
    fixed = objective.fixed or NOTHING_FIXED
    if fixed.limit_bytes is not None and then.limit_bytes != fixed.limit_bytes:
        why = "its floor" if fixed.limit_bytes < tenant.floor_bytes else "all that fits"
        pinned = human_bytes(fixed.limit_bytes)
        what = "unpinned, had" if fixed.is_over else "pinned to"
        yield f"{tenant.cgroup}: {what} {pinned}; gets {human_bytes(then.limit_bytes)}, {why}"
    if held is not Held.NOT or not objective.policies or fixed.policy is not None:
        return
    if then.policy in objective.policies or tenant.curves is None:
        return
    allowed = ", ".join(objective.policies)
    has_curve = not set(objective.policies).isdisjoint(tenant.curves.policies)
    why = "the allocator changes no policies" if has_curve else "none of them has a curve"
    yield f"{tenant.cgroup}: stays under {then.policy}; allowed are {allowed}, but {why}"


def _why_held(tenant: Tenant, objective: Objective, held: Held) -> str:
    if held is Held.UNTRUSTED:
        return f"confidence in the curves is low: {tenant.trust.reason or 'no reason given'}"
    if held is Held.UNKNOWN_POLICY:
        pinned = (objective.fixed or NOTHING_FIXED).policy
        known = tenant.curves is not None and tenant.policy in tenant.curves.policies
        return f"there is no curve of its {'pinned' if known else 'present'} policy, " + (
            pinned if known and pinned else tenant.policy
        )
    if held is Held.NO_CURVES:
        return f"there are no curves yet{tenant.trust.reason and ': '}{tenant.trust.reason}"
    if held is Held.YIELDED:
        return f"another program sets its limit: {tenant.yielded}"
    return f"mode is {held}"


def _why(tenant: Tenant, objective: Objective, held: Held, now: Setting, then: Setting) -> str:
    same = (now.policy, now.limit_bytes) == (then.policy, then.limit_bytes)
    pinned = ""
    if objective.fixed is not None:
        pinned = "unpinned; " if objective.fixed.is_over else "pinned; "
    is_certain = held is Held.NOT and not tenant.trust.trusted
    if same and is_certain:
        return f"{pinned}unchanged: {_why_held(tenant, objective, Held.UNTRUSTED)}"
    if held is not Held.NOT and same:
        return f"{pinned}unchanged: {_why_held(tenant, objective, held)}"
    if same:
        return f"{pinned}unchanged: no change is worth its cost"
    changes = []
    if now.policy != then.policy:
        changes.append(f"{now.policy} -> {then.policy}")
    if now.limit_bytes != then.limit_bytes:
        changes.append(f"{human_bytes(now.limit_bytes)} -> {human_bytes(then.limit_bytes)}")
    if held in UNPREDICTABLE:
        why = _why_held(tenant, objective, held)
        return f"{pinned}{', '.join(changes)}: no prediction, {why}"
    if is_certain:
        hits = 100 * (1 - now.miss_ratio)
        why = _why_held(tenant, objective, Held.UNTRUSTED)
        told = f"it hits {hits:.2g}%, and no more can be lost"
        if then.limit_bytes > now.limit_bytes:
            told = f"towards its first memory of {human_bytes(tenant.first_bytes)}"
        return f"{pinned}{', '.join(changes)}: {told}; {why}"
    return (
        f"{pinned}{', '.join(changes)}: miss ratio {now.miss_ratio:.4f} -> {then.miss_ratio:.4f}, "
        f"{number(now.throughput_ops)} -> {number(then.throughput_ops)} ops/s predicted"
    )


def _kept_ops(problem: Problem, seen: Outlook) -> list[float]:
    """Return the throughput that each tenant is to keep, under the load of `seen`.

    0 for a tenant that keeps nothing.
    """
    first = problem.model.ops(problem.first_miss, seen.load.wait_us)
    found: list[float] = np.where(problem.is_kept, problem.keep * first, 0.0).tolist()
    return found


def _overcommitted(problem: Problem) -> tuple[str, ...]:
    if problem.over_bytes > 0:
        return (f"{BEYOND} {human_bytes(problem.over_bytes)}: every other tenant gets its minimum",)
    return (OVERCOMMITTED,) if problem.widened else ()


def plan(snapshot: Snapshot, objectives: Objectives, config: Config) -> Plan:
    """Return the plan for one node. The same arguments give the same plan.

    Raises InfeasibleError if the least memory of the tenants that may be changed exceeds the
    budget, and InputError if the allocator does not exist. The limits of held tenants count as they
    are, even if they exceed the budget.
    """
    asked = Asked.of(snapshot, objectives)
    tenants, stated, held = asked.tenants, asked.objectives, asked.held
    problem, seen = _planned(snapshot, asked, config, frozenset((Held.NOT,)))
    names = [tenant.policy for tenant in tenants]
    unchanged = outlook(problem, problem.unchanged())
    present = _settings(problem, asked, unchanged, names)
    pinned = [one.policy or name for one, name in zip(asked.fixed, names, strict=True)]
    planned = _settings(problem, asked, seen, pinned)
    disobeyed = map(_disobeyed, tenants, stated, held, planned)
    kept = _kept_ops(problem, seen), _kept_ops(problem, unchanged)
    actions = tuple(
        Action(
            cgroup=tenant.cgroup,
            policy=then.policy,
            limit_bytes=then.limit_bytes,
            miss_ratio=then.miss_ratio,
            throughput_ops=then.throughput_ops,
            present=now,
            held=why,
            why=_why(tenant, objective, why, now, then),
            kept_ops=kept_then,
            kept_now_ops=kept_now,
        )
        for tenant, objective, why, now, then, kept_then, kept_now in zip(
            tenants, stated, held, present, planned, *kept, strict=True
        )
    )
    bound = seen.allocation.bound
    unallocated = snapshot.node.shared_bytes - int(seen.allocation.limit_bytes.sum())
    return Plan(
        epoch=snapshot.epoch,
        node=snapshot.node.name,
        allocator=config.allocator,
        actions=actions,
        slos=slo_outcomes(problem, seen, asked),
        objective=problem.in_ops(seen.value),
        bound=None if bound is None else problem.in_ops(bound),
        device_wait_us=seen.load.wait_us,
        device_share=seen.device_iops / snapshot.device.capacity_iops,
        unallocated_bytes=max(0, unallocated),
        notes=(*_overcommitted(problem), *chain.from_iterable(disobeyed)),
    )
