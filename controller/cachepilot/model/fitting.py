# SPDX-License-Identifier: Apache-2.0
"""Fit of the throughput model of one tenant to measurements, and the error of its predictions.

In `concurrency / (service + accesses per operation x miss ratio x miss cost)`, the service time and
the accesses that an operation waits for are fitted, and the rest is measured. While the miss ratio
hardly changes, the two cannot be told apart, and the measured accesses per operation decide. If it
has changed a little, both solutions count in proportion. The search for the least loss is in
`models/src/split_fit.rs`; tests compare it with `scipy.optimize.least_squares`, which takes some
milliseconds per tenant.
"""

import math
from array import array
from dataclasses import dataclass
from statistics import median

import numpy as np

from cachepilot._models import fit_split
from cachepilot.domain.snapshot import Demand, FloatArray
from cachepilot.domain.units import US_PER_S
from cachepilot.quick_records import quickly_made

WINDOW = 128
"""Number of observations that are kept."""
HALF_LIFE = 32.0
"""Number of observations after which the weight of one is half."""
FADE = 0.5 ** (1 / HALF_LIFE)
RECENT = int(HALF_LIFE)
"""Number of recent observations of which medians are taken, without fading."""
PRIOR_WEIGHT = 0.05
"""Least weight of the measured accesses per operation, relative to one observation."""
PRIOR_ERROR = 0.3
"""Assumed relative error of measured accesses. They decide if observations scatter by more."""
PRIOR_WEIGHT_MAX = 3.0
MISS_SPREAD = 0.2, 0.3
"""Standard deviation of the miss ratio over its mean. Up to the first value it has hardly changed;
from the second on, observations alone decide."""
DECILES_APART = 2.56
"""Standard deviations between the first and the last decile of a normal distribution."""
SERVICE_SHARE_MIN = 0.02
"""Least share of service in the time of an operation: of a typical one while service cannot be told
apart, and of the shortest one otherwise. Shorter service is noise: any gain would be predicted for
a tenant that no longer misses."""
SERVICE_US_MIN = 1e-3
LOW, HIGH = (SERVICE_US_MIN, 1e-6), (1e12, 1e12)
"""Bounds of the service time, microseconds, and of accesses per operation."""
SOFT = 0.1
"""Scale of residuals: far larger ones count linearly, far smaller ones by their square."""
KEPT = 1e-30, 1e30
"""Range of operations per second that single precision can represent."""
ROOT_WEIGHTS: FloatArray = np.sqrt(0.5 ** (np.arange(WINDOW)[::-1] / HALF_LIFE))
"""Square roots of the weights of residuals, the newest last."""


@quickly_made
@dataclass(frozen=True, slots=True)
class Observation:
    """Measurements of one interval of a tenant; `miss_cost_us` includes the wait at the device."""

    throughput_ops: float
    miss_ratio: float
    miss_cost_us: float

    @property
    def is_usable(self) -> bool:
        """Whether operations were done and all values are in a range that can be fitted."""
        most = math.inf
        rates = 0 < self.throughput_ops < most and 0 <= self.miss_ratio < most
        return rates and 0 <= self.miss_cost_us < KEPT[1]


def predicted_ops(demand: Demand, observation: Observation) -> float:
    """The throughput that the model predicts from the miss ratio and miss cost of an interval."""
    waits = demand.accesses_per_op * observation.miss_ratio * observation.miss_cost_us
    return US_PER_S * demand.concurrency / (demand.service_us + waits)


def _prior_weight(log_seen: FloatArray) -> float:
    """The weight of the prior: scatter of observations around neighbours, over PRIOR_ERROR."""
    if log_seen.size < 3:
        return PRIOR_WEIGHT
    off = np.abs(log_seen[1:-1] - (log_seen[:-2] + log_seen[2:]) / 2)
    # The median of this is 0.6745 x sqrt(1.5) standard deviations of a normal distribution.
    weight: float = median(off.tolist()) / 0.826 / PRIOR_ERROR
    return min(max(weight, PRIOR_WEIGHT), PRIOR_WEIGHT_MAX)


def _share_told(miss_ratios: FloatArray) -> float:
    """How well observations separate waits from service, from 0 to 1: by changes of the miss ratio.

    The spread is between deciles, since one odd interval means nothing. Changes of the miss cost
    are not used. They come from other tenants at the device, and the cost is a mean over all reads,
    which throughput hardly follows. A fit would take that for service that needs no device.
    """
    last = miss_ratios.size - 1
    at = 0.1 * last, 0.5 * last, 0.9 * last
    # `numpy.quantile` takes many times as long.
    low, middle, high = np.interp(at, np.arange(last + 1), np.sort(miss_ratios)).tolist()
    if high <= low:
        return 0.0
    spread = (high - low) / DECILES_APART / middle if middle > 0 else math.inf
    least, most = MISS_SPREAD
    return min(max((spread - least) / (most - least), 0.0), 1.0)


def split_time(time_us: float, accesses: float, wait_us: float) -> tuple[float, float]:
    """Service time and accesses that make up the time of an operation.

    `wait_us` is the mean wait per access. If measured accesses would wait for longer than the
    operation takes, they overlap, and fewer count.
    """
    least_us = SERVICE_SHARE_MIN * time_us
    if accesses * wait_us > time_us - least_us:
        return least_us, (time_us - least_us) / wait_us
    return time_us - accesses * wait_us, accesses


def _as_measured(prior: Demand, time_us: FloatArray, misses_us: FloatArray) -> tuple[float, float]:
    """Service time and accesses per operation of recent intervals, with accesses as measured."""
    rest_us = median((time_us - prior.accesses_per_op * misses_us).tolist())
    typical_us = median(time_us.tolist())
    if rest_us >= SERVICE_SHARE_MIN * typical_us:
        return max(rest_us, SERVICE_US_MIN), prior.accesses_per_op
    service_us, accesses = split_time(typical_us, prior.accesses_per_op, median(misses_us.tolist()))
    return max(service_us, SERVICE_US_MIN), accesses


class OnlineFit:
    """The demand of one tenant, fitted online; every observation first tests the prediction.

    The error is that of one-step predictions: the model before the interval predicts throughput
    from the miss ratio and the miss cost of the interval. It fades like observations do. `demand`
    is the latest fit, with its error.
    """

    __slots__ = ("_count", "_error_sum", "_error_weight", "_seen", "_solution", "demand")

    def __init__(self, prior: Demand) -> None:
        self.demand = prior
        self._seen = array("f")
        self._count = 0
        self._solution: tuple[float, float] | None = None
        self._error_sum = 0.0
        self._error_weight = 0.0

    def take(self, observation: Observation) -> bool:
        """Take in one interval without fitting; return False if nothing was done in it."""
        if not observation.is_usable:
            return False
        ops = observation.throughput_ops
        if self._count:
            off_pct = 100 * abs(predicted_ops(self.demand, observation) / ops - 1)
            self._error_sum = self._error_sum * FADE + off_pct
            self._error_weight = self._error_weight * FADE + 1
        least, most = KEPT
        row = (min(max(ops, least), most), observation.miss_ratio, observation.miss_cost_us)
        seen = self._seen
        if len(seen) < 3 * WINDOW:
            seen.extend(row)
        else:
            at = 3 * (self._count % WINDOW)
            seen[at], seen[at + 1], seen[at + 2] = row
        self._count += 1
        return True

    def refit(self, prior: Demand) -> None:
        """Fit all observations; `prior` is the demand as measured.

        The fit is least squares of the logarithm of throughput, so residuals are relative. The loss
        is linear in outliers, and older observations fade. The search begins at the last solution;
        if most observations are outliers, it finds one of several minima. The demand is between the
        measured and the fitted split, depending on how well observations separate the two.
        """
        if not self._count:
            self.demand = prior
            return
        # The observations are kept in single precision.
        seen = np.array(self._seen, dtype=np.float64).reshape(-1, 3)
        at = self._count % WINDOW if self._count > WINDOW else 0
        ops, miss_ratios, cost_us = np.roll(seen, -at, axis=0).T
        time_us, misses_us = US_PER_S * prior.concurrency / ops, miss_ratios * cost_us
        measured = _as_measured(prior, time_us[-RECENT:], misses_us[-RECENT:])
        share = _share_told(miss_ratios)
        if share > 0:
            log_seen = np.log(time_us)
            start_us = max(measured[0], prior.service_us * 1e-3, 2 * SERVICE_US_MIN)
            start = self._solution or (start_us, prior.accesses_per_op)
            weights, weight = ROOT_WEIGHTS[-len(seen) :] / SOFT, _prior_weight(log_seen) / SOFT
            believed = prior.accesses_per_op, weight
            least_us = SERVICE_SHARE_MIN * float(time_us.min())
            low = min(max(LOW[0], least_us), HIGH[0]), LOW[1]
            self._solution = fit_split(log_seen, misses_us, weights, believed, start, low, HIGH)
        else:
            self._solution = None
        service_us, accesses = (
            one + share * (other - one)
            for one, other in zip(measured, self._solution or measured, strict=True)
        )
        error_pct = self._error_sum / self._error_weight if self._error_weight else None
        self.demand = Demand(service_us, accesses, prior.concurrency, error_pct)
