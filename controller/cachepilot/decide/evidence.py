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

from cachepilot.decide import costs
from cachepilot.decide.batch import Batch, calibrate
from cachepilot.decide.config import DecideConfig
from cachepilot.decide.state import Interval, PolicyState
from cachepilot.model.climb import Climbs
from cachepilot.model.gain import quantiles
from cachepilot.quick_records import quickly_made
from cachepilot.sense.counterfactuals import Counterfactual, Floats

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
    the calibration, whose relative standard error is `error`, and of the reads per missed page.
    `left` is the tenant's budget.
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


def take_all(
    states: Sequence[PolicyState],
    intervals: Sequence[Interval],
    told: Sequence[Counterfactual],
    config: DecideConfig,
) -> Evidence:
    """Take in an interval of many tenants and return their evidence (see `Batch`)."""
    for state, found in zip(states, told, strict=True):
        state.align(found.policies, found.misses.shape[1])
    now = Batch.of(states, intervals, told, config)
    calibrations, factors, raw, due = calibrate(now)
    cpu = _cpu_pages(now)
    climbs = _climbed(now, _saved_pages(now, factors, raw, cpu))
    cost = costs.reread_pages(now)
    default_rate = calibrations.rate[:, 0] * factors[:, 0]
    variances = climbs.variances()
    looks = looks_of(states, climbs.looks(variances), now.elapsed_s)
    left = _keep_ledger(now, now.missed + now.in_force(cpu), due, default_rate)
    stake = costs.stakes(now, cost, default_rate)
    asked = costs.at_load_of(now, climbs, stake, cost)
    sure = sure_shares(climbs, variances, looks, asked, config.false_loss_s * default_rate)
    risen, since_s = climbs.saved.sum(axis=2), climbs.seconds
    error = _errors(states, now.in_force(calibrations.errors()))
    possible = np.hypot(error[:, None], _weight_errors(now, since_s))
    in_force_rate = now.in_force(calibrations.rate * factors)
    left_s = np.maximum(0.0, np.array([one.mean_leads_s() for one in states]) - since_s)
    return Evidence(
        index=now.index,
        lead=np.where(np.arange(risen.shape[1]) == now.index[:, None], 0.0, risen * sure),
        cost=cost,
        stake=stake,
        asked=asked,
        raw=raw,
        rate=now.rate,
        factors=factors,
        cpu=cpu,
        saved_ratio=risen / np.maximum(climbs.accesses, 1.0),
        returns=sure * risen / np.maximum(since_s, 1e-9) * left_s,
        since_s=since_s,
        is_told=risen > SURE * possible * in_force_rate[:, None] * since_s,
        error=error,
        left=left,
    )


def _weight_errors(now: Batch, since_s: Floats) -> Floats:
    """Relative errors of weights over the time of each lead, shape (tenants, policies).

    Weights are means over the window in which they fade. In a shorter lead, reads per missed page
    differ from them by more: the variance of a mean is in inverse proportion to its time.
    """
    window_s = now.config.calibration_half_life_s / np.log(2)
    errors = np.array([seen.weight_error for seen in now.intervals])[:, None]
    return np.asarray(errors * np.sqrt(1 + window_s / np.maximum(since_s, now.elapsed_s)))


def _errors(states: Sequence[PolicyState], errors: Floats) -> Floats:
    """Relative errors of the calibration of the policy in force; during a trial, of its origin."""
    found = zip(states, errors.tolist(), strict=True)
    return np.array([one if at.trial is None else at.trial.origin_error for at, one in found])


def _keep_ledger(now: Batch, spent: Floats, due: Floats, default_rate: Floats) -> Floats:
    """Update each tenant's ledger, and return what is left of its budget.

    The excess is what was read more than the default would have read. `spent` are the misses and
    the CPU time of the policies in force. `due` are the default's misses. If the default is in
    force they are measured, without pages read again. Otherwise they are the least that it may
    miss: its calibration follows that of the policy in force, whose error must not count as saving.
    """
    for state, one, more in zip(now.states, due.tolist(), (spent - due).tolist(), strict=True):
        state.default_cost += one
        state.excess += more
    excess = np.array([one.excess for one in now.states])
    default_cost = np.array([one.default_cost for one in now.states])
    granted = now.config.loss_share * now.config.reserve_s * default_rate
    return np.asarray(granted + now.config.loss_share * default_cost - excess)


def _cpu_pages(now: Batch) -> Floats:
    """CPU time of the BPF programs of each policy, in pages, shape (tenants, policies)."""
    found = np.zeros(now.predicted.shape)
    for row, seen in zip(found, now.intervals, strict=True):
        if seen.cpu_us is not None:
            row[:] = seen.pages_per_us * seen.cpu_us
    return found


def _saved_pages(now: Batch, factors: Floats, raw: Floats, cpu: Floats) -> Floats:
    """Pages that each policy saved against the one in force, shape (tenants, policies, groups).

    `raw` are predicted misses of the same shape, `factors` their calibration and `cpu` the CPU time
    of each policy, shape (tenants, policies).
    """
    found = (now.in_force(factors)[:, None] * now.in_force(raw))[:, None, :]
    found = found - factors[:, :, None] * raw
    # CPU time is spread evenly over the groups, so it adds nothing to the sampling error.
    found += ((now.in_force(cpu)[:, None] - cpu) / raw.shape[2])[:, :, None]
    return np.asarray(found)


def _climbed(now: Batch, saved: Floats) -> Climbs:
    """What was saved since each policy began to gain, this interval included.

    A policy gains if it saves half of what is worth a change. This reference value, half way
    between no saving and the least worthwhile one, distinguishes the two soonest. For the default
    it is 0, since going back to it needs no least gain.
    """
    climbs = [one.climb for one in now.states]
    found = Climbs.of(climbs)
    # If misses take no time, or it is not known how much, every saving counts.
    time_share = np.array([seen.miss_time_share or np.inf for seen in now.intervals])
    worth = np.zeros(now.predicted.shape)
    worth[:, 1:] = (now.accesses * costs.least_share(now.config) / 2 / time_share)[:, None]
    found.take(saved, now.accesses, now.rate, now.elapsed_s, worth)
    found.store(climbs)
    for state in now.states:
        state.lead_s += now.elapsed_s
    return found


def looks_of(states: Sequence[PolicyState], looked: Floats, elapsed_s: float) -> Floats:
    """The number of sums among which noise may exceed the bound, shape (tenants, policies).

    It is the number of other policies times that of independent looks in the regime, `looked`
    (Bonferroni). For a confirmed policy that is known to return, the question is not whether it
    ever gains but whether its time has come again. Its looks are those since the policy in force
    became the best.
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


def sure_shares(
    climbs: Climbs,
    variances: Floats,
    looks: Floats,
    cost: Floats,
    may_lose: Floats,
) -> Floats:
    """The share of each policy's saving that is not noise, shape (tenants, policies).

    A sum counts by the share of its square that exceeds the square of a bound (the non-negative
    garrotte, Breiman 1995). Sums that exceed the bound by noise alone may cost `may_lose` pages on
    average, divided among `looks`. A cheap change therefore needs less evidence.
    """
    total = climbs.saved.sum(axis=2)
    chance = np.minimum(0.5, may_lose[:, None] / np.maximum(cost, 1e-9)) / looks
    rises = total > 0
    noise = quantiles(chance[rises], climbs.saved.shape[2]) ** 2 * variances[rises]
    noise *= climbs.unseen()[rises]
    found = np.zeros(total.shape)
    found[rises] = np.maximum(0.0, 1.0 - noise / np.maximum(total[rises], 1e-9) ** 2)
    return found
