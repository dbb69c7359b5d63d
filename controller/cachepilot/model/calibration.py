# SPDX-License-Identifier: Apache-2.0
"""Calibration: measured misses of the policy in force against those of its counterfactual.

Accesses that are not seen, readahead and most of the sampling error are in proportion to the
prediction, so a factor corrects them. A sample may also misplace a cliff: of a loop slightly larger
than the page cache it may predict no misses, while all accesses miss. No factor corrects that.
Misses beyond `FACTOR_MOST` times the prediction therefore count per access, as an offset.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cachepilot.sense.counterfactuals import Floats
from cachepilot.tables import Table, stacked, unstack

Ints = NDArray[np.int64]

PRIOR_S = 5.0
"""Weight, in seconds, of the prior that a policy's predictions are as wrong as those of others."""
SHOWN_S = 60.0
"""Seconds of measurement for which the trial of an undone policy counts at least."""
RATE_HALF_LIFE_S = 13.5
FORGOTTEN_S = 3600.0
"""Half-life, in seconds, of what is known of policies that are not in force."""

TOLD_PAGES = 100.0
"""With so many predicted pages a policy's error tells half of what it may tell of other policies.
Counts scatter by the square root of their number, so its factor is then known to a tenth."""
FACTOR_MOST = 4.0
"""Misses beyond so many times the prediction are not in proportion to it."""

MEASURED, PREDICTED, SECONDS, SCATTER, ACCESSES, RATE = range(6)
"""Rows of `Calibration.values`."""
FADES = np.array((1.0, 1.0, 1.0, 2.0, 1.0))
"""Exponents with which the rows before `RATE` fade: a variance fades as the square."""
LEAST_PAGES = 1e-100
"""Amounts that have faded below this are taken to be unknown."""


@dataclass(slots=True, eq=False)
class Calibration(Table):
    """The calibration of one tenant: a factor and an offset per policy, the default first.

    Most errors, such as those of sampling, readahead, or accesses that are not seen, are the same
    for all policies. A policy that was never in force is therefore assumed to be as wrong as the
    default, and as the policies that were: see `_priors`.
    `values` has a column per policy and these rows: `MEASURED` and `PREDICTED` are pages missed in
    the last `SECONDS` in force, in which there were so many `ACCESSES`. `SCATTER` is the variance
    of the measured misses beyond that of the sample. `RATE` are predicted misses per second.
    """

    def aligned(self, then: Sequence[str], now: Sequence[str]) -> None:
        """Follow other candidates, from policies `then` to `now`; nothing is known of new ones."""
        found = np.zeros((RATE + 1, len(now)))
        for at, name in enumerate(now):
            if name in then:
                found[:, at] = self.values[:, then.index(name)]
        self.values = found

    def forget_all_but(self, index: int) -> None:
        """Forget policies but the default and `index`: earlier errors say little after a change."""
        others = np.ones(self.values.shape[1], dtype=np.bool_)
        others[[0, index]] = False
        self.values[:RATE, others] = 0.0

    def factors(self, index: int) -> Floats:
        """Measured over predicted misses, shape (policies,); policy `index` is in force."""
        return np.asarray(Calibrations.of([self]).factors(np.array([index]))[0])

    def of_default_alone(self) -> float:
        """The default's factor by its own measurements, regardless of the policy in force."""
        return float(Calibrations.of([self]).of_default_alone()[0])

    def error_of(self, index: int) -> float:
        """The relative standard error of a policy's factor."""
        return float(Calibrations.of([self]).errors()[0, index])

    def raise_to(self, index: int, factor: float, then: int = 0, weight: float = 1.0) -> None:
        """Raise the expected misses of policy `index` to `factor` times its prediction, or more.

        Its trial showed that it misses so much. Policy `then` is in force afterwards, and `index`
        is neither that one nor the default.
        """
        predicted, accesses = self.values[[PREDICTED, ACCESSES], index]
        if predicted <= 0:
            return
        now, at = Calibrations(stacked([self]), np.array([weight])), np.array([then])
        found = now.factors(at)[0, index]
        expected = found * predicted + now.offsets(at)[0, index] * accesses
        if expected >= factor * predicted:
            return
        seconds = self.values[SECONDS, index] = max(self.values[SECONDS, index], SHOWN_S)
        now.values[0, SECONDS, index] = seconds
        prior = float(now.priors(at)[0, index])
        ratio = factor + (factor - prior) * PRIOR_S / seconds
        self.values[MEASURED, index] = ratio * max(predicted, 1.0)


@dataclass
class Calibrations:
    """The calibrations of many tenants with equally many policies, with a leading tenant axis.

    The argument `index`, shape (tenants,), is the policy in force of each tenant. If no other
    policy was in force, factors are expected to be `weight` times the default's, shape (tenants,).
    """

    values: Floats
    weight: Floats

    @classmethod
    def of(
        cls, calibrations: Sequence[Calibration], weight: Floats | None = None
    ) -> "Calibrations":
        """A copy of the values of many tenants; `store` writes it back. Weights are 1 if None."""
        return cls(stacked(calibrations), np.ones(len(calibrations)) if weight is None else weight)

    def store(self, calibrations: Sequence[Calibration]) -> None:
        """Write each tenant's values back to its calibration."""
        unstack(self.values, calibrations)

    @property
    def rate(self) -> Floats:
        """Predicted misses per second, shape (tenants, policies)."""
        return self.values[:, RATE]

    def pass_time(self, misses: Floats, elapsed_s: float) -> None:
        """Follow the predicted misses of an interval, shape (tenants, policies)."""
        now = misses / elapsed_s
        keep = 0.5 ** (elapsed_s / RATE_HALF_LIFE_S)
        rate = self.values[:, RATE]
        self.values[:, RATE] = np.where(rate > 0, keep * rate + (1 - keep) * now, now)

    def thin(self, index: Ints, share: Floats) -> None:
        """Let less be known of policies not in force: `share` of the sample is still sampled."""
        rows = np.arange(len(index))
        seconds = self.values[:, SECONDS]
        kept = seconds[rows, index]
        seconds *= share[:, None]
        seconds[rows, index] = kept

    def factors(self, index: Ints) -> Floats:
        """Measured over predicted misses, at most `FACTOR_MOST`, shape (tenants, policies)."""
        known, found = self._ratios()
        return _expected(known, found, *self._factor_priors(known, found, index))

    def priors(self, index: Ints) -> Floats:
        """Factors that are expected without a policy's own measurements, of the same shape."""
        return self._factor_priors(*self._ratios(), index)[1]

    def _factor_priors(self, known: Floats, found: Floats, index: Ints) -> tuple[Floats, Floats]:
        default = _default(known, found, index, 1.0, self.weight)
        predicted = self.values[:, PREDICTED]
        # A misplaced cliff is an error of one policy alone.
        tells = np.where(self._excess() > 0, 0.0, predicted / (predicted + TOLD_PAGES))
        return default, _priors(known, found, default, self.weight, tells)

    def _ratios(self) -> tuple[Floats, Floats]:
        predicted = self.values[:, PREDICTED]
        known = np.where(predicted > 0, self.values[:, SECONDS], 0.0)
        # A prediction of less than a page says nothing of the ratio.
        ratio = self.values[:, MEASURED] / np.maximum(predicted, 1.0)
        return known, np.minimum(ratio, FACTOR_MOST)

    def offsets(self, index: Ints) -> Floats:
        """Misses per access beyond those that factors explain, shape (tenants, policies)."""
        known = np.where(self.values[:, ACCESSES] > 0, self.values[:, SECONDS], 0.0)
        beyond = self._beyond()
        default = _default(known, beyond, index, 0.0, np.ones(len(index)))
        # A misplaced cliff is an error of one policy alone.
        return _expected(known, beyond, default, default[:, None])

    def default_offset_alone(self) -> Floats:
        """The default's offset by its own measurements, whatever is in force, shape (tenants,)."""
        return self._beyond()[:, 0]

    def _beyond(self) -> Floats:
        beyond = np.maximum(0.0, self._excess())
        accesses = self.values[:, ACCESSES]
        # Both fade by the same factor, so their ratio stays valid.
        is_known = accesses > LEAST_PAGES
        return np.where(is_known, beyond / np.where(is_known, accesses, 1.0), 0.0)

    def _excess(self) -> Floats:
        """Measured misses less those that the largest factor explains."""
        measured, predicted = self.values[:, MEASURED], self.values[:, PREDICTED]
        return np.asarray(measured - FACTOR_MOST * np.maximum(predicted, 1.0))

    def of_default_alone(self) -> Floats:
        """The default's factor by its own measurements, whatever is in force, shape (tenants,)."""
        measured, predicted = self.values[:, :SECONDS, 0].T
        # Both fade by the same factor, so their ratio stays valid.
        is_known = predicted > LEAST_PAGES
        ratio = np.where(is_known, measured / np.where(is_known, predicted, 1.0), 1.0)
        return np.minimum(ratio, FACTOR_MOST)

    def errors(self) -> Floats:
        """Relative standard errors of factors, shape (tenants, policies); 0 where unknown."""
        measured, scatter = self.values[:, MEASURED], self.values[:, SCATTER]
        found = np.sqrt(np.maximum(scatter, 0.0)) / np.maximum(measured, LEAST_PAGES)
        return np.where(measured > LEAST_PAGES, found, 0.0)

    def take(
        self,
        index: Ints,
        measured: Floats,
        predicted: Floats,
        scatter: Floats,
        accesses: Floats,
        elapsed_s: float,
        half_life_s: float,
    ) -> None:
        """Take in an interval of the policies in force; arrays have the shape (tenants,)."""
        slow, fast = 0.5 ** (elapsed_s / FORGOTTEN_S), 0.5 ** (elapsed_s / half_life_s)
        rows = np.arange(len(index))
        seconds = np.full(len(rows), elapsed_s)
        new = np.stack((measured, predicted, seconds, scatter, accesses), axis=1)
        known = self.values[:, :RATE]
        now = fast**FADES * known[rows, :, index] + new
        known *= (slow**FADES)[:, None]
        known[rows, :, index] = now


def _expected(known: Floats, found: Floats, default: Floats, priors: Floats) -> Floats:
    """Values that are expected of all policies, shape (tenants, policies).

    `found` are the values measured in `known` seconds, and `priors` what is expected without them.
    """
    expected = (known * found + PRIOR_S * priors) / (known + PRIOR_S)
    expected[:, 0] = default
    return np.asarray(expected)


def _default(known: Floats, found: Floats, index: Ints, nothing: float, weight: Floats) -> Floats:
    """The value expected of the default, shape (tenants,); `nothing` without any measurement.

    The default and the policy in force are each the prior of the other, which makes two linear
    equations. The value of the policy in force is expected to be `weight` times the default's.
    """
    rows = np.arange(len(index))
    mine, theirs, default = known[rows, index], known[:, 0], found[:, 0]
    shrunk = PRIOR_S / (theirs + PRIOR_S)
    known_s = mine + theirs * shrunk
    is_known = known_s > 0
    in_force = mine * found[rows, index] / np.where(index == 0, 1.0, weight)
    in_force = (in_force + theirs * shrunk * default) / np.where(is_known, known_s, 1.0)
    both = np.where(is_known, (1 - shrunk) * default + shrunk * in_force, nothing)
    alone = np.where(theirs > 0, default, nothing)
    return np.where(index == 0, alone, both)


def _priors(known: Floats, found: Floats, default: Floats, weight: Floats, tells: Floats) -> Floats:
    """The factors that are expected before they are measured, shape (tenants, policies).

    The error of a policy's prediction has a part that all policies but the default share, and one
    of its own; nothing tells which is larger. If their variances are equal, the best guess of the
    next error is the sum of k known ones over k + 1. A policy that was not in force is therefore
    expected at the mean of `weight` times the default's factor and of the factors of those that
    were, each by the share `tells`. That fades as it is measured itself: errors of others must not
    come back as its own. Factors count with the weight that pages had when they were missed.
    """
    alike = np.minimum(weight * default, np.maximum(FACTOR_MOST, default))[:, None]
    own = known / (known + PRIOR_S)
    told = own * tells
    told[:, 0] = 0.0
    off = told * (found - alike)
    others = off.sum(axis=1, keepdims=True) - off
    count = told.sum(axis=1, keepdims=True) - told
    return np.asarray(alike + (1 - own) * others / (1 + count))
