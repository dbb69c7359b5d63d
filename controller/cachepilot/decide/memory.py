# SPDX-License-Identifier: Apache-2.0
"""One step of the decider for the memory of one node: which limits change, and why.

The same law as for policies. What the present limits cost more than those of the plan is summed up,
as far as it exceeds what curves may be wrong by; limits change when that sum exceeds what changing
may cost (rent or buy: Borodin, Linial and Saks 1992). What is measured since is held against the
limits of before, by curves calibrated there, and the change is confirmed or undone by it.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from cachepilot.decide import memory_rollout as rollout
from cachepilot.decide.config import DecideConfig
from cachepilot.decide.memory_state import (
    Event,
    Member,
    MemoryChange,
    MemoryInterval,
    MemoryOutcome,
    MemoryState,
    MemoryTenant,
)
from cachepilot.sizes import PAGE_BYTES, human_bytes

PARTS = 16
"""Of the way to the plan's limits: how finely what is needed of it is told."""


def step(state: MemoryState, seen: MemoryInterval, config: DecideConfig) -> list[MemoryOutcome]:
    """Takes one interval in; `rollout.wanted` then says which limits to set."""
    found = rollout.follow(state, seen)
    if seen.is_gap:
        return found
    found += rollout.judge(state, seen, config)
    movers = [name for name, one in seen.tenants.items() if one.is_step]
    if not seen.may_begin or not movers:
        state.evidence, state.owed = {}, 0.0
        return found
    # The plan counts on somebody whose policy changes since it was made: the next one does not.
    return found + (_decide(state, seen, movers, config) if _is_current(seen, movers) else [])


def _is_current(seen: MemoryInterval, movers: list[str]) -> bool:
    return all(seen.tenants[name].is_free for name in movers)


def _decide(
    state: MemoryState, seen: MemoryInterval, movers: list[str], config: DecideConfig
) -> list[MemoryOutcome]:
    tenants = [seen.tenants[name] for name in movers]
    if seen.is_forced:
        return _begin(state, seen, movers, forced=True)
    if _serves_slo(tenants, config):
        return _begin_needed(state, seen, movers, forced=True)
    if _is_owed(state, seen, tenants, config):
        # Of a change that is under way it is a correction, by which that goes on to be judged.
        return _begin_needed(state, seen, movers, forced=state.change is None)
    if state.change is not None or rollout.is_going_back(state, seen.time_s):
        return []
    return _weigh(state, seen, movers, config)


def _serves_slo(tenants: Sequence[MemoryTenant], config: DecideConfig) -> bool:
    """Whether who measurably misses an SLO gets nearer to it, and no SLO of its rank pays for that.

    All of its priority and above must get nearer together, or else to their margins above it. An
    SLO comes before everything else.
    """
    short = [one.priority for one in tenants if one.is_short and one.grows]
    if not short:
        return False
    peers = [one for one in tenants if one.priority >= max(short)]
    nearer = sum(math.log(one.reached_planned / one.reached) for one in peers)
    if abs(nearer) < config.least_gain:
        nearer = sum(math.log(one.aimed_planned / one.aimed) for one in peers)
    return nearer >= config.least_gain


def _needed(seen: MemoryInterval, movers: list[str]) -> MemoryInterval:
    """The plan, as far on the way to it as those need who lack what comes first.

    What it moves beyond that gains something at best: it begins by evidence and is judged by what
    it gains, as any other change.
    """
    tenants = dict(seen.tenants)
    growing = [tenants[name] for name in movers if tenants[name].grows]
    lacking = [one for one in growing if _is_lacking(one, 0.0)]
    parts = (step / PARTS for step in range(1, PARTS))
    enough = (part for part in parts if not any(_is_lacking(one, part) for one in lacking))
    part = next(enough, 1.0)
    tenants.update((name, _on_the_way(tenants[name], part)) for name in movers)
    return replace(seen, tenants=tenants)


def _is_lacking(one: MemoryTenant, part: float) -> bool:
    return one.lacks_at(_limit_at(one, part)) > one.lacks_planned


def _limit_at(one: MemoryTenant, part: float) -> int:
    moved = round(part * (one.planned_bytes - one.limit_bytes) / PAGE_BYTES)
    return one.limit_bytes + moved * PAGE_BYTES if part < 1 else one.planned_bytes


def _on_the_way(one: MemoryTenant, part: float) -> MemoryTenant:
    if part >= 1:
        return one
    limit_bytes = _limit_at(one, part)
    return replace(one, planned_bytes=limit_bytes, predicted=one.predicted_at(limit_bytes))


def _owed_rate(tenants: Sequence[MemoryTenant], config: DecideConfig) -> float:
    """What the plan gives tenants per second of what they are to have and have not.

    Of what comes first and changes: by priority SLOs, what tenants keep, margins above SLOs. Of
    each `least_gain` is let pass. SLOs that the plan leaves out come after all others.
    """
    last = min((one.priority for one in tenants if one.has_slo), default=0)
    rates: dict[tuple[int, float], float] = {}
    for one in tenants:
        order = -one.priority
        if not one.has_slo:
            given = {(order, 1.0): one.below - one.below_planned}
        elif one.is_left_out:
            given = {max((-last, 0.5), (order, 3.0)): one.reached_planned - one.reached}
        else:
            reached, aimed = one.reached_planned - one.reached, one.aimed_planned - one.aimed
            given = {(order, 0.0): reached, (order, 2.0): aimed}
        for level, part in given.items():
            rates[level] = rates.get(level, 0.0) + one.whole * part
    least = config.least_gain * max(one.whole for one in tenants)
    return next((rates[level] for level in sorted(rates) if abs(rates[level]) >= least), 0.0)


def _is_owed(
    state: MemoryState, seen: MemoryInterval, tenants: Sequence[MemoryTenant], config: DecideConfig
) -> bool:
    """Whether tenants did without more of what they are to have than it may cost to give it."""
    rate = _owed_rate(tenants, config)
    if rate <= 0:
        state.owed = 0.0
        return False
    state.owed += seen.elapsed_s * rate
    return state.owed >= cost(tenants)


def sure_gains(seen: MemoryInterval) -> dict[str, float]:
    """What the plan gains each tenant per second, less what the curves may be wrong by.

    The tenants' errors are independent: the error of the sum is divided among tenants by
    the variance that each brings into it.
    """
    variance = sum(one.error**2 for one in seen.tenants.values() if one.is_step)
    error = max(math.sqrt(variance), 1e-12)
    return {
        name: one.worth_planned - one.worth_now - (one.error**2 / error if one.is_step else 0.0)
        for name, one in seen.tenants.items()
    }


def cost(tenants: Sequence[MemoryTenant]) -> float:
    """What is lost when a change turns out wrong: those who gave read it anew."""
    donors = (one for one in tenants if not one.grows)
    return sum(one.whole * one.reread_s for one in donors)


def _weigh(
    state: MemoryState, seen: MemoryInterval, movers: list[str], config: DecideConfig
) -> list[MemoryOutcome]:
    """Begins a change once what it would have gained exceeds what it may cost."""
    tenants = [seen.tenants[name] for name in movers]
    rates = sure_gains(seen)
    sure, known = sum(rates.values()), state.evidence
    state.evidence = {
        name: known.get(name, 0.0) + seen.elapsed_s * rate for name, rate in rates.items()
    }
    evidence = sum(state.evidence[name] for name in movers)
    if evidence <= 0:
        state.evidence = {}
    least = config.least_gain * max(one.whole for one in tenants)
    donors = (one for one in tenants if not one.grows)
    is_affordable = all(one.can_afford for one in donors)
    if sure < least or not is_affordable or evidence < cost(tenants) + state.lost:
        return []
    return _begin(state, seen, movers, forced=False)


def _begin_needed(
    state: MemoryState, seen: MemoryInterval, movers: list[str], forced: bool
) -> list[MemoryOutcome]:
    needed = _needed(seen, movers)
    return _begin(state, needed, [one for one in movers if needed.tenants[one].is_step], forced)


def _begin(
    state: MemoryState, seen: MemoryInterval, movers: list[str], forced: bool
) -> list[MemoryOutcome]:
    """Moves limits towards the plan; who is on its way already goes back to where it began."""
    tenants = [seen.tenants[name] for name in movers]
    change = state.change or MemoryChange(seen.time_s, seen.time_s, 0.0, 0.0, forced)
    state.change, change.forced = change, change.forced or forced
    change.cost += cost(tenants)
    for name in change.members.keys() & seen.tenants.keys() - set(movers):
        # Who is on its way and is not to go on stays where it is.
        change.members[name].to_bytes = seen.tenants[name].limit_bytes
    state.evidence, state.owed = {}, 0.0
    found = []
    for name in movers:
        one, origin = seen.tenants[name], state.restore.pop(name, None)
        member = change.members.get(name)
        if member is not None:
            member.to_bytes = one.planned_bytes
            continue
        same = origin is not None and origin.cgroup_id == one.cgroup_id
        start = origin.limit_bytes if origin is not None and same else one.limit_bytes
        member = Member(
            one.cgroup_id, one.policy, start, one.planned_bytes, one.measured, one.predicted
        )
        change.members[name] = member
        why = f"{human_bytes(one.limit_bytes)} -> {human_bytes(one.planned_bytes)}, {_why(one)}"
        found.append(MemoryOutcome(Event.LIVE, name, member, why))
    rollout.restart(change, seen)
    return found


def _why(one: MemoryTenant) -> str:
    if one.is_short and one.grows:
        return "for its SLO"
    if one.aimed_planned > one.aimed:
        return "to meet its SLO in most intervals"
    if one.below > one.below_planned:
        return "which it keeps"
    now, then = one.measured.ops, one.predicted.ops
    return f"{now:.4g} -> {then:.4g} ops/s predicted"
