# SPDX-License-Identifier: Apache-2.0
"""Evidence: what each policy saved against the one in force since it began to gain, and how surely.

In the terms of online learning, policies are experts whose losses are all known (full information),
and changing costs. A change begins once staying has certainly cost more than the change can cost
(rent or buy; Borodin, Linial and Saks 1992).
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cachepilot.decide import costs, leads
from cachepilot.decide.config import DecideConfig
from cachepilot.decide.state import SETTLED_S, Interval, PolicyState
from cachepilot.model.calibration import Calibrations, Ints
from cachepilot.quick_records import quickly_made
from cachepilot.sense.counterfactuals import Counterfactual, Floats
from cachepilot.tables import stacked, unstack

SURE = 2.0
"""Number of standard errors that a calibration may be off."""
SETTLING = 2.0
"""Up to this multiple of a change's cost is left out of the calibration, as pages read again."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence after an interval, by policy: of one tenant, or of many with a leading tenant axis.

    Amounts are in pages; CPU time counts as the pages that could be read in it.

    `index` is the policy in force. `lead` is the certain saving against it, and `cost` what
    changing to each policy reads again. `stake` is what such a change may lose, and `asked` the
    same at the load at which the lead was collected. `raw` are the predicted misses of the interval
    by group of pages, sampled at `rate`. `factors` are the calibration of these predictions, and
    `cpu` is the CPU time of the BPF programs. `saved_ratio` is the saving per access since the
    policy began to gain, `since_s` seconds ago. `returns` is the further saving expected of a
    policy that is known to return. `is_told` says whether the saving exceeds the possible error of
    the calibration, whose relative standard error is `error`. `left` is the tenant's budget.
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
        """The evidence of tenant `i`; fields with one value per tenant become numbers."""
        return Evidence(*(getattr(self, one.name)[i] for one in fields(self)))


@dataclass(frozen=True)
class Told:
    """An interval of tenants with equally many policies, in pages.

    `missed` and `accesses` were measured under the policies in force, whose indices are `index`.
    `predicted`, shape (tenants, policies), are the simulated misses of each policy.
    """

    index: Ints
    missed: Floats
    accesses: Floats
    predicted: Floats

    def beyond(self, factors: Floats, offsets: Floats) -> Floats:
        """Misses not proportional to predicted ones; together at most all accesses miss."""
        accesses = self.accesses[:, None]
        hits = np.maximum(0.0, accesses - factors * self.predicted)
        return np.asarray(np.minimum(offsets * accesses, hits))

    def beyond_factors(self, factors: Floats, offsets: Floats) -> Floats:
        """`beyond` as additional predicted misses, which `factors` turn into the same amount."""
        beyond = self.beyond(factors, offsets)
        return np.divide(beyond, factors, out=np.zeros(beyond.shape), where=factors > 0)


def take_all(
    states: Sequence[PolicyState],
    intervals: Sequence[Interval],
    told: Sequence[Counterfactual],
    config: DecideConfig,
) -> Evidence:
    """Take in an interval of many tenants and return their evidence.

    The tenants have equally many policies and groups of pages, and intervals of the same length.
    Each counterfactual includes the policy in force. All tenants are computed at once, because for
    one tenant the calls of numpy take many times as long as the arithmetic.
    """
    elapsed_s, groups = intervals[0].elapsed_s, told[0].misses.shape[1]
    for state, found in zip(states, told, strict=True):
        state.align(found.policies, groups)
    index = np.array(
        [one.policies.index(seen.in_force) for one, seen in zip(states, intervals, strict=True)]
    )
    rows, raw = np.arange(len(index)), np.stack([one.misses for one in told])
    rate = np.array([one.rate for one in told])
    missed = np.array([seen.waited for seen in intervals])
    accesses = np.array([float(seen.accesses) for seen in intervals])
    now = Told(index, missed, accesses, raw.sum(axis=2))
    calibrations, factors, raw, due = _taken(states, now, raw, rate, elapsed_s, config)
    cpu = leads.cpu_pages(intervals, factors.shape)
    saved = leads.saved_pages(factors, raw, index, cpu)
    climbs = leads.climbed(states, intervals, saved, accesses, rate, config)
    on_trial = np.array([one.trial is not None for one in states])
    displaced = costs.displaced_pages(states)
    cost = costs.reread_pages(told, index, on_trial, displaced, config)
    default_rate = calibrations.rate[:, 0] * factors[:, 0]
    variances = climbs.variances()
    looks = leads.looks_of(states, climbs.looks(variances), elapsed_s)
    excess, default_cost = _keep_ledger(states, missed + cpu[rows, index], due)
    granted = config.loss_share * config.reserve_s * default_rate
    left = granted + config.loss_share * default_cost - excess
    stake = costs.stakes(cost, default_rate, index, on_trial, config)
    asked = costs.at_load_of(climbs, stake, cost, accesses / elapsed_s)
    sure = leads.sure_shares(climbs, variances, looks, asked, config.false_loss_s * default_rate)
    risen, since_s = climbs.saved.sum(axis=2), climbs.seconds
    error = _errors(states, calibrations.errors()[rows, index])
    in_force_rate = (calibrations.rate * factors)[rows, index]
    left_s = np.maximum(0.0, leads.mean_leads_s(states, since_s.shape) - since_s)
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


def _taken(
    states: Sequence[PolicyState],
    now: Told,
    raw: Floats,
    rate: Floats,
    elapsed_s: float,
    config: DecideConfig,
) -> tuple[Calibrations, Floats, Floats, Floats]:
    """Calibrate by an interval and add it to the totals.

    Return the calibrations, their factors, `raw` with disproportionate misses, and the misses of
    the default: measured without pages read again if it is in force, else the least that it may
    miss.
    """
    calibrations, index = Calibrations.of([one.calibration for one in states]), now.index
    _thin(calibrations, states, index, rate)
    totals = [one.totals for one in states]
    before = stacked(totals)
    raw, anew = _calibrated(calibrations, states, now, raw, before, rate, elapsed_s, config)
    factors = calibrations.factors(index)
    least = _least_of_default(calibrations, now, factors)
    calibrations.store([one.calibration for one in states])
    keep = 0.5 ** (elapsed_s / config.calibration_half_life_s)
    unstack(keep * before + raw, totals, np.float32)
    return calibrations, factors, raw, np.where(index == 0, now.missed - anew, least)


def _noise(now: Floats, before: Floats, rate: Floats) -> Floats:
    """The variance of predicted misses due to sampling of pages, shape (tenants,).

    `now` and `before` are misses by group of pages, shape (tenants, groups). If a group always
    misses more than others, as in `before`, that is calibrated away with the rest.
    """
    known = before.sum(axis=1)
    share = np.where(known > 0, before.T / np.where(known > 0, known, 1.0), 1.0 / now.shape[1]).T
    off = now - now.sum(axis=1)[:, None] * share
    return np.asarray(np.maximum(0.0, 1.0 - rate) * now.shape[1] * off.var(axis=1, ddof=1))


def _errors(states: Sequence[PolicyState], errors: Floats) -> Floats:
    """Relative errors of the calibration of the policy in force; during a trial, of its origin."""
    found = zip(states, errors.tolist(), strict=True)
    return np.array([one if at.trial is None else at.trial.origin_error for at, one in found])


def _thin(
    calibrations: Calibrations, states: Sequence[PolicyState], index: Ints, rate: Floats
) -> None:
    """Let less be known of policies that are not in force if the sampling rate has changed."""
    before = np.array([one.rate or now for one, now in zip(states, rate, strict=True)])
    calibrations.thin(index, np.minimum(before / rate, rate / before))
    for state, now in zip(states, rate.tolist(), strict=True):
        state.rate = now


def _keep_ledger(
    states: Sequence[PolicyState], spent: Floats, due: Floats
) -> tuple[Floats, Floats]:
    """Update each tenant's ledger; return excess and what the default would have cost, by tenant.

    The excess is what was read more than the default would have read. `spent` are the misses and
    the CPU time of the policies in force. `due` are the default's misses. If the default is in
    force they are measured, without pages read again. Otherwise they are the least that it may
    miss: its calibration follows that of the policy in force, whose error must not count as saving.
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
    """Calibrate by an interval; return `raw` with disproportionate misses, and pages read again."""
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
    """Compare measured with predicted misses, and return the pages read again because of a change.

    These pages, by tenant, are left out of the comparison. Of the policies in force, `factor` is
    the calibration, `expected` are the calibrated predicted misses, and `noise` is the variance of
    the prediction due to sampling.
    """
    index, missed, rows = now.index, now.missed, np.arange(len(now.index))
    sums = missed - expected + np.array([one.below for one in states])
    above = np.maximum(0.0, sums)
    # Misses above the prediction that only make up for earlier ones below it are noise. Misses
    # below it always count in full. The exemption must therefore end, or the policy would seem
    # better and better.
    anew = np.minimum([_may_read_anew(one) for one in states], above)
    off = missed - anew - expected
    before = np.array([np.nan if one.off is None else one.off for one in states])
    # From differences of neighbours (von Neumann 1941), since lasting errors are calibrated away.
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
    """The least that the default may miss, by either calibration: its own, or the combined one."""
    factor = np.minimum(factors[:, 0], calibrations.of_default_alone())
    offsets = calibrations.offsets(now.index)[:, 0]
    offset = np.minimum(offsets, calibrations.default_offset_alone())
    beyond = now.beyond(factor[:, None], offset[:, None])[:, 0]
    return np.asarray(factor * now.predicted[:, 0] + beyond)


def _may_read_anew(state: PolicyState) -> float:
    """Pages that may still be read again, until the page cache has turned over or settled."""
    is_settling = state.in_force_s <= SETTLED_S or state.turnover > 0
    is_new = state.wanted is None and is_settling
    return state.adapting if is_new else 0.0
