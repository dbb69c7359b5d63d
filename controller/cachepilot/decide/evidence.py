# SPDX-License-Identifier: Apache-2.0
"""Evidence: what each policy saved since it began to gain on the one in force, and how sure it is.

Policies are experts of whom all is known (full information) and changing costs: a change is made
once what staying cost for sure exceeds what the change can cost (rent or buy; Borodin, Linial and
Saks 1992).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cachepilot.decide import costs
from cachepilot.decide.config import DecideConfig
from cachepilot.decide.gain import quantiles
from cachepilot.decide.state import SETTLED_S, Interval, PolicyState
from cachepilot.model.calibration import Calibrations, Ints
from cachepilot.model.climb import Climbs
from cachepilot.model.pages_table import stacked, unstack
from cachepilot.quick_records import quickly_made
from cachepilot.sense.counterfactuals import Counterfactual, Floats

SURE = 2.0
"""Standard errors of a calibration: by so much it may be off."""
SETTLING = 2.0
"""Times its cost a change may read more than it will: not compared with its calibration."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Evidence:
    """After an interval, by policy; pages, CPU time among them as what could be read in it.

    Of one tenant, or of many with as many policies, with an axis of tenants first.

    `index` is the policy in force. `lead` over it, `cost` of changing to each, what that may lose
    (`stake`, and `asked` at the load of the lead), misses of the interval as predicted by group of
    pages (`raw`), sampled at `rate`, their calibration (`factors`), and the CPU time of programs
    (`cpu`); `saved_ratio` is what each would have saved
    of all accesses since it began to gain on the policy in force, `since_s` ago, `returns` what it
    is known to save yet, and `is_told` whether it saves more than the calibration may be off, which
    has the relative `error`. Changes may cost the tenant what is `left`.
    """

    index: Any
    lead: Floats
    cost: Floats
    stake: Floats
    asked: Floats
    raw: Floats
    rate: Any
    factors: Floats
    cpu: Floats
    saved_ratio: Floats
    returns: Floats
    since_s: Floats
    is_told: NDArray[np.bool_]
    error: Any
    left: Any

    def of(self, i: int) -> "Evidence":
        """Of one tenant; what is a number of it is one."""
        return Evidence(*(getattr(self, one.name)[i] for one in fields(self)))


@dataclass(frozen=True)
class Told:
    """An interval of tenants with as many policies, pages.

    `missed` and `accesses` are those under the policies in force, `index`; `predicted`, shape
    (tenants, policies), is what each would have missed.
    """

    index: Ints
    missed: Floats
    accesses: Floats
    predicted: Floats

    def beyond(self, factors: Floats, offsets: Floats) -> Floats:
        """Misses that are in no proportion to predicted ones; no more than all accesses miss."""
        accesses = self.accesses[:, None]
        hits = np.maximum(0.0, accesses - factors * self.predicted)
        return np.asarray(np.minimum(offsets * accesses, hits))

    def beyond_factors(self, factors: Floats, offsets: Floats) -> Floats:
        """The same as predicted misses: what factors make them of."""
        beyond = self.beyond(factors, offsets)
        return np.divide(beyond, factors, out=np.zeros(beyond.shape), where=factors > 0)


def take_all(
    states: Sequence[PolicyState],
    intervals: Sequence[Interval],
    told: Sequence[Counterfactual],
    config: DecideConfig,
) -> Evidence:
    """Takes an interval in of tenants with as many policies and groups, that is as long for all.

    Each policy in force is one of those of the counterfactual. All tenants at once: of one alone,
    to call numpy takes many times as long as what it computes.
    """
    elapsed_s, groups = intervals[0].elapsed_s, told[0].misses.shape[1]
    for state, found in zip(states, told, strict=True):
        state.align(found.policies, groups)
    index = np.array(
        [one.policies.index(seen.in_force) for one, seen in zip(states, intervals, strict=True)]
    )
    rows = np.arange(len(index))
    raw = np.concatenate([one.misses for one in told]).reshape(len(told), -1, groups)
    rate = np.array([one.rate for one in told])
    missed = np.array([seen.waited for seen in intervals])
    accesses = np.array([float(seen.accesses) for seen in intervals])
    calibrations = Calibrations.of([one.calibration for one in states])
    _thin(calibrations, states, index, rate)
    totals = [one.totals for one in states]
    before = stacked(totals)
    now = Told(index, missed, accesses, raw.sum(axis=2))
    raw, anew = _calibrated(calibrations, states, now, raw, before, rate, elapsed_s, config)
    factors = calibrations.factors(index)
    of_default = _least_of_default(calibrations, now, factors)
    calibrations.store([one.calibration for one in states])
    keep = 0.5 ** (elapsed_s / config.calibration_half_life_s)
    unstack(keep * before + raw, totals)
    saved = (factors[rows, index][:, None] * raw[rows, index])[:, None, :]
    saved = saved - factors[:, :, None] * raw
    cpu = _cpu(intervals, factors.shape)
    # The same for each group: what is measured of programs is no part of a sample's error.
    saved += ((cpu[rows, index][:, None] - cpu) / groups)[:, :, None]
    climbs = _climbed(states, intervals, saved, accesses, rate, config)
    on_trial = np.array([one.trial is not None for one in states])
    displaced = costs.displaced_pages(states)
    cost = costs.reread_pages(told, index, on_trial, displaced, config)
    default_rate = calibrations.rate[:, 0] * factors[:, 0]
    variances = climbs.variances()
    looks = _looks(states, climbs.looks(variances), elapsed_s)
    of_default = np.where(index == 0, missed - anew, of_default)
    excess, default_cost = _keep_ledger(states, missed + cpu[rows, index], of_default)
    granted = config.loss_share * config.reserve_s * default_rate
    left = granted + config.loss_share * default_cost - excess
    stake = costs.stakes(cost, default_rate, index, on_trial, config)
    asked = costs.at_load_of(climbs, stake, cost, accesses / elapsed_s)
    sure = _sure(climbs, variances, looks, asked, config.false_loss_s * default_rate)
    risen, since_s = climbs.saved.sum(axis=2), climbs.seconds
    error = _errors(states, calibrations.errors()[rows, index])
    in_force_rate = (calibrations.rate * factors)[rows, index]
    left_s = np.maximum(0.0, _mean_leads_s(states, since_s.shape) - since_s)
    return Evidence(
        index=index,
        lead=np.where(np.arange(risen.shape[1]) == index[:, None], 0.0, risen * sure),
        cost=cost,
        stake=stake,
        asked=asked,
        raw=raw,
        rate=rate,
        factors=factors,
        cpu=cpu,
        saved_ratio=risen / np.maximum(climbs.accesses, 1.0),
        returns=sure * risen / np.maximum(since_s, 1e-9) * left_s,
        since_s=since_s,
        is_told=risen > SURE * (error * in_force_rate)[:, None] * since_s,
        error=error,
        left=left,
    )


def _noise(now: Floats, before: Floats, rate: Floats) -> Floats:
    """The variance of a sum of misses by group, shape (tenants, groups), as pages are sampled.

    What a group misses more all the time, `before`, is calibrated away with the rest.
    """
    known = before.sum(axis=1)
    share = np.where(known > 0, before.T / np.where(known > 0, known, 1.0), 1.0 / now.shape[1]).T
    off = now - now.sum(axis=1)[:, None] * share
    return np.asarray(np.maximum(0.0, 1.0 - rate) * now.shape[1] * off.var(axis=1, ddof=1))


def _errors(states: Sequence[PolicyState], errors: Floats) -> Floats:
    """The relative error of what a change is compared with: of a trial that of its origin."""
    found = zip(states, errors.tolist(), strict=True)
    return np.array([one if at.trial is None else at.trial.origin_error for at, one in found])


def _cpu(intervals: Sequence[Interval], shape: tuple[int, ...]) -> Floats:
    """CPU time of the programs of each policy, as pages, shape (tenants, policies)."""
    found = np.zeros(shape)
    for row, seen in zip(found, intervals, strict=True):
        if seen.cpu_us is not None:
            row[:] = seen.pages_per_us * seen.cpu_us
    return found


def _climbed(
    states: Sequence[PolicyState],
    intervals: Sequence[Interval],
    saved: Floats,
    accesses: Floats,
    rate: Floats,
    config: DecideConfig,
) -> Climbs:
    """What was saved since each policy began to gain, this interval included.

    A policy gains that saves half of what is worth a change: the value between none and that by
    which both are told apart soonest. The default is gone back to for less.
    """
    climbs = [one.climb for one in states]
    found, elapsed_s = Climbs.of(climbs), intervals[0].elapsed_s
    # Nothing is known of what a miss costs where it takes no time: then all that is saved counts.
    time_share = np.array([seen.miss_time_share or np.inf for seen in intervals])
    worth = np.zeros(saved.shape[:2])
    worth[:, 1:] = (accesses * costs.least_share(config) / 2 / time_share)[:, None]
    found.take(saved, accesses, rate, elapsed_s, worth)
    found.store(climbs)
    for state in states:
        state.lead_s += elapsed_s
    return found


def _thin(
    calibrations: Calibrations, states: Sequence[PolicyState], index: Ints, rate: Floats
) -> None:
    """Where pages are sampled at another rate, less is known of policies that are not in force."""
    before = np.array([one.rate or now for one, now in zip(states, rate, strict=True)])
    calibrations.thin(index, np.minimum(before / rate, rate / before))
    for state, now in zip(states, rate.tolist(), strict=True):
        state.rate = now


def _keep_ledger(
    states: Sequence[PolicyState], spent: Floats, due: Floats
) -> tuple[Floats, Floats]:
    """What was read more than the default would have read, and what that is; by tenant.

    `spent` are misses and CPU time of the policies in force. `due` is what the default misses: as
    measured where it is in force, but for what it reads again; elsewhere the least that it may
    miss, as its calibration follows that of the policy in force, whose own error is no saving.
    """
    for state, one, more in zip(states, due.tolist(), (spent - due).tolist(), strict=True):
        state.default_cost += one
        state.excess += more
    excess = np.array([one.excess for one in states])
    return excess, np.array([one.default_cost for one in states])


def _calibrated(
    calibrations: Calibrations,
    states: Sequence[PolicyState],
    now: Told,
    raw: Floats,
    before: Floats,
    rate: Floats,
    elapsed_s: float,
    config: DecideConfig,
) -> tuple[Floats, Floats]:
    """Takes an interval in; `raw` with what is in no proportion to it, and pages read again."""
    index, rows = now.index, np.arange(len(now.index))
    factors = calibrations.factors(index)
    beyond = now.beyond_factors(factors, calibrations.offsets(index))
    raw = raw + (beyond / raw.shape[2])[:, :, None]
    noise = _noise(raw[rows, index], before[rows, index], rate)
    due, factor = raw.sum(axis=2), factors[rows, index]
    expected = factor * due[rows, index]
    anew = _calibrate(calibrations, states, now, factor, expected, noise, elapsed_s, config)
    calibrations.pass_time(due, elapsed_s)
    return raw, anew


def _calibrate(
    calibrations: Calibrations,
    states: Sequence[PolicyState],
    now: Told,
    factor: Floats,
    expected: Floats,
    noise: Floats,
    elapsed_s: float,
    config: DecideConfig,
) -> Floats:
    """Holds measured against predicted, but for what was read again because of a change: that.

    Of the policies in force `factor` is their calibration, `expected` their misses by it, and
    `noise` the variance of what is predicted, as they are sampled.
    """
    index, missed, rows = now.index, now.missed, np.arange(len(now.index))
    sums = missed - expected + np.array([one.below for one in states])
    above = np.maximum(0.0, sums)
    # What is above only makes good for what was below before is noise. What is below counts in
    # full: that must end, or the policy seems better and better.
    anew = np.minimum([_may_read_anew(one) for one in states], above)
    off = missed - anew - expected
    before = np.array([np.nan if one.off is None else one.off for one in states])
    # By differences of neighbours (von Neumann 1941): what lasts is calibrated away.
    scatter = np.where(np.isnan(before), 0.0, (off - before) ** 2 / 2 - factor**2 * noise)
    below = np.minimum(0.0, sums)
    amounts = zip(states, anew.tolist(), missed.tolist(), off.tolist(), below.tolist(), strict=True)
    for state, again, seen, one, less in amounts:
        state.off, state.below = one, less
        if state.wanted is None:
            state.adapting -= again
            state.turnover = max(0.0, state.turnover - seen)
    half_life_s = config.calibration_half_life_s
    pages = missed - anew, now.predicted[rows, index], scatter, now.accesses
    calibrations.take(index, *pages, elapsed_s, half_life_s)
    return np.asarray(anew)


def _least_of_default(calibrations: Calibrations, now: Told, factors: Floats) -> Floats:
    """The least that the default may miss, as its calibration follows that of who is in force."""
    factor = np.minimum(factors[:, 0], calibrations.of_default_alone())
    offsets = calibrations.offsets(now.index)[:, 0]
    offset = np.minimum(offsets, calibrations.default_offset_alone())
    beyond = now.beyond(factor[:, None], offset[:, None])[:, 0]
    return np.asarray(factor * now.predicted[:, 0] + beyond)


def _may_read_anew(state: PolicyState) -> float:
    """Pages that may yet be read again; for as long as that takes where it is read slowly."""
    is_settling = state.in_force_s <= SETTLED_S or state.turnover > 0
    is_new = state.wanted is None and is_settling
    return state.adapting if is_new else 0.0


def _looks(states: Sequence[PolicyState], looked: Floats, elapsed_s: float) -> Floats:
    """Among how many sums noise has a chance to exceed the bound, shape (tenants, policies).

    All other policies, at all independent looks of the regime, `looked` (Bonferroni). Of one that
    was confirmed and is known to return it is not asked whether it ever gains, but whether its time
    has come again: the looks are those since the present one became the best.
    """
    others = max(1, looked.shape[1] - 1)
    found = others * looked
    for row, state in zip(found, states, strict=True):
        if not state.leads:
            continue
        at = [i for i, name in enumerate(state.policies) if i and name in state.leads]
        share = min(1.0, state.lead_s / max(elapsed_s * state.climb.looked, elapsed_s))
        row[at] = np.maximum(others, share * row[at])
    return np.asarray(found)


def _sure(
    climbs: Climbs,
    variances: Floats,
    looks: Floats,
    cost: Floats,
    may_lose: Floats,
) -> Floats:
    """The share of what each policy saved that is not noise, shape (tenants, policies).

    A sum counts by the share of its square that exceeds the square of a bound (the non-negative
    garrotte, Breiman 1995). What noise alone exceeds it may cost `may_lose` pages on average, which
    is shared among `looks`: the cheaper a change, the less is asked for.
    """
    total = climbs.saved.sum(axis=2)
    chance = np.minimum(0.5, may_lose[:, None] / np.maximum(cost, 1e-9)) / looks
    rises = total > 0
    noise = quantiles(chance[rises], climbs.saved.shape[2]) ** 2 * variances[rises]
    noise *= climbs.unseen()[rises]
    found = np.zeros(total.shape)
    found[rises] = np.maximum(0.0, 1.0 - noise / np.maximum(total[rises], 1e-9) ** 2)
    return found


def _mean_leads_s(states: Sequence[PolicyState], shape: tuple[int, ...]) -> Floats:
    """For how long each policy is best when it is, shape (tenants, policies)."""
    found = np.zeros(shape)
    for row, state in zip(found, states, strict=True):
        if state.leads:
            row[:] = state.mean_leads_s()
    return found
