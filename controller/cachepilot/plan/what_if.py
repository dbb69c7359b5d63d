# SPDX-License-Identifier: Apache-2.0
"""`what_if`: the plan for another budget, or other policies, limits or SLOs.

A pure function like `plan`, which computes the answer. It changes nothing.
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
from cachepilot.domain.objectives.pins import fixed, require_possible_limit
from cachepilot.domain.planned import Action, Held, Plan, SloOutcome
from cachepilot.domain.slos import SloStatus
from cachepilot.domain.snapshot import Snapshot, Tenant
from cachepilot.domain.units import BYTES_MAX
from cachepilot.domain.what_if import WhatIf, WhatIfAnswer, WhatIfTenant
from cachepilot.errors import InputError
from cachepilot.plan.plan import plan
from cachepilot.plan.problem.asked import UNPREDICTED, Asked
from cachepilot.plan.problem.config import Config
from cachepilot.plan.problem.limits import least_limits
from cachepilot.plan.slo_outcomes import measured, meets
from cachepilot.sizes import human_bytes, pages_down, pages_up

SETTLED_ROUNDS = 16
"""In a settled state allocation and device load get at least this many rounds to agree."""
NOT_PLANNED = {
    Held.UNTRUSTED: "the model is not reliable yet: held at the current setting",
    Held.UNKNOWN_POLICY: "no curve of the policy in force: held at the current setting",
    Held.NO_CURVES: "no curves yet: held at the current setting",
    Held.OBSERVE: "mode observe: held at the current setting",
    Held.RECOMMEND: "mode recommend: held at the current setting",
    Held.YIELDED: "another program sets the limit: held at the current setting",
}
"""Why a plan keeps the setting of tenants, by the reason `held`.

These tenants count with their measured miss ratio.
"""
NAMES_MAX = 5
"""The most tenants that a note lists by name."""
FREE = frozenset((Held.NOT,))


def settled(config: Config) -> Config:
    """Return the configuration whose plan is the state that many cycles converge to.

    Nothing bounds the movement of one cycle, and changes cost nothing, since their cost does not
    matter in the long run.
    """
    rounds = max(config.rounds, SETTLED_ROUNDS)
    return replace(config, movement_share=1.0, switch_cost=0.0, move_cost=0.0, rounds=rounds)


def _names(names: list[str]) -> str:
    more = len(names) - NAMES_MAX
    return ", ".join(names[:NAMES_MAX]) + (f" and {more} more" if more > 0 else "")


def _tenant(snapshot: Snapshot, key: str, cgroup: str) -> Tenant:
    """Find the tenant that a key of the question names; an InputError lists the tenants."""
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
    """Return the objective with another SLO of throughput.

    A tenant that no objective matches gets mode `auto`.
    """
    mode = Mode.AUTO if objective is UNNAMED else objective.mode
    return replace(objective, pattern=cgroup, throughput_ops=ops, mode=mode)


def asked_so(snapshot: Snapshot, objectives: Objectives, question: WhatIf) -> Objectives:
    """Return the objectives with the changes of the question.

    An InputError names the key and the allowed range.
    """
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
        most = pages_down(snapshot.node.budget_bytes)
        require_possible_limit(f"what-if: {cgroup}", limit, pages_up(least), most)
        base = changed.get(cgroup) or objectives.of(cgroup)
        changed[cgroup] = fixed(base, cgroup, Fixed(limit_bytes=limit))
    rest = (one for one in objectives.pinned if one.pattern not in changed)
    return replace(objectives, pinned=(*changed.values(), *rest))


def _require_room(snapshot: Snapshot, objectives: Objectives, question: WhatIf) -> None:
    """Raise InputError if the budget or the limits of the question are not possible.

    If the question changes no memory, a node that exceeds its budget is left to the plan.
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
        for _ in range(64):  # If memory_min is a share of the budget, it grows with the budget.
            more = int(least_limits(asked, FREE, needed).sum())
            if more <= needed:
                break
            needed = more
        allowed = f"at least {needed}, what tenants must have" if needed <= BYTES_MAX else "none"
        raise InputError(f"what-if: budget_bytes: {budget} (allowed: {allowed})")


def slo_view(slo: SloOutcome, tenant: Tenant) -> SloStatus:
    """An SLO with its present measurement and the prediction of a plan."""
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
        predicted=action.held not in UNPREDICTED,
    )


def _notes(planned: Plan) -> list[str]:
    """The notes of the plan, and one note for each reason why tenants keep their setting."""
    notes = list(planned.notes)
    for why in Held:
        names = [action.cgroup for action in planned.actions if action.held is why]
        if why is not Held.NOT and names:
            notes.append(f"{NOT_PLANNED[why]}, except for pins: {_names(names)}")
    return notes


def what_if(
    snapshot: Snapshot, objectives: Objectives, config: Config, question: WhatIf
) -> WhatIfAnswer:
    """Return what would be planned for the node of the snapshot with the changes of the question.

    Policies and limits of the question apply exactly, in every mode. Raises InputError, which names
    the key and what is allowed, if the question is not possible. Raises InfeasibleError if the
    least memory of tenants does not fit even without the question.
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
