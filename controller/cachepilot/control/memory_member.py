# SPDX-License-Identifier: Apache-2.0
"""A tenant that joins memory on trial, and what is predicted of it."""

from collections.abc import Collection
from dataclasses import dataclass

from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.memory_course import Anchor, anchored, mark_of
from cachepilot.control.memory_gain import Ahead
from cachepilot.control.memory_trial import Member, meets_slos
from cachepilot.control.predict import predicted
from cachepilot.control.standing import NOBODY, Standing
from cachepilot.control.tenant_state import Recent, TenantState
from cachepilot.control.verdict import Stats, baseline
from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.planned import Action, Plan, SloState
from cachepilot.sense.collect import Collected, Seen


@dataclass(frozen=True)
class MemoryLook:
    """One cycle of a node. `busy` are tenants whose limits must not change now.

    Of them `ordered_limits` are those whose limit is an operator's.
    `ahead` says where memory alone is going in many cycles. `standing` is how promises do.
    After a gap, of which no snapshot tells, nothing is judged or begun. `away` are tenants that are
    missing from the snapshot and may come back.
    """

    collected: Collected
    plan: Plan
    objectives: Objectives
    elapsed_s: float
    step_bytes: int
    busy: Collection[str]
    ahead: Ahead
    ordered_limits: Collection[str] = ()
    standing: Standing = NOBODY
    may_begin: bool = True
    is_gap: bool = False
    away: Collection[str] = ()

    @property
    def time_s(self) -> float:
        """The node's time."""
        return self.collected.time_s


def _outbid(look: MemoryLook) -> set[str]:
    """Tenants whose SLO the plan itself gives up."""
    lost = (SloState.OUTBID, SloState.UNATTAINABLE)
    return {one.cgroup for one in look.plan.slos if one.state in lost}


def _anchor(
    look: MemoryLook, seen: Seen, before: Stats, end_bytes: int, earlier: Anchor | None,
    config: GuardConfig,
) -> Anchor:  # fmt: skip
    """That of the first of moves that followed each other, for a limit of `end_bytes`."""
    found = anchored(earlier, seen, config)
    if found is not None:
        return found.on_to(end_bytes)
    device, wait_us = look.collected.snapshot.device, look.plan.device_wait_us
    promised = predicted(seen, device, wait_us, seen.tenant.policy, end_bytes)
    miss = None if promised is None else promised.miss_ratio
    curve = [] if seen.measured is None else seen.measured.points(seen.tenant.policy)
    promised_miss = before.miss if miss is None else miss
    return Anchor(before, seen.limit_bytes, promised_miss, mark_of(seen), curve)


def member_of(
    look: MemoryLook,
    action: Action,
    recent: Recent,
    state: TenantState,
    end_bytes: int,
    config: GuardConfig,
    is_large: bool = False,
) -> Member | None:
    """A tenant whose limit begins to move; None while there is too little to compare it with.

    `end_bytes` is the limit where it will be in the end, as far as that is known. See `MemoryTrial`
    for `is_large`.
    """
    seen = look.collected.seen[action.cgroup]
    before = baseline(tuple(recent.samples), config)
    if before is None:
        return None
    objective = look.objectives.of(action.cgroup)
    p99_us = seen.tenant.indicators.latency_p99_us
    found = Member(
        cgroup_id=seen.wire.cgroup_id,
        policy=seen.tenant.policy,
        from_bytes=seen.limit_bytes,
        to_bytes=action.limit_bytes,
        baseline=before,
        predicted=before.reading,
        error_bar=0.0,
        weight=objective.weight,
        slo_met=meets_slos(objective, before, p99_us),
    )
    predict_member(found, look, seen)
    if found.is_donor:
        earlier = None if is_large and not objective.has_slo else state.anchor
        found.anchor = _anchor(look, seen, before, min(end_bytes, found.to_bytes), earlier, config)
    return found


def predict_member(member: Member, look: MemoryLook, seen: Seen) -> None:
    """Predicts anew what becomes of it at the limit where it is going."""
    device, wait_us = look.collected.snapshot.device, look.plan.device_wait_us
    found = predicted(seen, device, wait_us, member.policy, member.to_bytes)
    if found is not None and seen.measured is not None:
        here = predicted(seen, device, wait_us, member.policy, member.from_bytes)
        member.predicted = found
        member.predicted_times = (found.ops or 0.0) / here.ops if here and here.ops else 1.0
        member.error_bar = seen.measured.error_at(member.policy, member.to_bytes)
    member.may_miss_slo = seen.tenant.cgroup in _outbid(look)
