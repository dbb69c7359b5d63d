# SPDX-License-Identifier: Apache-2.0
"""The throughput model of one tenant, fitted to what is measured, its error tracked.

Of `concurrency / (service + accesses per operation x miss ratio x miss cost)` the service time and
the accesses that an operation waits for are fitted; the rest is measured. While the miss ratio has
hardly changed the two cannot be told apart, and the measured accesses per operation decide; where
it changed a little, both answers count in proportion.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import least_squares

from cachepilot.domain.snapshot import Demand, FloatArray
from cachepilot.domain.units import US_PER_S
from cachepilot.quick_records import quickly_made

WINDOW = 128
"""Observations that are kept."""
HALF_LIFE = 32.0
"""After so many observations one counts half."""
FADE = 0.5 ** (1 / HALF_LIFE)
RECENT = int(HALF_LIFE)
"""Observations of a median, which does not fade."""
PRIOR_WEIGHT = 0.05
"""Of the measured accesses per operation, against one observation without noise."""
PRIOR_ERROR = 0.3
"""How far they may be off, relatively: where observations scatter more they decide instead."""
PRIOR_WEIGHT_MAX = 3.0
MISS_SPREAD = 0.2, 0.3
"""Standard deviation of the miss ratio over its mean: up to the first it has hardly changed, from
the second on observations decide alone."""
DECILES_APART = 2.56
"""Standard deviations between the first and the last decile of normal variables."""
SERVICE_SHARE_MIN = 0.02
"""Of the time of an operation: the least that is taken for service while nothing tells it apart."""
SERVICE_US_MIN = 1e-3
ACCESSES_MIN = 1e-6


@quickly_made
@dataclass(frozen=True)
class Observation:
    """One interval of a tenant: what was measured, `miss_cost_us` with the wait at the device."""

    throughput_ops: float
    miss_ratio: float
    miss_cost_us: float

    @property
    def is_usable(self) -> bool:
        """Whether anything happened that a model could be fitted to."""
        most = math.inf
        rates = 0 < self.throughput_ops < most and 0 <= self.miss_ratio < most
        return rates and 0 <= self.miss_cost_us < most


def predicted_ops(demand: Demand, observation: Observation) -> float:
    """What the model says of an interval, from its miss ratio and its miss cost."""
    waits = demand.accesses_per_op * observation.miss_ratio * observation.miss_cost_us
    return US_PER_S * demand.concurrency / (demand.service_us + waits)


def _prior_weight(log_seen: FloatArray) -> float:
    """By how much observations scatter around the middle of their neighbours, over PRIOR_ERROR."""
    if log_seen.size < 3:
        return PRIOR_WEIGHT
    off = np.abs(log_seen[1:-1] - (log_seen[:-2] + log_seen[2:]) / 2)
    # Of normal variables the median of this is 0.6745 times the square root of 1.5.
    weight = float(np.median(off)) / 0.826 / PRIOR_ERROR
    return min(max(weight, PRIOR_WEIGHT), PRIOR_WEIGHT_MAX)


def _share_told(miss_ratios: FloatArray) -> float:
    """How far observations tell waits from service, 0 to 1: as the miss ratio changed.

    By deciles, as one odd interval tells nothing. What a miss costs changes too, but with the
    neighbours at the device, and is the mean of all: throughput hardly follows it, which a fit
    would take for a service that needs no device.
    """
    low, middle, high = np.quantile(miss_ratios, (0.1, 0.5, 0.9)).tolist()
    if high <= low:
        return 0.0
    spread = (high - low) / DECILES_APART / middle if middle > 0 else math.inf
    least, most = MISS_SPREAD
    return min(max((spread - least) / (most - least), 0.0), 1.0)


def split_time(time_us: float, accesses: float, wait_us: float) -> tuple[float, float]:
    """Service and accesses per operation that make up its time, `wait_us` the mean per access.

    Measured accesses that would wait for longer than the operation takes overlap: fewer count.
    """
    least_us = SERVICE_SHARE_MIN * time_us
    if accesses * wait_us > time_us - least_us:
        return least_us, (time_us - least_us) / wait_us
    return time_us - accesses * wait_us, accesses


def _as_measured(prior: Demand, time_us: FloatArray, misses_us: FloatArray) -> tuple[float, float]:
    """Service and accesses per operation, the latter as measured; of recent intervals."""
    rest_us = float(np.median(time_us - prior.accesses_per_op * misses_us))
    typical_us = float(np.median(time_us))
    if rest_us >= SERVICE_SHARE_MIN * typical_us:
        return max(rest_us, SERVICE_US_MIN), prior.accesses_per_op
    service_us, accesses = split_time(
        typical_us, prior.accesses_per_op, float(np.median(misses_us))
    )
    return max(service_us, SERVICE_US_MIN), accesses


def _best_split(
    prior: Demand, log_seen: FloatArray, misses_us: FloatArray, start_us: float
) -> tuple[float, float]:
    """Service and accesses per operation of the least weighted squares of log throughput."""
    ages = np.arange(log_seen.size)[::-1]
    root_weight = np.sqrt(0.5 ** (ages / HALF_LIFE))
    log_accesses = math.log(prior.accesses_per_op)
    prior_weight = _prior_weight(log_seen)

    def residuals(parameters: FloatArray) -> FloatArray:
        service_us, accesses = np.exp(parameters)
        off = np.log(service_us + accesses * misses_us) - log_seen
        away = prior_weight * (parameters[1] - log_accesses)
        return np.append(off * root_weight, away)

    bounds = (np.log([SERVICE_US_MIN, ACCESSES_MIN]), np.log([1e12, 1e12]))
    start_us = max(start_us, prior.service_us * 1e-3, 2 * SERVICE_US_MIN)
    start = np.clip([math.log(start_us), log_accesses], *bounds)
    found = least_squares(residuals, start, bounds=bounds, loss="soft_l1", f_scale=0.1)
    service_us, accesses = np.exp(found.x).tolist()
    return service_us, accesses


def fit(observations: Sequence[Observation], prior: Demand) -> Demand:
    """The demand that explains the observations best, the newest last; the prior without any.

    Least squares of the logarithm of throughput, which weighs relative errors, with a loss that is
    linear in outliers, older observations fading.
    """
    usable = [one for one in observations if one.is_usable]
    if not usable:
        return prior
    ops = np.array([one.throughput_ops for one in usable])
    misses_us = np.array([one.miss_ratio * one.miss_cost_us for one in usable])
    time_us = US_PER_S * prior.concurrency / ops
    measured = _as_measured(prior, time_us[-RECENT:], misses_us[-RECENT:])
    share = _share_told(np.array([one.miss_ratio for one in usable]))
    fitted = measured
    if share > 0:
        fitted = _best_split(prior, np.log(time_us), misses_us, measured[0])
    service_us, accesses = (
        one + share * (other - one) for one, other in zip(measured, fitted, strict=True)
    )
    return replace(prior, service_us=service_us, accesses_per_op=accesses)


class OnlineFit:
    """Keeps the demand of one tenant up to date; every observation first tests the prediction.

    The error is of one-step predictions: of throughput by the model as it was before the interval,
    given the miss ratio and the miss cost of the interval. It fades like the observations do.
    """

    def __init__(self, prior: Demand) -> None:
        self._prior = prior
        self._seen: deque[Observation] = deque(maxlen=WINDOW)
        self._demand = replace(prior, error_pct=None)
        self._error_sum = 0.0
        self._error_weight = 0.0

    @property
    def demand(self) -> Demand:
        """The demand as fitted so far, with its error."""
        return self._demand

    def observe(self, observation: Observation) -> Demand:
        """Takes one interval in, and returns the demand fitted anew.

        An interval in which nothing was done changes nothing.
        """
        return self.refit() if self.take(observation) else self._demand

    def take(self, observation: Observation) -> bool:
        """Takes one interval in without fitting; False when nothing was done in it."""
        if not observation.is_usable:
            return False
        if self._seen:
            predicted = predicted_ops(self._demand, observation)
            off_pct = 100 * abs(predicted / observation.throughput_ops - 1)
            self._error_sum = self._error_sum * FADE + off_pct
            self._error_weight = self._error_weight * FADE + 1
        self._seen.append(observation)
        return True

    def refit(self, prior: Demand | None = None) -> Demand:
        """Fits what was taken in; `prior` replaces what was measured of the demand before."""
        self._prior = prior or self._prior
        fitted = fit(tuple(self._seen), self._prior)
        error = self._error_sum / self._error_weight if self._error_weight else None
        self._demand = replace(fitted, error_pct=error)
        return self._demand
