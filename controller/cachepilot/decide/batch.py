# SPDX-License-Identifier: Apache-2.0
"""An interval of many tenants at once, and the calibration of their predictions by it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.state import SETTLED_S, Interval, PolicyState
from cachepilot.model.calibration import Calibrations, Ints
from cachepilot.sense.counterfactuals import Counterfactual, Floats
from cachepilot.tables import stacked, unstack


@dataclass(frozen=True)
class Batch:
    """Intervals of the same length of tenants with equally many policies and groups of pages.

    All tenants are computed at once, because for one tenant the calls of numpy take many times as
    long as the arithmetic. `missed` and `accesses` were measured under the policies in force, whose
    indices are `index`. `raw`, shape (tenants, policies, groups), are the simulated misses in
    pages, sampled at `rate`, and `predicted` are their sums by policy. The tenants that are
    `on_trial` have a change that is not confirmed.
    """

    states: Sequence[PolicyState]
    intervals: Sequence[Interval]
    told: Sequence[Counterfactual]
    config: DecideConfig
    elapsed_s: float
    index: Ints
    missed: Floats
    accesses: Floats
    rate: Floats
    raw: Floats
    predicted: Floats
    on_trial: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        states: Sequence[PolicyState],
        intervals: Sequence[Interval],
        told: Sequence[Counterfactual],
        config: DecideConfig,
    ) -> "Batch":
        """Stack the intervals of tenants; each counterfactual includes the policy in force."""
        pairs, raw = zip(states, intervals, strict=True), np.stack([one.misses for one in told])
        return cls(
            states, intervals, told, config, intervals[0].elapsed_s,
            index=np.array([one.policies.index(seen.in_force) for one, seen in pairs]),
            missed=np.array([seen.waited for seen in intervals]),
            accesses=np.array([float(seen.accesses) for seen in intervals]),
            rate=np.array([one.rate for one in told]),
            raw=raw,
            predicted=raw.sum(axis=2),
            on_trial=np.array([one.trial is not None for one in states]),
        )  # fmt: skip

    def in_force(self, values: Floats) -> Floats:
        """Of values by tenant and policy, those of the policies in force."""
        return np.asarray(values[np.arange(len(self.index)), self.index])

    def beyond(self, factors: Floats, offsets: Floats) -> Floats:
        """Misses not proportional to predicted ones; together at most all accesses miss."""
        accesses = self.accesses[:, None]
        hits = np.maximum(0.0, accesses - factors * self.predicted)
        return np.asarray(np.minimum(offsets * accesses, hits))


def calibrate(now: Batch) -> tuple[Calibrations, Floats, Floats, Floats]:
    """Calibrate by an interval and add it to the totals.

    Return the calibrations, their factors, `raw` with disproportionate misses, and the misses of
    the default: measured without pages read again if it is in force, else the least that it may
    miss.
    """
    states, index = now.states, now.index
    weight = np.array([seen.weight_of_others for seen in now.intervals])
    calibrations = Calibrations.of([one.calibration for one in states], weight)
    _thin(calibrations, now)
    totals = [one.totals for one in states]
    before, factors = stacked(totals), calibrations.factors(index)
    beyond = now.beyond(factors, calibrations.offsets(index))
    # As additional predicted misses, which `factors` turn into the same amount.
    beyond = np.divide(beyond, factors, out=np.zeros(beyond.shape), where=factors > 0)
    raw = now.raw + (beyond / now.raw.shape[2])[:, :, None]
    due, factor = raw.sum(axis=2), now.in_force(factors)
    noise = factor**2 * _noise(now.in_force(raw), now.in_force(before), now.rate)
    anew = _compare(calibrations, now, factor * now.in_force(due), noise)
    calibrations.pass_time(due, now.elapsed_s)
    factors = calibrations.factors(index)
    least = _least_of_default(calibrations, now, factors)
    calibrations.store([one.calibration for one in states])
    keep = 0.5 ** (now.elapsed_s / now.config.calibration_half_life_s)
    unstack(keep * before + raw, totals, np.float32)
    return calibrations, factors, raw, np.where(index == 0, now.missed - anew, least)


def _thin(calibrations: Calibrations, now: Batch) -> None:
    """Let less be known of policies that are not in force if the sampling rate has changed."""
    rate = now.rate
    before = np.array([one.rate or at for one, at in zip(now.states, rate, strict=True)])
    calibrations.thin(now.index, np.minimum(before / rate, rate / before))
    for state, at in zip(now.states, rate.tolist(), strict=True):
        state.rate = at


def _noise(now: Floats, before: Floats, rate: Floats) -> Floats:
    """The variance of predicted misses due to sampling of pages, shape (tenants,).

    `now` and `before` are misses by group of pages, shape (tenants, groups). If a group always
    misses more than others, as in `before`, that is calibrated away with the rest.
    """
    known = before.sum(axis=1)
    share = np.where(known > 0, before.T / np.where(known > 0, known, 1.0), 1.0 / now.shape[1]).T
    off = now - now.sum(axis=1)[:, None] * share
    return np.asarray(np.maximum(0.0, 1.0 - rate) * now.shape[1] * off.var(axis=1, ddof=1))


def _compare(calibrations: Calibrations, now: Batch, expected: Floats, noise: Floats) -> Floats:
    """Compare measured with predicted misses, and return the pages read again because of a change.

    These pages, by tenant, are left out of the comparison. Of the policies in force, `expected` are
    the calibrated predicted misses, and `noise` is their variance due to sampling.
    """
    states, missed = now.states, now.missed
    sums = missed - expected + np.array([one.below for one in states])
    above = np.maximum(0.0, sums)
    # Misses above the prediction that only make up for earlier ones below it are noise. Misses
    # below it always count in full. The exemption must therefore end, or the policy would seem
    # better and better.
    anew = np.minimum([_may_read_anew(one) for one in states], above)
    off = missed - anew - expected
    before = np.array([np.nan if one.off is None else one.off for one in states])
    # From differences of neighbours (von Neumann 1941), since lasting errors are calibrated away.
    scatter = np.where(np.isnan(before), 0.0, (off - before) ** 2 / 2 - noise)
    below = np.minimum(0.0, sums)
    amounts = zip(states, anew.tolist(), missed.tolist(), off.tolist(), below.tolist(), strict=True)
    for state, again, seen, one, less in amounts:
        state.off, state.below = one, less
        if state.wanted is None:
            state.adapting -= again
            state.turnover = max(0.0, state.turnover - seen)
    pages = missed - anew, now.in_force(now.predicted), scatter, now.accesses
    calibrations.take(now.index, *pages, now.elapsed_s, now.config.calibration_half_life_s)
    return np.asarray(anew)


def _least_of_default(calibrations: Calibrations, now: Batch, factors: Floats) -> Floats:
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
