# SPDX-License-Identifier: Apache-2.0
"""Evidence: what the policy in force cost more than each other would have, and how sure that is.

Policies are experts of whom all is known (full information) and changing costs: the debts below
are a work function (Borodin, Linial and Saks 1992), capped at what a change costs, so that a policy
leads by that cost before it is chosen, whatever was before.
"""

from dataclasses import dataclass

import numpy as np

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.gain import quantile
from cachepilot.decide.state import Climb, Interval, PolicyState
from cachepilot.sense.counterfactuals import Counterfactual, Floats

SETTLING = 2.0
"""Times its cost a change may read more than it will: not held against its calibration."""
WORST = 2.25
"""Times its cost: what an undone change reads anew there and back, and a quarter until judged."""


@dataclass(frozen=True)
class Evidence:
    """After an interval, by policy; pages.

    `index` is the policy in force. `lead` over it, `cost` of changing to each, misses of the
    interval as predicted by group of pages (`raw`), sampled at `rate`, and their calibration
    (`factors`); `saved_ratio` is what each would have saved of all accesses since it began to gain
    on the policy in force, `since_s` ago, `returns` what it is known to save yet. Changes may cost
    the tenant what is `left`.
    """

    index: int
    lead: Floats
    cost: Floats
    raw: Floats
    rate: float
    factors: Floats
    saved_ratio: Floats
    returns: Floats
    since_s: Floats
    left: float


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
    keep = 0.5 ** (seen.elapsed_s / config.calibration_half_life_s)
    state.totals = (keep * np.array(state.totals) + found.misses).tolist()
    state.lead_s += seen.elapsed_s
    saved = factors[index] * found.misses[index] - factors[:, None] * found.misses
    state.climb.take(saved, seen.accesses, seen.elapsed_s)
    cost = np.maximum(found.reread, config.switch_share * found.cache_pages)
    default_rate = state.calibration.rate[0] * float(factors[0])
    sure = _sure(state.climb, found.rate, cost, config.false_loss_s * default_rate)
    gained = saved.sum(axis=1)
    before = np.array(state.debts)
    debts = before - _counted(gained, sure, index)
    debts = np.minimum(debts, debts[index] + cost)
    debts -= debts.min()
    lead = debts[index] - debts
    risen, accesses = np.array(state.climb.saved).sum(axis=1), state.climb.accesses
    since_s = np.array(state.climb.seconds)
    due = sure * risen / np.maximum(since_s, 1e-9) * state.left_s(since_s)
    state.debts, ratio = debts.tolist(), risen / np.maximum(accesses, 1.0)
    _keep_ledger(state, seen, float(predicted[0]), float(factors[0]))
    left = config.loss_share * (state.default_cost + config.reserve_s * default_rate) - state.excess
    return Evidence(index, lead, cost, found.misses, found.rate, factors, ratio, due, since_s, left)


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


def _sure(climb: Climb, rate: float, cost: Floats, may_lose: float) -> Floats:
    """The share of what each policy saved that is not noise, shape (policies,).

    A sum counts by the share of its square that exceeds the square of a bound (the non-negative
    garrotte, Breiman 1995). What noise alone exceeds it may cost `may_lose` pages on average: the
    cheaper a change, the less is asked for. The bound is one for all policies and for as many
    independent looks as there were (Bonferroni).
    """
    total = np.array(climb.saved).sum(axis=1)
    groups, looks = len(climb.saved[0]), climb.looks()
    chance = np.minimum(0.5, may_lose / np.maximum(cost, 1e-9)) / (max(1, len(total) - 1) * looks)
    bounds = np.array([quantile(float(one), groups) for one in chance])
    noise = bounds**2 * climb.variances() * max(0.0, 1.0 - rate)
    return np.where(total > 0, np.maximum(0.0, 1.0 - noise / np.maximum(total, 1e-9) ** 2), 0.0)


def _counted(gained: Floats, sure: Floats, index: int) -> Floats:
    """Of what each policy gained in an interval, what counts.

    Of a gain that is the share that is sure: noise alone loses more so than it gains. The way back
    to the default, and what a policy loses, count whole.
    """
    counted = np.where(gained > 0, gained * sure, gained)
    counted[0], counted[index] = gained[0], 0.0
    return np.asarray(counted)
