# SPDX-License-Identifier: Apache-2.0
"""The rollout of a change of policy: ordered, live (on trial), then confirmed or undone."""

from cachepilot.decide.config import IDLE_S, DecideConfig
from cachepilot.decide.costs import WORST
from cachepilot.decide.evidence import SETTLING, Evidence
from cachepilot.decide.state import Interval, PolicyState, is_rollback
from cachepilot.decide.trial import Trial
from cachepilot.domain.decisions import Decision, Event
from cachepilot.model.gain import LEAST_INTERVALS
from cachepilot.sense.counterfactuals import DEFAULT

RETRY_S = 600.0
"""Seconds before a policy that could not be attached, or was ejected, may be chosen again."""
ROLLBACK_MOST = 0.22
"""Share of the page cache that nine in ten rollbacks read again at most, if the node reports none;
measured in the rows `autopilot.harvest.stops.rollback_pct`."""
EFFECT_S = 15.0
"""A policy that is not in force so many seconds after it was ordered is given up."""


def follow(state: PolicyState, seen: Interval) -> list[Decision]:
    """Follow what is in force: an order that took effect or failed, and what nobody ordered."""
    before, state.in_force = state.in_force, seen.in_force
    if before != seen.in_force:
        state.restart()
    state.in_force_s += seen.elapsed_s
    if not seen.may_change or _is_banned(state, seen):
        return _stop(state, seen, before)
    found: list[Decision] = []
    origin = state.unproven or before or DEFAULT
    if state.wanted is not None:
        return _follow_order(state, seen)
    if state.trial is not None:
        if seen.in_force == state.trial.to_policy:
            return []
        why = f"{seen.in_force} replaced it, or it was ejected"
        origin = state.trial.from_policy
        found = [_give_up(state, state.trial, Event.ABANDONED, why, seen)]
    return found + _prove(state, seen, origin)


def _prove(state: PolicyState, seen: Interval, origin: str) -> list[Decision]:
    """Begin a trial of a policy in force that the decider knows no order for.

    It was attached late, by hand, or by a controller that lost its store. `origin` is the policy
    that it replaced.
    """
    if seen.in_force in (origin, DEFAULT):
        state.unproven = ""
        return []
    if state.unproven and origin not in seen.allowed:
        # The replaced policy is no longer allowed. The new one is compared with the default.
        origin = DEFAULT
    if not {origin, seen.in_force} <= seen.allowed:
        # The plan replaces what the objectives do not allow.
        return []
    if seen.of_in_force is None:
        # The policy is not simulated, or not yet, so nothing could judge it.
        state.unproven = origin
        return []
    baseline = (seen.ops, seen.miss_ratio)
    state.lead_s, state.unproven = 0.0, ""
    state.trial = Trial(
        origin, seen.in_force, seen.time_s, seen.limit_bytes, 1.0, baseline, baseline,
        is_live=True, excess=state.excess, displaced=None,
    )  # fmt: skip
    why = "it was found in force, and is not confirmed"
    return [seen.decision(Event.TRIAL, origin, seen.in_force, why, baseline)]


def displace(state: PolicyState, seen: Interval) -> None:
    """Count pages read since the default, or a trial's origin, was last in force.

    They displace what that policy would have kept in the page cache. After an interval that is not
    measured their number is unknown (None).
    """

    def more(known: float | None) -> float | None:
        return known + seen.misses if known is not None and seen.is_measured else None

    state.displaced = 0.0 if seen.in_force == DEFAULT else more(state.displaced)
    if state.trial is not None and is_on_trial(state):
        state.trial.displaced = more(state.trial.displaced)


def _stop(state: PolicyState, seen: Interval, before: str) -> list[Decision]:
    """Others decide now: end the trial, if any; what is unconfirmed is judged once they stop."""
    trial, wanted, state.wanted = state.trial, state.wanted, None
    if trial is None:
        # A rollback was under way, or others replaced the policy that was in force.
        replaced = (before or DEFAULT) if before != seen.in_force else ""
        state.unproven = wanted or state.unproven or replaced
        return []
    state.unproven = trial.from_policy
    why = "the objectives or an operator decide now"
    return [end(state, trial, Event.ABANDONED, why, seen)]


def _is_banned(state: PolicyState, seen: Interval) -> bool:
    """Whether the objectives no longer allow the trial's policies, or the one that is ordered."""
    trial, wanted = state.trial, state.wanted
    if trial is not None and not {trial.from_policy, trial.to_policy} <= seen.allowed:
        return True
    return wanted is not None and wanted not in seen.allowed | {DEFAULT}


def _follow_order(state: PolicyState, seen: Interval) -> list[Decision]:
    trial = state.trial
    if seen.in_force == state.wanted or state.wanted is None:
        state.wanted = None
        if trial is not None:
            trial.is_live = True
        return []
    if not seen.may_begin and seen.refused is None and not is_rollback(state):
        # The order may not have been sent yet, so its time has not begun.
        return []
    is_new = state.waited_s <= EFFECT_S
    state.waited_s += seen.elapsed_s
    if seen.refused is None and state.waited_s <= EFFECT_S:
        return []
    why = seen.refused or f"not in force after {EFFECT_S:g} s"
    if trial is None or trial.is_live:
        # A rollback is never given up. If the earlier policy is refused, the default is ordered.
        wanted = state.wanted
        if seen.refused is not None and wanted != DEFAULT:
            state.wanted = DEFAULT
        state.waited_s = max(state.waited_s, 2 * EFFECT_S)
        why = f"requested again: {why}"
        return [seen.decision(Event.ABANDONED, seen.in_force, wanted, why)] if is_new else []
    state.wanted = None
    event = Event.ABANDONED if seen.refused is None else Event.REFUSED
    found, cost = _give_up(state, trial, event, why, seen), state.turnover
    state.adapting = state.turnover = 0.0
    if seen.in_force not in (trial.from_policy, DEFAULT):
        # The policy in force was itself unconfirmed when it was to be replaced.
        order(state, trial.from_policy, cost)
    return [found]


def _give_up(state: PolicyState, trial: Trial, event: Event, why: str, seen: Interval) -> Decision:
    state.barred[trial.to_policy] = seen.time_s + RETRY_S
    return end(state, trial, event, why, seen)


def end(
    state: PolicyState, trial: Trial, event: Event, why: str, seen: Interval, reread: float = 0.0
) -> Decision:
    """End a trial, and record what the change lost in all, `reread` pages of the rollback included.

    A net gain clears earlier losses of the policy.
    """
    state.trial = None
    lost = state.lost.pop(trial.to_policy, 0.0) + reread - trial.gained
    if lost > 0:
        state.lost[trial.to_policy] = lost
    readings = trial.baseline, trial.predicted, (seen.ops, seen.miss_ratio)
    return seen.decision(event, trial.from_policy, trial.to_policy, why, *readings)


def _undo(state: PolicyState, trial: Trial, event: Event, why: str, seen: Interval) -> Decision:
    """Undo a change. It is charged with the pages of the rollback, up to what it could lose."""
    state.lead_s = 0.0
    state.leads.pop(trial.to_policy, None)
    order(state, trial.from_policy, trial.rollback)
    most = trial.rollback if trial.may_lose is None else trial.may_lose
    return end(state, trial, event, why, seen, min(trial.rollback, most))


def order(state: PolicyState, policy: str, cost: float) -> None:
    """Order a policy whose attachment reads `cost` pages again."""
    state.wanted, state.waited_s, state.unproven = policy, 0.0, ""
    state.adapting, state.turnover = SETTLING * cost, cost


def least_lost(left: float, stake: float) -> float:
    """What a change may lose in any case before it is undone: its stake, or its share of `left`.

    The rest of the budget is for the rollback.
    """
    return max(stake, left / WORST)


def is_on_trial(state: PolicyState) -> bool:
    """Whether a change is live and no other policy is ordered."""
    return state.trial is not None and state.trial.is_live and state.wanted is None


def _is_beyond_cost(trial: Trial, lost: float) -> bool:
    """Whether more was lost than change and rollback may read, after enough intervals."""
    return trial.intervals >= LEAST_INTERVALS and lost > WORST * trial.rollback


def _is_lost(trial: Trial, lost: float, seen: Interval) -> bool:
    """Whether a change lost more against the default than it costs, or than it may lose.

    It may lose the budget less the most that a rollback reads. A rollback is charged with what it
    reads on average, so the difference must be left over.
    """
    rollback, told = trial.rollback, seen.counterfactual
    if told is not None and not told.reread.any():
        rollback = trial.at_most_displaced(max(rollback, ROLLBACK_MOST * told.cache_pages))
    most = max(trial.may_lose or 0.0, (trial.left or 0.0) - rollback)
    return _is_beyond_cost(trial, lost) or lost > most


def judge(
    state: PolicyState, seen: Interval, known: Evidence, config: DecideConfig
) -> Decision | None:
    """Take in an interval of the live change; confirm or undo it, or return None."""
    trial = state.trial
    if trial is None or not is_on_trial(state):
        return None
    if trial.from_policy not in state.policies:
        trial.from_policy, trial.origin_factor = DEFAULT, None
    origin = state.policies.index(trial.from_policy)
    if trial.origin_factor is None:
        own = state.calibration.of_default_alone() if origin == 0 else known.factors[origin]
        trial.origin_factor = float(min(known.factors[origin], own))
        trial.origin_error = state.calibration.error_of(origin)
    if trial.left is None or trial.may_lose is None:
        trial.left = float(known.left)
        trial.may_lose = least_lost(trial.left, float(known.stake[origin]))
    raw = float(known.raw[known.index].sum())
    cpu = float(known.cpu[known.index] - known.cpu[origin]), seen.pages_per_us * trial.cpu_us
    would_cost = trial.origin_factor * known.raw[origin]
    trial.take(would_cost, seen.waited, raw, float(known.rate), cpu, seen.elapsed_s)
    trial.rollback = trial.at_most_displaced(float(known.cost[origin]))
    reread = trial.reread = max(trial.reread, float(known.cost[known.index]))
    errors, trial.weight_error = trial.errors(), seen.weight_error
    if trial.is_confirmed(trial.sure_bound(config.alpha, errors)):
        why = f"it saved {trial.gained:.0f} pages in {trial.intervals} intervals{trial.told_cpu()}"
        return end(state, trial, Event.KEPT, why, seen)
    due = config.undo_times * (reread + min(max(errors), reread)) - trial.expected
    pace = max(trial.expected / trial.intervals, 1e-9) / seen.elapsed_s
    trial.ends_s = seen.time_s + min(3600.0, max(0.0, due) / pace)
    error = trial.bound(config.alpha, errors)
    why_undone, event = trial.why_undone(reread, error, config.undo_times), Event.REVERTED
    is_less = why_undone is not None and trial.saved_nothing(reread, error, config.undo_times)
    lost = state.excess - trial.excess
    if why_undone is None and _is_lost(trial, lost, seen):
        # CPU time, or a loss against a policy other than the default, says nothing of misses.
        is_less = origin == 0 and _is_beyond_cost(trial, lost - trial.cpu)
        why_undone = f"it read {lost:.0f} pages more than the default would have{trial.told_cpu()}"
        if lost > -trial.gained:
            # The default would have read less than the policy that was replaced.
            trial.from_policy, trial.rollback = DEFAULT, float(known.cost[0])
    if why_undone is None and trial.idle_s > IDLE_S:
        event, why_undone = Event.ABANDONED, "without misses it cannot be judged"
    if why_undone is None:
        return None
    found = _undo(state, trial, event, why_undone, seen)
    if trial.raw > 0 and is_less:
        factor = trial.would_cost / trial.raw
        state.calibration.raise_to(known.index, factor, origin, seen.weight_of_others)
    return found


def wait(state: PolicyState, seen: Interval) -> list[Decision]:
    """Count an interval without a counterfactual; after IDLE_S of them, undo the change."""
    trial = state.trial
    if trial is None or not is_on_trial(state):
        return []
    trial.idle_s += seen.elapsed_s
    if trial.idle_s <= IDLE_S:
        return []
    why = "it cannot be judged: the node reports no accesses"
    return [_undo(state, trial, Event.ABANDONED, why, seen)]
