# SPDX-License-Identifier: Apache-2.0
"""The judgement of a change of limits: its gain by measurement, and whether that is enough."""

from math import inf

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.memory.interval import MemoryInterval, MemoryTenant
from cachepilot.decide.memory.state import Member, MemoryChange
from cachepilot.domain.objectives.objective import Goal
from cachepilot.model.gain import LEAST_INTERVALS
from cachepilot.sizes import human_bytes

LOSS_COSTS = 2.0
"""Multiple of its cost that a change may lose before it is undone: the pages are read twice."""


def at_stake(change: MemoryChange | None, seen: MemoryInterval, config: DecideConfig) -> float:
    """What may be lost by accepting a change before it is judged; inf if it cannot be accepted.

    A change is accepted only while it is measured, and has gained as much of its prediction as it
    would have to gain, were it judged now. Noise alone passes that, too. So its cost is at stake
    (giving tenants may read their pages again), and what it may have lost by a standard error.
    """
    if change is None:
        return 0.0
    since, is_there = change.since, change.members.keys() <= seen.tenants.keys()
    is_judged = is_there and change.idle_s == 0 and since.intervals >= LEAST_INTERVALS
    if change.forced or not is_judged:
        return inf
    expected = due(change, seen)
    fits = expected > 0 and since.total >= expected / config.undo_times
    gained = change.gained
    return change.cost + max(0.0, gained.standard_error() - gained.total) if fits else inf


def predicted(change: MemoryChange, seen: MemoryInterval) -> float:
    """The gain per second that is predicted for the limits to which a change leads.

    Once limits have settled it is that of the limits as they are: the node may not move some.
    """
    is_settled, found = change.settled_s is not None, 0.0
    for name, member in change.members.items():
        one = seen.tenants[name]
        limit = one.limit_bytes if is_settled else member.to_bytes
        found += one.worth_at(limit) - worth_before(one, member, seen)
    return found


def due(change: MemoryChange, seen: MemoryInterval) -> float:
    """The gain that is predicted for the intervals since limits settled; 0 without a prediction."""
    return (change.expected or 0.0) * change.since.intervals * seen.elapsed_s


def gained(change: MemoryChange, seen: MemoryInterval, least_gain: float) -> float | None:
    """The measured gain of an interval against the earlier limits, in the unit of the goal.

    It is None if nothing was measured of any member, if the curves of one are doubted, or while one
    turns over its page cache after a change of policy. A member that did nothing gained nothing.
    """
    pairs = [(seen.tenants[name], member) for name, member in change.members.items()]
    if any(one.is_settling or _is_doubted(one, member, least_gain) for one, member in pairs):
        return None
    gained = [
        one.worth_measured - worth_before(one, member, seen)
        for one, member in pairs
        if one.worth_measured is not None
    ]
    return sum(gained) * seen.elapsed_s if gained else None


def worth_before(one: MemoryTenant, member: Member, seen: MemoryInterval) -> float:
    """What the limit before the change is worth in this interval.

    If a tenant gave memory for certain hits alone and its curves still have low confidence, all
    that is known of the earlier limit is its miss ratio when the change began.
    """
    known = one.worth_at(member.from_bytes)
    if not (member.gave_certain and one.is_certain and one.limit_bytes < member.from_bytes):
        return known
    ops = one.ops_at(seen.wait_at({}), member.certain_miss)
    return max(known, one.worth_of(ops, member.from_bytes))


def _is_doubted(one: MemoryTenant, member: Member, least_gain: float) -> bool:
    """Whether nothing is known of the worth of the limit before the change.

    With low confidence in the curves, only hits at the present limit are certain. For the earlier
    limit they bound two things: a receiving tenant that hits nothing gained nothing, and a tenant
    that gave memory because of them could not lose more.
    """
    if one.is_doubted or not one.is_certain or member.gave_certain:
        return one.is_doubted
    if one.worth_measured is None:
        return False
    most = one.worth_measured - one.worth_at(member.from_bytes)
    return one.limit_bytes <= member.from_bytes or most > least_gain * one.whole


def why_undone(change: MemoryChange, expected: float, config: DecideConfig) -> str | None:
    """Why a change is undone, or None; `expected` is its predicted gain since it settled.

    That gain is due once it exceeds 1/`undo_times` of itself by `undo_times` the cost of the change
    and the bound for noise. So a change that gains all of it is undone with a chance of `alpha` at
    most.
    """
    gained, since = change.gained, change.since
    if gained.intervals < LEAST_INTERVALS:
        return None
    if gained.total < -(LOSS_COSTS * change.cost + gained.bound(config.alpha)):
        return "the tenants that got less memory lost more than the others gained"
    if since.intervals < LEAST_INTERVALS:
        return None
    bound, least = since.bound(config.alpha), expected / config.undo_times
    if expected <= 0 and since.total <= bound:
        return "no gain is predicted by now, and none is certain by measurement"
    is_due = expected - least >= config.undo_times * change.cost + bound
    if is_due and since.total < least:
        return f"it gained {100 * since.total / expected:.0f}% of what was predicted"
    return None


def why_kept(change: MemoryChange, expected: float, seen: MemoryInterval) -> str:
    """The reason that is stated for a change that is confirmed for its gain."""
    if seen.goal == Goal.LEAST_MEMORY:
        freed = sum(one.from_bytes - one.to_bytes for one in change.members.values())
        return (
            f"{human_bytes(max(0, freed))} more are free, and every tenant has its planned memory"
        )
    told = "by it, though no gain was predicted"
    if expected > 0:
        told = f"{100 * change.since.total / expected:.0f}% of what was predicted"
    return f"all together gain {told}"
