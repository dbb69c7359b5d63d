# SPDX-License-Identifier: Apache-2.0
"""Changes of policy of one tenant: what must hold before one, and what follows its trial."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cachepilot.control.collect import Seen
from cachepilot.control.counters import Sample
from cachepilot.control.decisions import Decision, Event, Reading, Setting
from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.memory_course import FAR_BARS, Anchor, Course, doubled_s
from cachepilot.control.policy_trial import Outcome, PolicyTrial, advance
from cachepilot.control.predict import ops_at, predicted
from cachepilot.control.trial_budget import TrialBudget
from cachepilot.control.verdict import baseline, promise_noise_pct
from cachepilot.planner.snapshot import Device
from cachepilot.quick_records import quickly_made

HOUR_S = 3600.0
SAMPLES_KEPT = 64
RESTORE_EFFECTS = 4
"""Times `effect_s` after which a policy that does not come back is given up."""


@dataclass
class Tried:
    """A policy that was taken back: what curves said then, and until when that is remembered."""

    until_s: float
    curves: dict[str, float]


@dataclass
class TenantState:
    """What is remembered of one tenant; it outlives a restart."""

    cgroup_id: int
    trial: PolicyTrial | None = None
    restore: str | None = None
    restore_waited_s: float = 0.0
    restore_is_late: bool = False
    cool_until_s: float = 0.0
    cool_count: int = 0
    cool_policy: str = ""
    cool_curves: dict[str, float] = field(default_factory=dict)
    cool_miss: float = 0.0
    cool_was_free: bool = False
    tried: dict[str, Tried] = field(default_factory=dict)
    swaps_s: list[float] = field(default_factory=list)
    ended_s: float | None = None
    ended_phase: int = 0
    told_phase: int | None = None
    fell_back_s: float | None = None
    fell_back_count: int = 0
    budget: TrialBudget = field(default_factory=TrialBudget)
    limit_cool_until_s: float = 0.0
    limit_cool_count: int = 0
    course: Course | None = None
    anchor: Anchor | None = None
    held_first_bytes: int = 0
    recommended: tuple[str, int] | None = None

    def give_back(self, policy: str, is_late: bool = False) -> None:
        """Restores a policy; where that `is_late` another one may yet come that was ordered."""
        self.restore, self.restore_waited_s, self.restore_is_late = policy, 0.0, is_late

    def move_back(self, seconds: float, config: GuardConfig) -> None:
        """With a clock that went back so far; no trial is judged by it."""
        self.cool_until_s -= seconds
        self.limit_cool_until_s -= seconds
        self.swaps_s = [one - seconds for one in self.swaps_s]
        for tried in self.tried.values():
            tried.until_s -= seconds
        self.ended_s = None if self.ended_s is None else self.ended_s - seconds
        self.fell_back_s = None if self.fell_back_s is None else self.fell_back_s - seconds
        if self.course is not None:
            self.course.time_s -= seconds
        if self.trial is not None:
            self.trial.move_back(seconds, config)


@dataclass
class Recent:
    """What is remembered of one tenant while the controller runs."""

    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))
    proposed: str = ""
    proposed_count: int = 0
    frozen: bool = False
    phase_age: int = 1 << 30
    ordered: str = ""


@quickly_made
@dataclass(frozen=True)
class Look:
    """One tenant in one cycle; `named` are the policies that it may have, all when empty."""

    seen: Seen
    elapsed_s: float
    time_s: float
    device: Device
    wait_us: float
    named: tuple[str, ...]
    refused: str | None = None

    @property
    def allowed(self) -> frozenset[str]:
        """The policies that it may have: those named, or all that are known of it."""
        measured = self.seen.measured
        known = () if measured is None else measured.curves.policies
        return frozenset(self.named or (*known, self.seen.tenant.policy))


def count_swap(state: TenantState, time_s: float) -> None:
    """A change of policy is ordered."""
    state.swaps_s = [one for one in state.swaps_s if time_s - one < HOUR_S]
    state.swaps_s.append(time_s)


def may_swap(state: TenantState, time_s: float, config: GuardConfig) -> bool:
    """Whether a trial may begin: it must be possible to take it back within the bound."""
    recent = sum(time_s - one < HOUR_S for one in state.swaps_s)
    return recent + 2 <= config.swaps_per_hour


def _cool(state: TenantState, policy: str, look: Look, config: GuardConfig) -> None:
    state.cool_count += 1
    state.cool_policy = policy
    state.cool_until_s = look.time_s + doubled_s(state.cool_count, config)
    state.cool_curves = curves_at(look.seen)
    state.cool_miss = look.seen.tenant.indicators.miss_ratio
    state.tried[policy] = Tried(look.time_s + config.cool_down_max_s, state.cool_curves)


def curves_at(seen: Seen) -> dict[str, float]:
    """The miss ratio of every policy at the present limit."""
    measured = seen.measured
    if measured is None:
        return {}
    limit = seen.limit_bytes
    return {name: measured.miss_at(name, limit) or 0.0 for name in measured.curves.policies}


def is_new_phase(
    then: Mapping[str, float], seen: Seen, config: GuardConfig, names: Iterable[str] | None = None
) -> bool:
    """Whether curves moved beyond their error bars since they said what `then` says.

    Those of `names` alone, where some are given.
    """
    measured, limit, least = seen.measured, seen.limit_bytes, 2 * config.miss_tolerance
    if measured is None:
        return False
    for name in then if names is None else names:
        miss = then.get(name)
        if miss is not None and measured.has_moved(name, limit, miss, FAR_BARS, least):
            return True
    return False


def has_moved_on(state: TenantState, seen: Seen, config: GuardConfig) -> bool:
    """Whether the workload changed since a policy was taken back.

    Curves that were wrong once may say so at once; after that, what is measured must say so too.
    """
    measured = abs(seen.tenant.indicators.miss_ratio - state.cool_miss) > 2 * config.miss_tolerance
    return (state.cool_count <= 1 or measured) and is_new_phase(state.cool_curves, seen, config)


def was_tried(
    state: TenantState, policy: str, seen: Seen, time_s: float, config: GuardConfig
) -> bool:
    """Whether a policy was taken back while its curve, and the present one, said the same."""
    tried = state.tried.get(policy)
    if tried is None:
        return False
    names = (policy, seen.tenant.policy)
    if time_s < tried.until_s and not is_new_phase(tried.curves, seen, config, names):
        return True
    del state.tried[policy]
    return False


def end(
    state: TenantState, cgroup: str, outcome: Outcome, look: Look, config: GuardConfig
) -> Decision:
    """Ends the trial; its baseline is restored when the outcome says so."""
    trial = state.trial
    assert trial is not None
    state.trial, state.ended_s = None, look.time_s
    state.ended_phase = trial.phase
    if outcome.back:
        state.budget.spend(trial.lost_s)
        if outcome.blamed:
            ran_s = look.time_s - trial.started_s
            state.cool_was_free = trial.lost_s <= ran_s * config.tolerance_pct / 100
            _cool(state, trial.to_policy, look, config)
        if look.seen.tenant.policy != trial.from_policy:
            state.give_back(trial.from_policy)
            count_swap(state, look.time_s)
        elif trial.effective_s is None:
            # A node that was told no, or told nothing, may attach it all the same.
            state.give_back(trial.from_policy, is_late=True)
    elif outcome.event is Event.KEPT:
        state.cool_count = 0
    return trial.decision(cgroup, look.time_s, outcome.event, outcome.why)


def _restoring(state: TenantState, look: Look, config: GuardConfig) -> Decision | None:
    """Waits for an earlier policy; says so when the node does not bring it back."""
    now, wanted = look.seen.tenant.policy, state.restore
    assert wanted is not None
    state.restore_waited_s += look.elapsed_s
    if now == wanted:
        if not state.restore_is_late or state.restore_waited_s > config.effect_s:
            state.restore = None
        return None
    state.restore_is_late = False
    if state.restore_waited_s <= RESTORE_EFFECTS * config.effect_s:
        return None
    state.restore = None
    limit = look.seen.limit_bytes
    return Decision(
        time_s=look.time_s,
        cgroup=look.seen.tenant.cgroup,
        event=Event.ABANDONED,
        before=Setting(now, limit),
        after=Setting(wanted, limit),
        why=f"{wanted} was to come back, and did not in {state.restore_waited_s:.0f} s",
    )


def step(state: TenantState, look: Look, config: GuardConfig) -> Decision | None:
    """Lets one snapshot pass for what is under way; returns how a trial ended if it did."""
    seen = look.seen
    if state.restore is not None:
        return _restoring(state, look, config)
    trial = state.trial
    if trial is None:
        return None
    if trial.effective_s is None and look.refused is not None:
        outcome: Outcome | None = Outcome(Event.REFUSED, look.refused, back=True)
    else:
        outcome = advance(trial, seen, look.elapsed_s, look.allowed, config)
    return None if outcome is None else end(state, seen.tenant.cgroup, outcome, look, config)


@quickly_made
@dataclass(frozen=True)
class Proposal:
    """A change of policy that curves speak for, at the present limit."""

    policy: str
    before: Reading
    after: Reading
    is_far: bool

    def gain_pct(self) -> float:
        """Throughput, as predicted."""
        return 100 * ((self.after.ops or 0.0) / max(self.before.ops or 0.0, 1e-9) - 1)


def proposal(look: Look, policy: str, config: GuardConfig) -> Proposal | None:
    """What curves say of another policy at the present limit; None when it is no better there."""
    seen, limit = look.seen, look.seen.limit_bytes
    before = predicted(seen, look.device, look.wait_us, seen.tenant.policy, limit)
    after = predicted(seen, look.device, look.wait_us, policy, limit)
    if seen.measured is None or before is None or after is None:
        return None
    gain = (before.miss_ratio or 0.0) - (after.miss_ratio or 0.0)
    if gain <= 0:
        return None
    bars = seen.measured.error_at(seen.tenant.policy, limit) + seen.measured.error_at(policy, limit)
    return Proposal(policy, before, after, gain > FAR_BARS * bars + config.miss_tolerance)


def _most_gain_pct(look: Look) -> float:
    """What it would be worth not to miss at all, by what is measured, whatever curves say."""
    demand, miss = look.seen.tenant.demand, look.seen.tenant.indicators.miss_ratio
    here, most = (ops_at(demand, look.device, look.wait_us, one) for one in (miss, 0.0))
    return 100 * (most / here - 1)


def may_begin(
    state: TenantState, recent: Recent, look: Look, wanted: Proposal, config: GuardConfig
) -> bool:
    """Whether a trial of what curves speak for may begin now."""
    seen = look.seen
    same = recent.proposed == wanted.policy
    recent.proposed_count = recent.proposed_count + 1 if same else 1
    recent.proposed = wanted.policy
    needed = 1 if wanted.is_far else config.confirm_intervals
    if recent.proposed_count < needed or wanted.gain_pct() < config.min_gain_pct:
        return False
    # What was learnt of another phase must not hold back what this one asks for.
    new_phase = wanted.is_far and seen.wire.phase != state.ended_phase
    if not state.budget.may_begin(config, overdraw=new_phase):
        return False
    if was_tried(state, wanted.policy, seen, look.time_s, config):
        return False
    if look.time_s < state.cool_until_s and not new_phase:
        other = wanted.is_far and wanted.policy != state.cool_policy
        # Who lost nothing by the last trial does not wait for another policy that promises much.
        if not (other and (state.cool_was_free or has_moved_on(state, seen, config))):
            return False
    dwells = state.ended_s is not None and look.time_s - state.ended_s < config.dwell_s
    if dwells and not wanted.is_far:
        return False
    return may_swap(state, look.time_s, config) and _most_gain_pct(look) >= config.min_gain_pct


def can_be_told(recent: Recent, wanted: Proposal, config: GuardConfig) -> bool:
    """Whether so much more would be seen among the tenant's own noise."""
    return wanted.gain_pct() >= promise_noise_pct(tuple(recent.samples), config)


def begin(
    state: TenantState, recent: Recent, look: Look, wanted: Proposal, config: GuardConfig
) -> Decision | None:
    """Begins a trial; None while there are too few intervals to compare it with."""
    tenant = look.seen.tenant
    before = baseline(tuple(recent.samples), config)
    if before is None:
        return None
    recent.proposed, recent.proposed_count = "", 0
    from_miss, ahead_miss = wanted.before.miss_ratio or 0.0, 0.0
    if look.seen.measured is not None:
        bar = look.seen.measured.error_at(tenant.policy, tenant.limit_bytes)
        far = abs(from_miss - before.miss) > FAR_BARS * bar + 2 * config.miss_tolerance
        ahead_miss = from_miss - before.miss if far else 0.0
    state.trial = PolicyTrial(
        from_policy=tenant.policy,
        to_policy=wanted.policy,
        limit_bytes=tenant.limit_bytes,
        started_s=look.time_s,
        baseline=before,
        predicted=wanted.after,
        from_miss=from_miss,
        ahead_miss=ahead_miss,
        phase=look.seen.wire.phase,
        may_lose_s=state.budget.may_lose_s(config),
        is_far=wanted.is_far,
    )
    count_swap(state, look.time_s)
    why = (
        f"miss ratio {wanted.before.miss_ratio:.4f} -> {wanted.after.miss_ratio:.4f} "
        f"predicted, {'far beyond' if wanted.is_far else 'confirmed within'} error bars"
    )
    return state.trial.decision(tenant.cgroup, look.time_s, Event.TRIAL, why)
