# SPDX-License-Identifier: Apache-2.0
"""The rollout of one change of limits: they move, are there and full, and are kept or go back."""

from collections.abc import Mapping

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.gain import IDLE_S, LEAST_INTERVALS, Gain
from cachepilot.decide.memory.state import (
    ARRIVED_INTERVALS,
    Lacked,
    Member,
    MemoryChange,
    MemoryInterval,
    MemoryState,
    MemoryTenant,
    Origin,
    Stuck,
)
from cachepilot.domain.decisions import Decision, Event
from cachepilot.domain.objectives.objective import Goal
from cachepilot.sense.filling import FILLED_S
from cachepilot.sizes import PAGE_BYTES, human_bytes

STUCK_S, STUCK_MAX_S = 60.0, 3600.0
"""For so long a limit that the node did not move is left as it is: at first, and at most."""
LOSS_COSTS = 2.0
"""Times its cost a change may lose before it is undone: that is read again, and once more."""


def follow(state: MemoryState, seen: MemoryInterval) -> list[Decision]:
    """Follows tenants that are gone, and limits that the node rolled back or that are back."""
    for name, origin in list(state.restore.items()):
        one = seen.tenants.get(name)
        if is_gone(seen, name, origin) or (one is not None and _is_back(one, origin)):
            del state.restore[name]
        elif one is not None and _differs(one, origin.seen_bytes):
            origin.seen_bytes, origin.since_s = one.limit_bytes, seen.time_s
    for name, stuck in list(state.stuck.items()):
        one = seen.tenants.get(name)
        is_over = seen.time_s > stuck.until_s + stuck.wait_s or is_gone(seen, name, stuck)
        if is_over or (one is not None and _differs(one, stuck.limit_bytes)):
            del state.stuck[name]
    change = state.change
    if change is None:
        return []
    found = []
    for name, member in list(change.members.items()):
        if is_gone(seen, name, member):
            del change.members[name]
            why = "the cgroup is gone"
            found.append(member.decision(seen.time_s, name, Event.ABANDONED, why))
            # What was gained so far is of all: the others are judged by what they gain from now on.
            change.gained = Gain()
            change.cost = max(0.0, change.cost - member.cost)
            restart(change)
        elif name in seen.tenants and seen.tenants[name].stays:
            member.to_bytes = seen.tenants[name].limit_bytes
    there = [name for name in change.members if name in seen.tenants]
    undone = [name for name in there if seen.tenants[name].undone is not None]
    if undone:
        why = f"the node rolled it back for want of plans: {', '.join(undone)}"
        return found + _end(state, seen, Event.ABANDONED, why)
    if not change.members:
        state.change = None
    return found


def is_gone(seen: MemoryInterval, name: str, known: Origin | Member | Stuck | Lacked) -> bool:
    """Whether what is known is of a tenant that will not come back, or of another of its name."""
    one = seen.tenants.get(name)
    return name not in seen.away if one is None else one.cgroup_id != known.cgroup_id


def drop(state: MemoryState, seen: MemoryInterval) -> list[Decision]:
    """The goal is another: what a change gains can no longer be told. What is needed goes on."""
    change = state.change
    if change is None:
        return []
    if change.forced:
        for name, part in change.for_gain().items():
            change.members[name].to_bytes -= part
        for one in change.members.values():
            one.meant_bytes = None
        return []
    return _end(state, seen, Event.ABANDONED, "the goal, or a weight, is another")


def is_at(one: MemoryTenant, limit_bytes: int) -> bool:
    """Whether it has that limit, but for less than a page."""
    return abs(one.limit_bytes - limit_bytes) < PAGE_BYTES


def _differs(one: MemoryTenant, limit_bytes: int) -> bool:
    """Whether a limit is another one by a step; what a tenant without one holds scatters."""
    return abs(one.limit_bytes - limit_bytes) >= one.step_bytes


def _is_back(one: MemoryTenant, origin: Origin) -> bool:
    """Whether a tenant has its limit back, or one that an operator pinned, or that others set."""
    return one.is_ordered or one.is_yielded or is_at(one, origin.limit_bytes)


def restart(change: MemoryChange) -> None:
    """Limits have other ends, or others move: the prediction is of those."""
    change.expected, change.since, change.settled_s = None, Gain(), None


def judge(state: MemoryState, seen: MemoryInterval, config: DecideConfig) -> list[Decision]:
    """Takes in what was gained in an interval; confirms or undoes the change that is live."""
    change = state.change
    if change is None or any(name not in seen.tenants for name in change.members):
        return []
    is_there = _arrive(change, seen)
    has_returned = all(_has_returned(one) for one in change.members.values())
    if is_there and (change.forced or has_returned):
        short = _stuck(change, seen)
        told = f"the node moved no further: {', '.join(short)}" if short else "who needs it has it"
        parts = change.for_gain() if change.forced else {}
        if not parts:
            return _end(state, seen, Event.KEPT, told)
        return _keep_needed(state, change, parts, told, seen)
    if change.forced:
        return []
    if any(seen.tenants[name].is_settling for name in change.members):
        # What is predicted of limits under another policy is another gain.
        restart(change)
    gained = _gained(change, seen, config.least_gain)
    if gained is not None:
        change.idle_s = 0.0
        return _weigh(state, change, gained, seen, config)
    change.idle_s += seen.elapsed_s
    told = "nothing is measured by which it could be judged"
    return _end(state, seen, Event.ABANDONED, told) if change.idle_s > IDLE_S else []


def _keep_needed(
    state: MemoryState,
    change: MemoryChange,
    parts: Mapping[str, int],
    told: str,
    seen: MemoryInterval,
) -> list[Decision]:
    """Keeps what is needed; the parts of ways that are for a gain go on to be judged by it.

    They are compared with the limits that there would be with what is needed alone.
    """
    _hold(state, change, seen)
    kept = {name: one for name, one in change.members.items() if name not in parts}
    for name, part in parts.items():
        member = change.members[name]
        member.compare_with(member.to_bytes - part)
    change.members = {name: change.members[name] for name in parts}
    change.forced = False
    restart(change)
    return _told(kept, seen, Event.KEPT, told)


def _weigh(
    state: MemoryState,
    change: MemoryChange,
    gained: float,
    seen: MemoryInterval,
    config: DecideConfig,
) -> list[Decision]:
    if change.expected is None:
        members = [(seen.tenants[name], one) for name, one in change.members.items()]
        change.expected = sum(
            one.worth_at(way.to_bytes) - _worth_before(one, way, seen) for one, way in members
        )
    change.gained.take(gained)
    since = change.since
    if change.settled_s is not None:
        since.take(gained)
    expected = change.expected * since.intervals * seen.elapsed_s
    why = _why_undone(change, expected, config)
    if why is not None:
        state.lost += max(0.0, -change.gained.total)
        return _end(state, seen, Event.REVERTED, why)
    if since.intervals < LEAST_INTERVALS or since.total <= since.sure_bound(config.alpha):
        return []
    state.lost = 0.0
    return _end(state, seen, Event.KEPT, _why_kept(change, expected, seen))


def _why_kept(change: MemoryChange, expected: float, seen: MemoryInterval) -> str:
    if seen.goal == Goal.LEAST_MEMORY:
        freed = sum(one.from_bytes - one.to_bytes for one in change.members.values())
        return f"{human_bytes(max(0, freed))} more are free, and nobody lacks what it is to have"
    told = "by it, though no gain was predicted"
    if expected > 0:
        told = f"{100 * change.since.total / expected:.0f}% of what was predicted"
    return f"all together gain {told}"


def _growing(change: MemoryChange, seen: MemoryInterval) -> list[MemoryTenant]:
    """Members that are to get more than they have."""
    there = change.members.keys() & seen.tenants.keys()
    found = ((seen.tenants[name], change.members[name].to_bytes) for name in there)
    return [one for one, to_bytes in found if to_bytes >= one.limit_bytes + PAGE_BYTES]


def waits(change: MemoryChange, seen: MemoryInterval) -> bool:
    """Whether none of those who get memory has filled what it got: it is left where it is.

    What an operator asks for is done at once. A change waits no longer than a page cache takes to
    count as full.
    """
    growing = _growing(change, seen)
    is_late = seen.is_forced or change.waited_s >= FILLED_S
    return bool(growing) and not is_late and all(one.is_filling for one in growing)


def stop(state: MemoryState, seen: MemoryInterval) -> None:
    """Leaves limits where they are once the plan gives no more to any of those who needed it.

    With every step more is known of what they need.
    """
    change = state.change
    if change is None or not change.forced or change.members.keys() - seen.tenants.keys():
        return
    growing = _growing(change, seen)
    is_free = seen.free_bytes >= PAGE_BYTES
    served = ((one.grows and one.is_step) or (is_free and one.needs) for one in growing)
    if growing and not any(served):
        for name, member in change.members.items():
            member.to_bytes = seen.tenants[name].limit_bytes


def _stands(change: MemoryChange, seen: MemoryInterval) -> bool:
    """Whether no limit has moved for some time in which all were asked for."""
    return seen.time_s - change.moved_s >= ARRIVED_INTERVALS * seen.elapsed_s


def _arrive(change: MemoryChange, seen: MemoryInterval) -> bool:
    """Follows limits on their way, and page caches that fill; whether all limits are there."""
    for name in change.members:
        one = seen.tenants[name]
        if _differs(one, change.limits.get(name, 0)):
            change.limits[name], change.moved_s = one.limit_bytes, seen.time_s
    if waits(change, seen):
        change.waited_s += seen.elapsed_s
        change.moved_s = seen.time_s
    passed_s = seen.time_s - change.moved_s
    is_there = all(is_at(seen.tenants[name], one.to_bytes) for name, one in change.members.items())
    is_there = is_there or _stands(change, seen)
    # Where all only give memory there is nothing to fill.
    members = change.members.values()
    grows = seen.goal != Goal.LEAST_MEMORY or any(m.to_bytes > m.from_bytes for m in members)
    is_full = not grows or not any(seen.tenants[name].is_filling for name in change.members)
    if change.settled_s is None and is_there and (is_full or passed_s >= FILLED_S):
        change.settled_s = seen.time_s
    return is_there


def _gained(change: MemoryChange, seen: MemoryInterval, least_gain: float) -> float | None:
    """By measurement, against the limits of before; None when nothing was measured of anybody.

    Who did nothing gained nothing. Nor is anything told by curves that are doubted, nor of limits
    while a member reads again what a change of its policy costs.
    """
    pairs = [(seen.tenants[name], member) for name, member in change.members.items()]
    if any(one.is_settling or _is_doubted(one, member, least_gain) for one, member in pairs):
        return None
    gained = [
        one.worth_measured - _worth_before(one, member, seen)
        for one, member in pairs
        if one.worth_measured is not None
    ]
    return sum(gained) * seen.elapsed_s if gained else None


def _worth_before(one: MemoryTenant, member: Member, seen: MemoryInterval) -> float:
    """What the limit of before is worth in this interval.

    Of who gave what was certain it is known only that it hit so much there when it began to give.
    """
    known = one.worth_at(member.from_bytes)
    if not (member.gave_certain and one.is_certain and one.limit_bytes < member.from_bytes):
        return known
    ops = one.ops_at(seen.wait_at({}), member.certain_miss)
    return max(known, one.worth_of(ops, member.from_bytes))


def _is_doubted(one: MemoryTenant, member: Member, least_gain: float) -> bool:
    """Whether nothing is known of the limit of before.

    What is certain is so of the present limit. Of another it says no more than that who hits
    nothing gained nothing, and that who gave memory by it could lose no more.
    """
    if one.is_doubted or not one.is_certain or member.gave_certain:
        return one.is_doubted
    if one.worth_measured is None:
        return False
    most = one.worth_measured - one.worth_at(member.from_bytes)
    return one.limit_bytes <= member.from_bytes or most > least_gain * one.whole


def _why_undone(change: MemoryChange, expected: float, config: DecideConfig) -> str | None:
    """Why a change goes back that should have gained, since it settled, what is `expected`.

    That is due once it is several times what the change may cost and what scatters.
    """
    gained, since = change.gained, change.since
    if gained.intervals < LEAST_INTERVALS:
        return None
    if gained.total < -(LOSS_COSTS * change.cost + gained.bound(config.alpha)):
        return "those who gave lost more than those who got it gained"
    if since.intervals < LEAST_INTERVALS:
        return None
    bound = since.bound(config.alpha)
    if expected <= 0 and since.total <= bound:
        return "no gain is predicted by now, and none is certain by measurement"
    is_due = expected >= config.undo_times * (change.cost + bound)
    if is_due and since.total < expected / config.undo_times:
        return f"it gained {100 * since.total / expected:.0f}% of what was predicted"
    return None


def _stuck(change: MemoryChange, seen: MemoryInterval) -> list[str]:
    """Whose limits are not where they are to be, and have not come nearer for some time.

    While memory is not given up those who are to get it are not to blame.
    """
    if not _stands(change, seen):
        return []
    there = {name: seen.tenants[name] for name in change.members.keys() & seen.tenants.keys()}
    ends = {name: change.members[name].to_bytes for name in there}
    short = [name for name, one in there.items() if _differs(one, ends[name])]
    donors = [name for name in short if ends[name] < there[name].limit_bytes]
    return sorted(donors or short)


def _hold(state: MemoryState, change: MemoryChange, seen: MemoryInterval) -> None:
    """Limits that the node did not move are planned as they are, for longer each time."""
    for name in _stuck(change, seen):
        known, one = state.stuck.get(name), seen.tenants[name]
        wait_s = STUCK_S if known is None else min(2 * known.wait_s, STUCK_MAX_S)
        state.stuck[name] = Stuck(one.cgroup_id, one.limit_bytes, wait_s, seen.time_s + wait_s)


def held(state: MemoryState, time_s: float) -> frozenset[str]:
    """Whose limits the node did not move, and are not asked for again yet."""
    return frozenset(name for name, one in state.stuck.items() if time_s < one.until_s)


def _has_returned(one: Member) -> bool:
    return abs(one.to_bytes - one.from_bytes) < PAGE_BYTES


def _end(state: MemoryState, seen: MemoryInterval, event: Event, why: str) -> list[Decision]:
    """Ends the change: it is kept, or all go back to where they began."""
    change = state.change
    assert change is not None
    _hold(state, change, seen)
    if event is not Event.KEPT:
        state.restore.update(change.origins(seen.time_s))
    state.change, state.evidence = None, {}
    return _told(change.members, seen, event, why)


def _told(
    members: Mapping[str, Member], seen: MemoryInterval, event: Event, why: str
) -> list[Decision]:
    """What became of limits; those that are where they began went back, whatever was kept."""
    found = []
    for name, one in members.items():
        if name not in seen.tenants:
            continue
        what, told = event, why
        if event is Event.KEPT and _has_returned(one):
            what, told = Event.REVERTED, "its limit is what it was before"
        found.append(one.decision(seen.time_s, name, what, told, seen.tenants[name].measured))
    return found
