# SPDX-License-Identifier: Apache-2.0
"""Memory moved between the tenants of one node: steps, their trial, and the way back."""

from collections.abc import Mapping
from dataclasses import dataclass

from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.memory_course import doubled_s, is_far, turned
from cachepilot.control.memory_gain import (
    is_forced,
    promised_pct,
    rest,
    ways,
    worth_it,
)
from cachepilot.control.memory_march import goes_straight, is_urgent, planned, towards
from cachepilot.control.memory_member import MemoryLook, member_of, predict_member
from cachepilot.control.memory_return import go_back, holds_up
from cachepilot.control.memory_state import MemoryState
from cachepilot.control.memory_trial import (
    RESTARTS_MAX,
    SETTLED_INTERVALS,
    MemoryTrial,
    Phase,
    broken_slo,
    has_gained,
    is_judged,
    keeps_promise,
    observe,
    why_in_vain,
    why_kept,
    worse_donor,
    worse_sum,
)
from cachepilot.control.tenant_state import Recent, TenantState
from cachepilot.control.unconfirmed import why_over
from cachepilot.domain.decisions import Decision, Event
from cachepilot.domain.objectives.objective import Goal
from cachepilot.domain.planned import Action
from cachepilot.sizes import human_bytes


@dataclass(frozen=True)
class Blame:
    """Why memory goes back, and the one tenant whose limit did it, if it was one."""

    why: str
    cgroup: str | None = None


LARGE_PCT = 50.0
"""Throughput that is worth more than what donors were promised for earlier moves."""

Wanted = dict[str, int]


def _may_turn(trial: MemoryTrial, cgroup: str) -> bool:
    """Whether who was to get more may give after all: for an SLO that needs what it took."""
    return bool(trial.serves) and cgroup not in trial.serves


def _extend(
    trial: MemoryTrial,
    look: MemoryLook,
    moves: Mapping[str, Action],
    states: Mapping[str, TenantState],
    recents: Mapping[str, Recent],
    config: GuardConfig,
) -> Wanted:
    """Takes steps in: those of new members, and those that go on the way that was begun."""
    wanted: Wanted = {}
    for cgroup, action in moves.items():
        member = trial.members.get(cgroup)
        up = action.limit_bytes > action.present.limit_bytes
        limit = trial.step_of(action)
        if limit is None:
            continue
        if member is None:
            end = trial.ends.get(cgroup, action.limit_bytes)
            known = recents[cgroup], states[cgroup]
            member = member_of(look, action, *known, end, config, trial.is_large)
            if member is None:
                continue
            trial.members[cgroup] = member
            states[cgroup].begin_change(look.collected.snapshot.epoch)
            if up and cgroup in look.standing.short:
                trial.serves.add(cgroup)
        elif up if member.is_donor else not (up or _may_turn(trial, cgroup)):
            continue
        member.to_bytes = limit
        predict_member(member, look, look.collected.seen[cgroup])
        wanted[cgroup] = limit
    return wanted


def _is_waited_for(trial: MemoryTrial, look: MemoryLook, config: GuardConfig) -> bool:
    """Whether a member is missing from the snapshot, and not for long: it may come back."""
    if not any(cgroup in look.away for cgroup in trial.members):
        return False
    trial.away_s += look.elapsed_s
    return trial.away_s <= config.patience_s


def _drop_missing(trial: MemoryTrial, look: MemoryLook) -> None:
    """Tenants that are gone, or that a policy is tried on now, cannot be compared any more."""
    for cgroup in list(trial.members):
        seen = look.collected.seen.get(cgroup)
        member = trial.members[cgroup]
        same = seen is not None and seen.wire.cgroup_id == member.cgroup_id
        if not same or cgroup in look.busy or seen.tenant.policy != member.policy:  # type: ignore[union-attr]
            trial.leave(cgroup)


def _phases(look: MemoryLook) -> dict[str, int]:
    return {cgroup: seen.wire.phase for cgroup, seen in look.collected.seen.items()}


def _follow_phases(trial: MemoryTrial, look: MemoryLook) -> None:
    """Begins the window anew when the workload of a tenant changed, of a member or a neighbour.

    What was measured of a member before its own change is no baseline: it leaves.
    """
    now = _phases(look)
    # Only who rises: an agent that was restarted, and a cgroup that was made anew, begin at 0.
    changed = [name for name, phase in now.items() if trial.phases.get(name, phase) < phase]
    trial.phases = now
    for cgroup in changed:
        if cgroup in trial.members:
            trial.leave(cgroup)
    if changed and trial.restarts < RESTARTS_MAX:
        trial.restarts += 1
        for member in trial.members.values():
            member.samples.clear()


def _blamed(
    trial: MemoryTrial, cgroup: str, look: MemoryLook, config: GuardConfig, excused: bool = False
) -> Blame | None:
    """Why one member must not go on with what it has now; None when it may.

    With `excused` others made good whatever a donor lost.
    """
    member = trial.members[cgroup]
    p99_us = look.collected.seen[cgroup].tenant.indicators.latency_p99_us
    objective = look.objectives.of(cgroup)
    # What nothing is promised of may lose more than was predicted to a promise that is missed, or
    # where far more is gained: what all do together is measured then.
    owes = objective.has_slo or not (trial.serves or trial.sum_decides or excused)
    why = worse_donor(member, config) if owes else None
    why = why or broken_slo(member, objective, p99_us, config)
    return None if why is None else Blame(f"{cgroup}: {why}", cgroup)


def _why_worse(trial: MemoryTrial, look: MemoryLook, config: GuardConfig) -> Blame | None:
    goal = look.objectives.goal
    excused = goal is not Goal.LEAST_MEMORY and keeps_promise(trial, goal, config)
    for cgroup in trial.members:
        blame = _blamed(trial, cgroup, look, config, excused)
        if blame is not None:
            return blame
    measured = all(one.samples for one in trial.members.values())
    if goal is Goal.LEAST_MEMORY or not measured:
        return None
    why = worse_sum(trial, goal, config) or why_in_vain(trial, goal, config)
    return None if why is None else Blame(why)


def _fell_meanwhile(trial: MemoryTrial, look: MemoryLook, config: GuardConfig) -> Blame | None:
    """Why a donor has given too much already, while memory still moves; None when none has.

    What is predicted of it is for where it is going, so it may not be worse on the way.
    """
    for cgroup, member in trial.members.items():
        seen = look.collected.seen[cgroup]
        if not member.is_donor or seen.sample is None:
            continue
        member.samples.append(seen.sample)
        del member.samples[: -config.judge_intervals]
        if len(member.samples) == config.judge_intervals:
            blame = _blamed(trial, cgroup, look, config)
            if blame is not None:
                return blame
    return None


def _move(
    state: MemoryState,
    look: MemoryLook,
    moves: Mapping[str, Action],
    states: Mapping[str, TenantState],
    recents: Mapping[str, Recent],
    config: GuardConfig,
) -> tuple[Wanted, list[Decision]]:
    """The next step of a trial that still moves, unless a donor fell already."""
    trial = state.trial
    assert trial is not None
    worse = _fell_meanwhile(trial, look, config)
    if worse is not None:
        return {}, _take_back(state, look, states, Event.REVERTED, worse, config)
    # An SLO that needs memory does not wait until all others are where they are going.
    if goes_straight(trial, look) and not is_urgent(look, moves, trial.serves):
        moves = towards(trial, look, states)
    wanted = _extend(trial, look, moves, states, recents, config)
    _settle(trial, wanted, look, config)
    return wanted, []


def _end(state: MemoryState, look: MemoryLook, event: Event, why: str) -> list[Decision]:
    trial = state.trial
    assert trial is not None
    state.trial = None
    found = []
    for name, member in trial.everyone().items():
        told = why if name in trial.members else f"{why}; it had left"
        found.append(member.decision(name, look.time_s, event, told))
    return found


def _keep(
    state: MemoryState,
    look: MemoryLook,
    states: Mapping[str, TenantState],
    why: str,
    config: GuardConfig,
) -> list[Decision]:
    """Ends a trial whose limits stay, and remembers which way they went."""
    assert state.trial is not None
    for cgroup, member in state.trial.members.items():
        found, seen = states[cgroup], look.collected.seen[cgroup]
        if is_far(member.from_bytes, member.to_bytes):
            found.course = turned(found.course, not member.is_donor, look.time_s, seen)
        if member.is_donor:
            # What others made good is owed no more.
            found.anchor = None if worse_donor(member, config) else member.anchor
    return _end(state, look, Event.KEPT, why)


def _take_back(
    state: MemoryState,
    look: MemoryLook,
    states: Mapping[str, TenantState],
    event: Event,
    worse: Blame,
    config: GuardConfig,
) -> list[Decision]:
    """Returns every member to where it began, and leaves their limits alone for a while.

    When one is to blame only its limit is: what can be moved without it may be tried soon.
    """
    assert state.trial is not None
    state.restore.update(state.trial.origins())
    state.restore_cycles = 0
    for cgroup in state.trial.members if worse.cgroup is None else (worse.cgroup,):
        found = states[cgroup]
        found.limit_cool_count += 1
        until_s = look.time_s + doubled_s(found.limit_cool_count, config)
        found.limit_cool_until_s = until_s
    rest(state.patience, False, look.collected, config)
    if worse.cgroup is not None:
        state.patience.until_s = look.time_s + config.dwell_s
    return _end(state, look, event, worse.why)


def step(
    state: MemoryState,
    look: MemoryLook,
    states: Mapping[str, TenantState],
    recents: Mapping[str, Recent],
    config: GuardConfig,
) -> tuple[Wanted, list[Decision]]:
    """Lets one snapshot pass; returns limits to set, and decisions."""
    back, told = go_back(state, look, states)
    if look.is_gap or holds_up(state, look):
        return back, told
    wanted, decided = _go_on(state, look, states, recents, config)
    return {**wanted, **back}, [*told, *decided]


def _go_on(
    state: MemoryState,
    look: MemoryLook,
    states: Mapping[str, TenantState],
    recents: Mapping[str, Recent],
    config: GuardConfig,
) -> tuple[Wanted, list[Decision]]:
    """What is begun or goes on beside what is on its way back."""
    moves = planned(look, states)
    trial = state.trial
    if trial is None:
        begins = look.may_begin
        return _begin(state, look, moves, states, recents, config) if begins else ({}, [])
    if _is_waited_for(trial, look, config):
        return {}, []
    _drop_missing(trial, look)
    _follow_phases(trial, look)
    over = why_over(trial, states, look.collected.seen)
    if over is not None:
        return {}, _take_back(state, look, states, Event.ABANDONED, Blame(over), config)
    if trial.phase is Phase.MOVING:
        return _move(state, look, moves, states, recents, config)
    urgent = is_urgent(look, moves, trial.serves)
    if urgent and _why_worse(trial, look, config) is None:
        ended = _keep(state, look, states, "an SLO needs memory at once", config)
        wanted, begun = _begin(state, look, moves, states, recents, config)
        return wanted, [*ended, *begun]
    return {}, _watch(state, trial, look, states, config)


def _begin(
    state: MemoryState,
    look: MemoryLook,
    moves: Mapping[str, Action],
    states: Mapping[str, TenantState],
    recents: Mapping[str, Recent],
    config: GuardConfig,
) -> tuple[Wanted, list[Decision]]:
    trial = MemoryTrial(look.time_s, {}, phases=_phases(look))
    if not moves and look.objectives.goal is Goal.LEAST_MEMORY:
        state.patience.agreed = 0
        return {}, []
    if is_forced(look.collected, look.plan, look.objectives, moves):
        state.patience.agreed, end = 0, look.ahead()
    elif state.restore:
        # What is to be had by it does not come before what is owed.
        return {}, []
    else:
        far = not moves
        found = worth_it(state.patience, look.collected, look.objectives, look.ahead, config, far)
        if found is None:
            return {}, []
        end, trial.ways = found, ways(found)
        gain_pct, error_pct = promised_pct(look.collected, end, look.objectives)
        trial.is_large = goes_straight(trial, look) and gain_pct >= LARGE_PCT + error_pct
    trial.ends = {one.cgroup: one.limit_bytes for one in end.actions}
    if goes_straight(trial, look):
        moves = towards(trial, look, states)
    wanted = _extend(trial, look, moves, states, recents, config)
    if not wanted:
        return {}, []
    state.trial = trial
    begun = [
        member.decision(
            cgroup,
            look.time_s,
            Event.TRIAL,
            f"{human_bytes(member.from_bytes)} -> {human_bytes(member.to_bytes)}, and on",
        )
        for cgroup, member in trial.members.items()
    ]
    return wanted, begun


def _settle(trial: MemoryTrial, wanted: Wanted, look: MemoryLook, config: GuardConfig) -> None:
    trial.quiet = 0 if wanted else trial.quiet + 1
    long = look.time_s - trial.started_s > config.extend_max_s
    if trial.quiet < SETTLED_INTERVALS and not long:
        return
    trial.phase, trial.settled_s = Phase.SETTLING, look.time_s
    for cgroup, member in trial.members.items():
        # What was granted: memory that others did not free was never given.
        seen = look.collected.seen[cgroup]
        member.to_bytes = seen.wire.target_limit_bytes or seen.limit_bytes
        member.samples.clear()
        predict_member(member, look, seen)


def _watch(
    state: MemoryState,
    trial: MemoryTrial,
    look: MemoryLook,
    states: Mapping[str, TenantState],
    config: GuardConfig,
) -> list[Decision]:
    passed_s = look.time_s - trial.settled_s
    silent = False
    for cgroup, member in trial.members.items():
        seen = look.collected.seen[cgroup]
        observe(member, seen.sample, passed_s, config)
        silent = silent or seen.sample is None or not seen.tenant.trust.trusted
    if is_judged(trial.members.values(), config):
        worse = _why_worse(trial, look, config)
        if worse is not None:
            return _take_back(state, look, states, Event.REVERTED, worse, config)
        if not silent:
            for cgroup in trial.members:
                states[cgroup].limit_cool_count = 0
            if trial.ways is not None and trial.restarts == 0:
                gained = has_gained(trial, look.objectives.goal, config)
                rest(state.patience, gained, look.collected, config)
            return _keep(state, look, states, why_kept(trial, look.objectives.goal, config), config)
    trial.waited_s += look.elapsed_s if silent else 0.0
    if trial.waited_s > config.patience_s:
        why = f"data was missing or not to be trusted for more than {config.patience_s:g} s"
        return _take_back(state, look, states, Event.ABANDONED, Blame(why), config)
    return []
