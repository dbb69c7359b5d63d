# SPDX-License-Identifier: Apache-2.0
"""One step of the decider for the memory of one node: which limits change, and why.

The rule is the same as for policies. The decider sums up what the present limits cost more than the
plan's, less the possible error of the curves. Limits change once that sum, the evidence, exceeds
what the change may cost (rent or buy: Borodin, Linial and Saks 1992). The measurement since then is
compared with the earlier limits, by curves calibrated there, and confirms or undoes the change. A
change for which that takes too long is kept without confirmation if a better plan is worth it.
"""

import math
from collections.abc import Collection

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.memory import asked, giving_back, judging, rollout
from cachepilot.decide.memory.interval import MemoryInterval, MemoryTenant
from cachepilot.decide.memory.state import Member, MemoryChange, MemoryState
from cachepilot.domain.decisions import Decision, Event
from cachepilot.domain.objectives.objective import Goal
from cachepilot.sizes import PAGE_BYTES, pages_down

PARTS = 16
"""Number of steps on the way to the plan's limits at which it is checked whether they suffice."""


def step(state: MemoryState, seen: MemoryInterval, config: DecideConfig) -> list[Decision]:
    """Take in one interval, and return decisions; `asked.wanted` then says which limits to set."""
    is_same_goal = state.takes(seen)
    found = rollout.follow(state, seen)
    if not is_same_goal:
        found += rollout.drop(state, seen)
    if seen.is_gap:
        return found
    giving_back.follow(state, seen)
    rollout.stop(state, seen)
    found += rollout.judge(state, seen, config)
    stuck = rollout.held(state, seen.time_s)
    given = giving_back.given_back(seen, stuck) if seen.may_begin else None
    if given is not None:
        giving_back.note_lacking(state, given)
        return found + _give_back(state, seen, given)
    if not seen.may_begin:
        state.owed = 0.0
    if not seen.may_begin or not seen.movers:
        # `owed` is kept: a tenant that pauses is still owed its memory.
        state.evidence = {}
        return found
    # The plan was made before the policy of a tenant changed, or relies on a limit that the node
    # does not move. It is not carried out, and the next plan takes that into account.
    is_current = all(one.is_free and name not in stuck for name, one in seen.movers.items())
    return found + (_decide(state, seen, config) if is_current else [])


def _decide(state: MemoryState, seen: MemoryInterval, config: DecideConfig) -> list[Decision]:
    if seen.is_forced:
        return _begin(state, seen, forced=True)
    if _serves_slo(seen.movers.values(), config):
        return _begin(state, _needed(seen), forced=True)
    if _is_owed(state, seen, config):
        # If a change is under way, this corrects it, and the change is judged as before.
        return _begin(state, _needed(seen), forced=state.change is None)
    if asked.is_going_back(state, seen.time_s) or rollout.is_moving(state.change):
        return []
    affordable = _within_budgets(seen)
    if not _is_worth_it(state, affordable, config):
        return []
    found = rollout.accept(state, seen, config)
    # A limit that proved stuck is not moved again; the next plan takes that into account.
    is_stuck = bool(affordable.movers.keys() & rollout.held(state, seen.time_s))
    return found if is_stuck else found + _begin(state, affordable, forced=False)


def _give_back(state: MemoryState, seen: MemoryInterval, given: MemoryInterval) -> list[Decision]:
    """Begin a change that gives memory back to tenants, and count a loss of earlier changes.

    The loss is what the present plan would make these tenants read again. Memory is only taken from
    them again when the evidence exceeds that, too.
    """
    state.lost += sum(one.whole * seen.tenants[name].reread_s for name, one in given.movers.items())
    return _begin(state, given, forced=True)


def _serves_slo(tenants: Collection[MemoryTenant], config: DecideConfig) -> bool:
    """Whether a tenant that measurably misses an SLO gets nearer to it at no cost for its peers.

    The SLOs of its priority and above, taken together, must get nearer to their targets by
    `least_gain`, or, if their targets do not change, nearer to their margins above the targets.
    SLOs come before everything else.
    """
    short = [one.priority for one in tenants if one.is_short and one.grows]
    if not short:
        return False
    peers = [one for one in tenants if one.priority >= max(short)]
    nearer = sum(math.log(one.reached_planned / one.reached) for one in peers)
    if abs(nearer) < config.least_gain:
        nearer = sum(math.log(one.aimed_planned / one.aimed) for one in peers)
    return nearer >= config.least_gain


def _needed(seen: MemoryInterval) -> MemoryInterval:
    """The smallest part of the plan that suffices for tenants below their SLO, margin, or keep.

    The rest of the plan is at best a gain. It needs evidence and is judged by its gain, like any
    other change.
    """
    lacking = [one for one in seen.movers.values() if one.grows and _is_lacking(one, 0.0)]
    for part in (step / PARTS for step in range(1, PARTS)):
        if not any(_is_lacking(one, part) for one in lacking):
            found = seen.planned_at(
                {name: _limit_at(one, part) for name, one in seen.movers.items()}
            )
            if found.movers:
                return found
    return seen


def _is_lacking(one: MemoryTenant, part: float) -> bool:
    lacks_planned = 1 - one.aimed_planned if one.has_slo else one.below_planned
    return one.lacks_at(_limit_at(one, part)) > lacks_planned


def _limit_at(one: MemoryTenant, part: float) -> int:
    moved = round(part * (one.planned_bytes - one.limit_bytes) / PAGE_BYTES)
    return one.limit_bytes + moved * PAGE_BYTES


def owed_rate(tenants: Collection[MemoryTenant], config: DecideConfig) -> float:
    """What the plan gives tenants per second of the SLO, keep or margin that they lack.

    Needs are ordered by priority, and within it: SLOs, then what tenants keep, then margins above
    SLOs. SLOs that the plan leaves out come after all others. The result is the change of the first
    need that changes by `least_gain` of the largest tenant that it concerns, or 0 if there is none.
    It is negative if the plan takes away. The unit is that of the goal.
    """
    last = min((one.priority for one in tenants if one.has_slo), default=0)
    rates: dict[tuple[int, float], float] = {}
    most: dict[tuple[int, float], float] = {}
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
            if part:
                most[level] = max(most.get(level, 0.0), one.whole)
    least = config.least_gain
    return next((rates[at] for at in sorted(most) if abs(rates[at]) >= least * most[at]), 0.0)


def _is_owed(state: MemoryState, seen: MemoryInterval, config: DecideConfig) -> bool:
    """Whether tenants have lacked more of their needs than it may cost to serve these."""
    rate = owed_rate(seen.movers.values(), config)
    state.owed = 0.0 if rate < 0 else state.owed + seen.elapsed_s * rate
    return rate > 0 and state.owed >= cost_of(seen)


def sure_gains(seen: MemoryInterval) -> dict[str, float]:
    """What the plan gains each tenant per second, less the possible error of the curves.

    The errors of tenants are independent. The error of the sum is divided among tenants in
    proportion to the variance that each contributes.
    """
    squares = {name: one.error**2 for name, one in seen.movers.items()}
    error = max(math.sqrt(sum(squares.values())), 1e-12)
    return {
        name: one.worth_planned - one.worth_now - squares.get(name, 0.0) / error
        for name, one in seen.tenants.items()
    }


def _within_budgets(seen: MemoryInterval) -> MemoryInterval:
    """The part of the plan that the budgets of all giving tenants allow, should it be wrong.

    Receiving tenants get less accordingly, each by the same share. The rest of the plan follows as
    a further change with evidence of its own.
    """
    tenants = seen.tenants.items()
    short = {
        name: one for name, one in tenants if not one.grows and one.moved_bytes > one.spare_bytes
    }
    if not short:
        return seen
    growing = {name: one for name, one in tenants if one.grows}
    lacking = sum(one.moved_bytes - pages_down(one.spare_bytes) for one in short.values())
    part = max(0.0, 1 - lacking / max(1, sum(one.moved_bytes for one in growing.values())))
    moved = {name: pages_down(int(part * one.moved_bytes)) for name, one in growing.items()}
    moved |= {name: -pages_down(one.spare_bytes) for name, one in short.items()}
    return seen.planned_at(
        {name: seen.tenants[name].limit_bytes + more for name, more in moved.items()}
    )


def cost_of(seen: MemoryInterval) -> float:
    """What is lost if a change turns out wrong: giving tenants read their pages again."""
    return sum(_cost_of_one(one) for one in seen.movers.values())


def _cost_of_one(one: MemoryTenant) -> float:
    return 0.0 if one.grows and not one.swaps else one.whole * one.reread_s


def _is_worth_it(state: MemoryState, seen: MemoryInterval, config: DecideConfig) -> bool:
    """Whether the plan would have gained, by now, more than it may cost to change to it.

    To that cost belongs what is at stake in a change that is not judged yet and would be accepted.
    """
    if not seen.movers:
        state.evidence = {}
        return False
    rates, known = sure_gains(seen), state.evidence
    state.evidence = {
        name: known.get(name, 0.0) + seen.elapsed_s * rate for name, rate in rates.items()
    }
    evidence = sum(state.evidence[name] for name in seen.movers)
    if evidence <= 0:
        state.evidence = {}
    least = config.least_gain * max(one.whole for one in seen.movers.values())
    cost = cost_of(seen) + state.lost + judging.at_stake(state.change, seen, config)
    return sum(rates.values()) >= least and evidence >= cost


def _begin(state: MemoryState, seen: MemoryInterval, forced: bool) -> list[Decision]:
    """Move limits towards the plan. A limit that is being rolled back keeps its first origin."""
    change = state.change or MemoryChange(seen.time_s, seen.time_s, forced)
    state.change = change
    if forced:
        change.force()
    # A forced change is not undone for its cost, so members that join it for a gain cost nothing.
    costs = {name: 0.0 if change.forced else _cost_of_one(one) for name, one in seen.movers.items()}
    change.cost += sum(costs.values())
    # The plan no longer moves the limits of these members, so they stay where they are.
    rollout.stay(change, change.members.keys() & seen.tenants.keys() - seen.movers.keys(), seen)
    state.evidence, state.owed = {}, 0.0
    found = []
    for name, one in seen.movers.items():
        member, now, then = change.members.get(name), one.limit_bytes, one.planned_bytes
        if member is not None:
            member.aim(then, one.predicted)
            member.cost += costs[name]
            continue
        origin = state.restore.pop(name, None)
        start = now if origin is None else origin.limit_bytes
        gave_certain = one.is_certain and not one.grows
        member = Member(
            one.cgroup_id, one.policy, start, then, one.measured, one.predicted, costs[name],
            gave_certain=gave_certain, certain_miss=one.miss_at(now) if gave_certain else 1.0,
        )  # fmt: skip
        change.members[name] = member
        found.append(member.decision(seen.time_s, name, Event.TRIAL, _why(one, seen.goal)))
    rollout.restart(change)
    return found


def _why(one: MemoryTenant, goal: str) -> str:
    """Why a limit changes. Limits and predictions may move while it does, so they are not named."""
    if one.needs and one.grows:
        return "it had this memory before and needs it again"
    if one.is_short and one.grows:
        return "for its SLO"
    if one.aimed_planned > one.aimed:
        return "to meet its SLO in most intervals"
    if one.below > one.below_planned:
        return "for the share of its throughput that it keeps"
    if goal == Goal.LEAST_MEMORY.value:
        return "it needs no more"
    return "it gains more than others lose" if one.grows else "others gain more than it loses"
