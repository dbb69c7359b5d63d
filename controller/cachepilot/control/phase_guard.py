# SPDX-License-Identifier: Apache-2.0
"""A policy whose phase is over: the kernel's default until the curves of the next one are known.

A policy was chosen by the curves of one phase. In another it has no claim, and what it kept may be
worth nothing: policies that resist scans keep it for ever, and so do those that are swapped in
later and find it there. The default drops what nobody reads within one turnover of the cache.
"""

from collections.abc import Sequence
from statistics import fmean, pstdev

from cachepilot.control.collect import DEFAULT
from cachepilot.control.decisions import Decision, Event, Reading, Setting
from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.memory_course import doubled_s
from cachepilot.control.policy_guard import Look, Recent, TenantState, count_swap, may_swap
from cachepilot.planner.objectives import Mode, Objective

FRESH_INTERVALS = 3
"""After a phase was told; before that many it may have gone unnoticed."""
WORSE_MISS = 0.1
"""A miss ratio that rose by so much, beyond its noise, is another one, whatever the tolerance."""


def _before(ratios: Sequence[float], config: GuardConfig) -> Sequence[float]:
    """Miss ratios before the phase, of those up to now."""
    return ratios[: -FRESH_INTERVALS - 1][-config.baseline_intervals :]


def is_over(ratios: Sequence[float], now: float, config: GuardConfig) -> bool:
    """Whether a miss ratio is far above those before the phase began, beyond their noise."""
    before = _before(ratios, config)
    if not before:
        return False
    return now > fmean(before) + WORSE_MISS + config.noise_sigmas * pstdev(before)


def note_phase(state: TenantState, recent: Recent, look: Look) -> None:
    """Counts the intervals since a phase was told."""
    phase = look.seen.wire.phase
    recent.phase_age += 1
    if state.told_phase is None or phase == state.told_phase:
        state.told_phase = phase
        return
    state.told_phase, recent.phase_age = phase, 0


def fall_back(
    state: TenantState, recent: Recent, look: Look, objective: Objective, config: GuardConfig
) -> Decision | None:
    """Returns a tenant to the default when a phase began that its policy is much worse in.

    Not on a load that does so again and again: the time in between doubles.
    """
    seen, tenant, sample = look.seen, look.seen.tenant, look.seen.sample
    busy = state.trial is not None or state.restore is not None
    if busy or tenant.policy == DEFAULT or sample is None or recent.phase_age > FRESH_INTERVALS:
        return None
    free = objective.mode is Mode.AUTO and objective.fixed is None and DEFAULT in look.allowed
    if not free or tenant.trust.trusted or not may_swap(state, look.time_s, config):
        return None
    if state.fell_back_s is not None:
        waited_s = look.time_s - state.fell_back_s
        if waited_s < doubled_s(state.fell_back_count, config):
            return None
        if waited_s > config.cool_down_max_s:
            state.fell_back_count = 0
    ratios = [one.miss_ratio for one in recent.samples]
    if not is_over(ratios, sample.miss_ratio, config):
        return None
    before = fmean(_before(ratios, config))
    state.fell_back_s, state.fell_back_count = look.time_s, state.fell_back_count + 1
    state.give_back(DEFAULT)
    count_swap(state, look.time_s)
    return Decision(
        time_s=look.time_s,
        cgroup=tenant.cgroup,
        event=Event.PHASE_OVER,
        before=Setting(tenant.policy, seen.limit_bytes),
        after=Setting(DEFAULT, seen.limit_bytes),
        why=f"the phase that {tenant.policy} was chosen for is over: "
        f"miss ratio {before:.4f} -> {sample.miss_ratio:.4f}",
        baseline=Reading(None, before),
        measured=Reading(sample.ops, sample.miss_ratio),
    )
