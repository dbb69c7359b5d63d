# SPDX-License-Identifier: Apache-2.0
"""`what_if`: what would be planned if budget, policies, limits or SLOs were others.

A pure function like `plan`, which answers it: nothing is changed.
"""

from dataclasses import replace

from cachepilot.domain.objectives.objective import (
    UNNAMED,
    UPPER,
    Fixed,
    Mode,
    Objective,
    Objectives,
)
from cachepilot.domain.objectives.pins import fixed, require_whole_pages
from cachepilot.domain.planned import Action, Held, Plan, SloOutcome
from cachepilot.domain.slos import SloStatus
from cachepilot.domain.snapshot import Snapshot, Tenant
from cachepilot.domain.units import BYTES_MAX
from cachepilot.domain.what_if import WhatIf, WhatIfAnswer, WhatIfTenant
from cachepilot.errors import InputError
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.asked import Asked
from cachepilot.plan.problem.config import Config
from cachepilot.plan.problem.limits import least_limits
from cachepilot.plan.slo_outcomes import measured, meets
from cachepilot.sizes import human_bytes, pages_up

SETTLED_ROUNDS = 16
"""The least number of rounds that allocation and device get to agree in a settled state."""
NOT_PLANNED = {
    Held.UNTRUSTED: "the model is not reliable yet: held at the current setting",
    Held.UNKNOWN_POLICY: "no curve of the policy in force: held at the current setting",
    Held.NO_CURVES: "no curves yet: held at the current setting",
    Held.OBSERVE: "mode observe: held at the current setting",
    Held.RECOMMEND: "mode recommend: held at the current setting",
    Held.YIELDED: "another program sets the limit: held at the current setting",
}
"""Why a plan keeps the setting of tenants, which count at their measured miss ratio."""
NAMES_MAX = 5
"""Of so many tenants a note gives the names."""
FREE = frozenset((Held.NOT,))


def settled(config: Config) -> Config:
    """The configuration whose plan is the state that many cycles lead to.

    Nothing bounds the movement of one cycle, and a change costs nothing in the long run.
    """
    rounds = max(config.rounds, SETTLED_ROUNDS)
    return replace(config, movement_share=1.0, switch_cost=0.0, move_cost=0.0, rounds=rounds)


def _names(names: list[str]) -> str:
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def _tenant(snapshot: Snapshot, key: str, cgroup: str) -> Tenant:
    """The tenant that a key of the question names; raises InputError that lists those there are."""
    for tenant in snapshot.tenants:
        if tenant.cgroup == cgroup:
            return tenant
    there = _names(sorted(tenant.cgroup for tenant in snapshot.tenants)) or "none"
    raise InputError(f"what-if: {key}: {cgroup!r} is no tenant of this node (allowed: {there})")


def _require_policy(tenant: Tenant, policy: str) -> None:
    known = () if tenant.curves is None else tenant.curves.policies
    if policy not in known:
        allowed = ", ".join(known) or "none, for it has no curves yet"
        where = f"what-if: policy: {tenant.cgroup}"
        raise InputError(f"{where}: {policy!r} has no curve (allowed: {allowed})")


def _require_ops(cgroup: str, ops: float) -> None:
    most = UPPER["throughput_ops"]
    if not 0 < ops <= most:
        where = f"what-if: throughput_ops: {cgroup}"
        raise InputError(f"{where}: {ops} (allowed: above 0 to {most:g} operations per second)")


def _with_budget(snapshot: Snapshot, question: WhatIf) -> Snapshot:
    name, budget = snapshot.node.name, question.budget_bytes
    if question.node != name:
        raise InputError(f"what-if: node: {question.node!r} (allowed: {name})")
    if budget is None:
        return snapshot
    if not 0 < budget <= BYTES_MAX:
        raise InputError(f"what-if: budget_bytes: {budget} (allowed: 1 to {BYTES_MAX})")
    return replace(snapshot, node=replace(snapshot.node, budget_bytes=budget))


def _with_slo(objective: Objective, cgroup: str, ops: float) -> Objective:
    """The objective with another throughput SLO; a tenant that nobody named is then in `auto`."""
    mode = Mode.AUTO if objective is UNNAMED else objective.mode
    return replace(objective, pattern=cgroup, throughput_ops=ops, mode=mode)


def asked_so(snapshot: Snapshot, objectives: Objectives, question: WhatIf) -> Objectives:
    """The objectives under which the question is so; raises InputError naming key and range."""
    changed: dict[str, Objective] = {}
    for cgroup, ops in question.throughput_ops.items():
        _require_ops(_tenant(snapshot, "throughput_ops", cgroup).cgroup, ops)
        changed[cgroup] = _with_slo(objectives.of(cgroup), cgroup, ops)
    for cgroup, policy in question.policy.items():
        _require_policy(_tenant(snapshot, "policy", cgroup), policy)
        base = changed.get(cgroup) or objectives.of(cgroup)
        changed[cgroup] = fixed(base, cgroup, Fixed(policy=policy))
    for cgroup, limit in question.limit_bytes.items():
        least = max(1, _tenant(snapshot, "limit_bytes", cgroup).floor_bytes)
        most = snapshot.node.budget_bytes
        require_whole_pages(f"what-if: limit_bytes: {cgroup}", limit, pages_up(least), most)
        base = changed.get(cgroup) or objectives.of(cgroup)
        changed[cgroup] = fixed(base, cgroup, Fixed(limit_bytes=limit))
    rest = (one for one in objectives.pinned if one.pattern not in changed)
    return replace(objectives, pinned=(*changed.values(), *rest))


def _require_room(snapshot: Snapshot, objectives: Objectives, question: WhatIf) -> None:
    """Raises InputError when budget or limits of the question cannot be.

    Where nothing about memory is asked, a node that is over its budget is the plan's affair.
    """
    asked, budget = Asked.of(snapshot, objectives), snapshot.node.budget_bytes
    needed = int(least_limits(asked, FREE, budget).sum())
    if needed <= budget:
        return
    pinned = sum(question.limit_bytes.values())
    if pinned and needed - pinned < budget:
        raise InputError(
            f"what-if: limit_bytes: {human_bytes(pinned)} in all (allowed: at most "
            f"{budget - needed + pinned} bytes, what the least of the others leaves of the budget)"
        )
    if question.budget_bytes is not None:
        for _ in range(64):  # A share of the budget as memory_min grows with it.
            more = int(least_limits(asked, FREE, needed).sum())
            if more <= needed:
                break
            needed = more
        allowed = f"at least {needed}, what tenants must have" if needed <= BYTES_MAX else "none"
        raise InputError(f"what-if: budget_bytes: {budget} (allowed: {allowed})")


def slo_view(slo: SloOutcome, tenant: Tenant) -> SloStatus:
    """An SLO as it is measured now, and as a plan is predicted to meet it."""
    now = measured(slo.kind, tenant)
    return SloStatus(
        kind=slo.kind,
        target=slo.target,
        measured=now,
        predicted=slo.value,
        attainable=slo.attainable,
        attainable_ops=slo.attainable_ops,
        state=str(slo.state),
        met=None if now is None else meets(slo.kind, now, slo.target),
        attainment=None,
        why=slo.why,
    )


def _row(action: Action, slos: list[SloStatus]) -> WhatIfTenant:
    return WhatIfTenant(
        cgroup=action.cgroup,
        policy=action.present.policy,
        limit_bytes=action.present.limit_bytes,
        miss_ratio=action.present.miss_ratio,
        throughput_ops=action.present.throughput_ops,
        to_policy=action.policy,
        to_limit_bytes=action.limit_bytes,
        to_miss_ratio=action.miss_ratio,
        to_throughput_ops=action.throughput_ops,
        slos=slos,
    )


def _notes(planned: Plan) -> list[str]:
    """What the plan notes, and the tenants that keep their setting."""
    notes = list(planned.notes)
    for why in Held:
        names = [action.cgroup for action in planned.actions if action.held is why]
        if why is not Held.NOT and names:
            notes.append(f"{NOT_PLANNED[why]}, except for pins: {_names(names)}")
    return notes


def what_if(
    snapshot: Snapshot, objectives: Objectives, config: Config, question: WhatIf
) -> WhatIfAnswer:
    """What would be planned for the node of the snapshot if the question were so.

    Policies and limits of the question hold exactly, in every mode. Raises InputError naming the
    key and what is allowed for what cannot be, InfeasibleError when what tenants must have does
    not fit even as things are.
    """
    seen = _with_budget(snapshot, question)
    asked = asked_so(seen, objectives, question)
    _require_room(seen, asked, question)
    planned = plan(seen, asked, settled(config) if question.settled else config)
    tenants = {tenant.cgroup: tenant for tenant in seen.tenants}
    slos: dict[str, list[SloStatus]] = {cgroup: [] for cgroup in tenants}
    for slo in planned.slos:
        slos[slo.cgroup].append(slo_view(slo, tenants[slo.cgroup]))
    return WhatIfAnswer(
        node=planned.node,
        tenants=[_row(action, slos[action.cgroup]) for action in planned.actions],
        unallocated_bytes=planned.unallocated_bytes,
        device_share=planned.device_share,
        notes=_notes(planned),
    )
