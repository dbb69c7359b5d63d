# SPDX-License-Identifier: Apache-2.0
"""The rollout of one change of limits: limits move, caches fill, and it is confirmed or undone."""

from collections.abc import Collection, Mapping

from cachepilot.decide.config import IDLE_S, DecideConfig
from cachepilot.decide.memory import judging
from cachepilot.decide.memory.interval import MemoryInterval, MemoryTenant
from cachepilot.decide.memory.state import (
    ARRIVED_INTERVALS,
    Member,
    MemoryChange,
    MemoryState,
    Origin,
)
from cachepilot.decide.memory.waits import Wait, wait_of
from cachepilot.domain.decisions import Decision, Event
from cachepilot.domain.objectives.objective import Goal
from cachepilot.model.gain import LEAST_INTERVALS, Gain
from cachepilot.sense.filling import FILLED_S
from cachepilot.sizes import PAGE_BYTES


def follow(state: MemoryState, seen: MemoryInterval) -> list[Decision]:
    """Follow tenants that are gone, changes that the node rolled back, and limits that are back."""
    for name, origin in list(state.restore.items()):
        one = seen.tenants.get(name)
        # A limit that an operator's pin or others set does not go back.
        is_over = one is not None and (one.is_set_elsewhere or is_at(one, origin.limit_bytes))
        if is_over or is_gone(seen, name, origin):
            del state.restore[name]
        elif one is not None and _differs(one, origin.seen_bytes):
            origin.seen_bytes, origin.since_s = one.limit_bytes, seen.time_s
    for name, stuck in list(state.stuck.items()):
        one = seen.tenants.get(name)
        is_over = stuck.is_forgotten(seen.time_s) or is_gone(seen, name, stuck)
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
            # The gain so far includes that tenant. The others are judged by their gain from now on.
            change.gained = Gain()
            change.cost = max(0.0, change.cost - member.cost)
            restart(change)
        elif name in seen.tenants and seen.tenants[name].stays:
            stay(change, [name], seen)
    there = [name for name in change.members if name in seen.tenants]
    undone = [name for name in there if seen.tenants[name].undone is not None]
    if undone:
        why = f"the node rolled it back for want of plans: {', '.join(undone)}"
        return found + _end(state, seen, Event.ABANDONED, why)
    if not change.members:
        state.change = None
    return found


def is_gone(seen: MemoryInterval, name: str, known: Origin | Member | Wait) -> bool:
    """Whether a record is of a tenant that will not come back, or of an earlier one of its name."""
    one = seen.tenants.get(name)
    return name not in seen.away if one is None else one.cgroup_id != known.cgroup_id


def drop(state: MemoryState, seen: MemoryInterval) -> list[Decision]:
    """End the change for a gain, as the goal or a weight is another; what is forced goes on.

    The part of a forced change that moved limits for a gain goes back.
    """
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
    """Whether a tenant has that limit, within a page."""
    return abs(one.limit_bytes - limit_bytes) < PAGE_BYTES


def _differs(one: MemoryTenant, limit_bytes: int) -> bool:
    """Whether limits differ by a step; the memory of a tenant without a limit scatters by less."""
    return abs(one.limit_bytes - limit_bytes) >= one.step_bytes


def restart(change: MemoryChange) -> None:
    """Start the judgement again, because other limits or targets need another prediction."""
    change.expected, change.since, change.settled_s = None, Gain(), None


def judge(state: MemoryState, seen: MemoryInterval, config: DecideConfig) -> list[Decision]:
    """Take in an interval of the change that is under way; confirm or undo it if that is due."""
    change = state.change
    if change is None or any(name not in seen.tenants for name in change.members):
        return []
    is_there = _arrive(change, seen)
    has_returned = all(_has_returned(one) for one in change.members.values())
    if is_there and (change.forced or has_returned):
        short = _stuck(change, seen)
        told = "the tenants that need memory have it"
        if short:
            told = f"the node moved no further: {', '.join(short)}"
        parts = change.for_gain() if change.forced else {}
        if not parts:
            return _end(state, seen, Event.KEPT, told)
        return _keep_needed(state, change, parts, told, seen)
    if change.forced:
        return []
    if any(seen.tenants[name].is_settling for name in change.members):
        # While a policy settles, the prediction for its limits is that of another policy.
        restart(change)
    gained = judging.gained(change, seen, config.least_gain)
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
    """Keep the needed part of a forced change; the part for a gain goes on and is judged by it.

    That part is compared with the limits that tenants would have with the needed part alone.
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
        change.expected = judging.predicted(change, seen)
    change.gained.take(gained)
    since = change.since
    if change.settled_s is not None:
        since.take(gained)
    expected = judging.due(change, seen)
    why = judging.why_undone(change, expected, config)
    if why is not None:
        state.lost += max(0.0, -change.gained.total)
        return _end(state, seen, Event.REVERTED, why)
    if since.intervals < LEAST_INTERVALS or since.total <= since.sure_bound(config.alpha):
        return []
    state.lost = 0.0
    return _end(state, seen, Event.KEPT, judging.why_kept(change, expected, seen))


def is_moving(change: MemoryChange | None) -> bool:
    """Whether a change has limits on their way, or page caches that are not full yet."""
    return change is not None and change.settled_s is None


def accept(state: MemoryState, seen: MemoryInterval, config: DecideConfig) -> list[Decision]:
    """Keep a change without confirmation, for a better plan that it would otherwise keep waiting.

    The gain of a change may scatter too much to be confirmed or refuted for hours. What is at stake
    counts as lost until a measured gain confirms a later change. So each of several changes that
    are kept without confirmation, one after the other, needs more evidence than the one before.
    """
    change = state.change
    if change is None:
        return []
    state.lost += judging.at_stake(change, seen, config)
    told = "kept without confirmation: its gain so far fits the prediction, and a better plan waits"
    return _end(state, seen, Event.KEPT, told)


def _growing(change: MemoryChange, seen: MemoryInterval) -> list[tuple[MemoryTenant, Member]]:
    """Members that are to get more than they have, by at least a page."""
    there = change.members.keys() & seen.tenants.keys()
    found = ((seen.tenants[name], change.members[name]) for name in there)
    return [(one, to) for one, to in found if to.to_bytes >= one.limit_bytes + PAGE_BYTES]


def waits(change: MemoryChange, seen: MemoryInterval) -> bool:
    """Whether limits stay as they are because no receiving tenant has filled what it got.

    Changes that an operator or a bound forces do not wait. Other changes wait no longer than a page
    cache takes to count as full.
    """
    growing = _growing(change, seen)
    is_late = seen.is_forced or change.waited_s >= FILLED_S
    return bool(growing) and not is_late and all(one.is_filling for one, _ in growing)


def stop(state: MemoryState, seen: MemoryInterval) -> None:
    """Leave limits of a forced change where they are, once its receivers have what they need.

    That is so if they lack nothing at their present limits, or if the plan gives them no more. With
    every step more is known of what they need. More than that needs evidence. A change whose limits
    also move for a gain, or that an operator or a bound forces, is carried out as far as planned.
    """
    change = state.change
    if change is None or not change.forced or change.members.keys() - seen.tenants.keys():
        return
    members, growing = change.members.values(), _growing(change, seen)
    to_the_end = seen.is_forced or any(one.meant_bytes is not None for one in members)
    is_free = seen.free_bytes >= PAGE_BYTES
    served = (
        # A giving tenant that gets back what nobody needs any more gets all of it.
        (one.grows and one.is_step and (to_the_end or one.lacks or to.to_bytes <= to.from_bytes))
        or (is_free and one.needs)
        for one, to in growing
    )
    if growing and not any(served):
        stay(change, change.members, seen)


def stay(change: MemoryChange, names: Collection[str], seen: MemoryInterval) -> None:
    """Let members stay at their present limits."""
    wait_us = seen.wait_at({name: seen.tenants[name].limit_bytes for name in names})
    for name in names:
        change.members[name].stay(seen.tenants[name], wait_us)


def _stands(change: MemoryChange, seen: MemoryInterval) -> bool:
    """Whether no limit has moved for ARRIVED_INTERVALS intervals in which limits were requested."""
    return seen.time_s - change.moved_s >= ARRIVED_INTERVALS * seen.elapsed_s


def _arrive(change: MemoryChange, seen: MemoryInterval) -> bool:
    """Follow moving limits and filling page caches; return whether all limits have arrived."""
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
    # If all members only give memory, no page cache has to fill.
    members = change.members.values()
    grows = seen.goal != Goal.LEAST_MEMORY or any(m.to_bytes > m.from_bytes for m in members)
    is_full = not grows or not any(seen.tenants[name].is_filling for name in change.members)
    if change.settled_s is None and is_there and (is_full or passed_s >= FILLED_S):
        change.settled_s = seen.time_s
        if _stuck(change, seen):
            change.expected = None
    return is_there


def _stuck(change: MemoryChange, seen: MemoryInterval) -> list[str]:
    """Members whose limits have not arrived and have not moved for some time.

    While a giving tenant is stuck, the receiving ones are not listed: they wait for its memory. Nor
    are giving ones that gave what they were asked for, or were not asked yet.
    """
    if not _stands(change, seen):
        return []
    there = {name: seen.tenants[name] for name in change.members.keys() & seen.tenants.keys()}
    ends = {name: change.members[name].to_bytes for name in there}
    short = [name for name, one in there.items() if _differs(one, ends[name])]
    donors = {name for name in short if ends[name] < there[name].limit_bytes}
    behind = [name for name in donors if change.members[name].is_behind(there[name].limit_bytes)]
    waiting = [name for name in donors if change.members[name].asked_bytes is None]
    return sorted(behind or ([] if waiting else set(short) - donors))


def _hold(state: MemoryState, change: MemoryChange, seen: MemoryInterval) -> None:
    """Plan limits that the node did not move as they are; for twice as long each time."""
    for name in _stuck(change, seen):
        known, one = state.stuck.get(name), seen.tenants[name]
        state.stuck[name] = wait_of(known, one.cgroup_id, one.limit_bytes, seen.time_s)


def held(state: MemoryState, time_s: float) -> frozenset[str]:
    """Tenants whose limits the node did not move, and which are not to be moved again yet."""
    return frozenset(name for name, one in state.stuck.items() if time_s < one.until_s)


def _has_returned(one: Member) -> bool:
    return abs(one.to_bytes - one.from_bytes) < PAGE_BYTES


def _end(state: MemoryState, seen: MemoryInterval, event: Event, why: str) -> list[Decision]:
    """End the change. If `event` is not KEPT, all limits go back to where they began."""
    change = state.change
    assert change is not None
    _hold(state, change, seen)
    if event is not Event.KEPT:
        state.restore.update(change.origins(seen.time_s))
        state.evidence = {}
    state.change = None
    return _told(change.members, seen, event, why)


def _told(
    members: Mapping[str, Member], seen: MemoryInterval, event: Event, why: str
) -> list[Decision]:
    """One decision per member; a limit that is where it began counts as undone."""
    found = []
    for name, one in members.items():
        if name not in seen.tenants:
            continue
        what, told = event, why
        if event is Event.KEPT and _has_returned(one):
            what, told = Event.REVERTED, "its limit is what it was before"
        found.append(one.decision(seen.time_s, name, what, told, seen.tenants[name].measured))
    return found
