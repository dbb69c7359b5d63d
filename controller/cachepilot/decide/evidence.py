# SPDX-License-Identifier: Apache-2.0
"""Evidence: what the policy in force cost more than each other would have, and how sure that is.

Policies are experts of whom all is known (full information) and changing costs: the debts below
are a work function (Borodin, Linial and Saks 1992), capped at what a change costs, so that a policy
leads by that cost before it is chosen, whatever was before.
"""

from dataclasses import dataclass

import numpy as np

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.state import Interval, PolicyState
from cachepilot.sense.counterfactuals import Counterfactual, Floats

SETTLING = 2.0
"""Times its cost a change may read more than it will: not held against its calibration."""


@dataclass(frozen=True)
class Evidence:
    """After an interval, by policy; pages.

    `index` is the policy in force. `lead` over it, `cost` of changing to each, misses of the
    interval as predicted (`raw`) and their calibration (`factors`); `saved_ratio` is what each
    would have saved of all accesses since it began to gain on the policy in force.
    """

    index: int
    lead: Floats
    cost: Floats
    raw: Floats
    factors: Floats
    saved_ratio: Floats


def take(
    state: PolicyState, seen: Interval, found: Counterfactual, config: DecideConfig
) -> Evidence:
    """Takes an interval in; its policy in force is one of those of the counterfactual."""
    state.align(found.policies, found.misses.shape[1])
    index = state.policies.index(seen.in_force)
    predicted = found.misses.sum(axis=1)
    if state.rate > 0:
        state.calibration.thin(index, min(state.rate / found.rate, found.rate / state.rate))
    state.rate = found.rate
    _calibrate(state, seen, index, predicted, config)
    factors = state.calibration.factors(index)
    keep = 0.5 ** (seen.elapsed_s / config.half_life_s)
    totals = keep * np.array(state.totals) + found.misses
    state.totals = totals.tolist()
    saved = factors[index] * totals[index] - factors[:, None] * totals
    cost = np.maximum(found.reread, config.switch_share * found.cache_pages)
    misses = factors * predicted
    now = factors[index] * found.misses[index] - factors[:, None] * found.misses
    sure = np.maximum(*(_sure(one, found.rate, config.sigmas) for one in (now, saved)))
    gained = misses[index] - misses
    before = np.array(state.debts)
    debts = before - _counted(gained, sure, index)
    debts = np.minimum(debts, debts[index] + cost)
    debts -= debts.min()
    lead = debts[index] - debts
    risen = np.where(lead > -cost, lead - (before[index] - before), -np.inf)
    ratio = state.climb.take(risen, gained, seen.accesses)
    state.debts = debts.tolist()
    _keep_ledger(state, seen, float(predicted[0]), float(factors[0]))
    return Evidence(index, lead, cost, predicted, factors, ratio)


def _keep_ledger(state: PolicyState, seen: Interval, predicted: float, factor: float) -> None:
    """Of the two factors that may be the default's, that which credits less.

    `factor` follows what is measured of the policy in force, whose own error is no saving.
    """
    default_cost = min(factor, state.calibration.of_default_alone()) * predicted
    state.default_cost += default_cost
    state.excess += seen.misses - default_cost
    state.regime_excess += seen.misses - default_cost


def _calibrate(
    state: PolicyState, seen: Interval, index: int, predicted: Floats, config: DecideConfig
) -> None:
    """Holds measured against predicted, but for what was read anew because of a change."""
    calibration = state.calibration
    calibration.pass_time(predicted, seen.elapsed_s)
    above = seen.misses - float(calibration.factors(index)[index] * predicted[index])
    anew = min(state.adapting, max(0.0, above))
    state.adapting -= anew
    half_life_s = config.calibration_half_life_s
    measured = seen.misses - anew
    calibration.take(index, measured, float(predicted[index]), seen.elapsed_s, half_life_s)


def _sure(saved: Floats, rate: float, sigmas: float) -> Floats:
    """The share of what each policy saved beyond so many standard errors, shape (policies,).

    `saved` has the shape (policies, groups). Groups of pages are independent samples, of which the
    standard error of the sum follows.
    """
    groups = saved.shape[1]
    total = saved.sum(axis=1)
    spread = np.sqrt(groups * saved.var(axis=1, ddof=1) * max(0.0, 1.0 - rate))
    share = np.maximum(0.0, 1.0 - sigmas * spread / np.maximum(total, 1e-9))
    return np.asarray(np.where(total > 0, share, 0.0))


def _counted(gained: Floats, sure: Floats, index: int) -> Floats:
    """Of what each policy gained in an interval, what counts.

    Of a gain that is the share beyond `sigmas` standard errors, of the interval or lately: noise
    alone loses more so than it gains. The way back to the default, and what a policy loses, count
    whole.
    """
    counted = np.where(gained > 0, gained * sure, gained)
    counted[0], counted[index] = gained[0], 0.0
    return np.asarray(counted)
