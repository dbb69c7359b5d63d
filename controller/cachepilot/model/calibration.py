# SPDX-License-Identifier: Apache-2.0
"""Calibration: what is measured over what the counterfactual of the policy in force predicts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cachepilot.model.pages_table import Table, stacked, unstack
from cachepilot.sense.counterfactuals import Floats

Ints = NDArray[np.int64]

PRIOR_S = 5.0
"""What is known of a policy counts like so much time in which it was as far off as the default."""
SHOWN_S = 60.0
"""For so long a policy that was undone counts as measured."""
RATE_HALF_LIFE_S = 13.5
FORGOTTEN_S = 3600.0
"""Half-life of what is known of policies that are not in force."""

MEASURED, PREDICTED, SECONDS, SCATTER, RATE = range(5)
"""Rows of `Calibration.values`."""
FADES = np.array((1.0, 1.0, 1.0, 2.0))
"""Rows before `RATE` fade by these powers: a variance as the square of what it is of."""
LEAST_PAGES = 1e-100
"""What faded below that is forgotten."""


@dataclass(slots=True, eq=False)
class Calibration(Table):
    """Of one tenant: a factor per policy, the first of which is the default.

    A policy that was never in force is taken to be off as the default is: most of what is wrong,
    the sample, readahead or accesses that are not seen, is wrong of all policies alike. `MEASURED`
    and `PREDICTED` are pages of the last `SECONDS` in force, `SCATTER` is by how much the variance
    of the former exceeds that of the sample, `RATE` are predicted misses per second: rows of
    `values`, which has a column per policy.
    """

    def aligned(self, then: Sequence[str], now: Sequence[str]) -> None:
        """Follows other candidates; nothing is known of new ones."""
        found = np.zeros((RATE + 1, len(now)))
        for at, name in enumerate(now):
            if name in then:
                found[:, at] = self.values[:, then.index(name)]
        self.values = found

    def forget_all_but(self, index: int) -> None:
        """The workload changed: how far policies were off before says little of the others."""
        others = np.ones(self.values.shape[1], dtype=np.bool_)
        others[[0, index]] = False
        self.values[:RATE, others] = 0.0

    def factors(self, index: int) -> Floats:
        """Measured over predicted misses, shape (policies,); policy `index` is in force."""
        return np.asarray(Calibrations.of([self]).factors(np.array([index]))[0])

    def of_default_alone(self) -> float:
        """The default's factor by what was measured of it, whatever is in force now."""
        return float(Calibrations.of([self]).of_default_alone()[0])

    def error_of(self, index: int) -> float:
        """The standard error of a policy's factor, as a share of it."""
        return float(Calibrations.of([self]).errors()[0, index])

    def raise_to(self, index: int, factor: float, then: int = 0) -> None:
        """It was shown to be off by so much at least; policy `then` is in force from now on.

        `index` is neither that one nor the default.
        """
        found = self.factors(then)
        predicted = self.values[PREDICTED, index]
        if found[index] >= factor or predicted <= 0:
            return
        seconds = self.values[SECONDS, index] = max(self.values[SECONDS, index], SHOWN_S)
        weight = PRIOR_S / seconds
        ratio = factor * (1 + weight) - weight * float(found[0])
        self.values[MEASURED, index] = ratio * max(predicted, 1.0)


@dataclass
class Calibrations:
    """Of many tenants with as many policies: the same with an axis of tenants first.

    `index`, shape (tenants,), are the policies in force.
    """

    values: Floats

    @classmethod
    def of(cls, calibrations: Sequence[Calibration]) -> "Calibrations":
        """A copy; `store` writes it back."""
        return cls(stacked(calibrations))

    def store(self, calibrations: Sequence[Calibration]) -> None:
        """Makes them what these are."""
        unstack(self.values, calibrations)

    @property
    def rate(self) -> Floats:
        """Predicted misses per second, shape (tenants, policies)."""
        return self.values[:, RATE]

    def pass_time(self, misses: Floats, elapsed_s: float) -> None:
        """Follows the predicted misses of an interval, shape (tenants, policies)."""
        now = misses / elapsed_s
        keep = 0.5 ** (elapsed_s / RATE_HALF_LIFE_S)
        rate = self.values[:, RATE]
        self.values[:, RATE] = np.where(rate > 0, keep * rate + (1 - keep) * now, now)

    def thin(self, index: Ints, share: Floats) -> None:
        """Only that share of the sampled pages is sampled still: less is known of the others."""
        rows = np.arange(len(index))
        seconds = self.values[:, SECONDS]
        kept = seconds[rows, index]
        seconds *= share[:, None]
        seconds[rows, index] = kept

    def factors(self, index: Ints) -> Floats:
        """Measured over predicted misses, shape (tenants, policies).

        What is known of the default counts against what is known of the policy in force, each the
        expectation for the other: two linear equations. For all others the default's is expected.
        """
        rows = np.arange(len(index))
        predicted = self.values[:, PREDICTED]
        known = np.where(predicted > 0, self.values[:, SECONDS], 0.0)
        # Less than a page says nothing of the ratio.
        ratio = self.values[:, MEASURED] / np.maximum(predicted, 1.0)
        mine, theirs, default = known[rows, index], known[:, 0], ratio[:, 0]
        shrunk = PRIOR_S / (theirs + PRIOR_S)
        known_s = mine + theirs * shrunk
        is_known = known_s > 0
        in_force = mine * ratio[rows, index] + theirs * shrunk * default
        in_force /= np.where(is_known, known_s, 1.0)
        both = np.where(is_known, (1 - shrunk) * default + shrunk * in_force, 1.0)
        alone = np.where(theirs > 0, default, 1.0)
        default = np.where(index == 0, alone, both)
        found = (known * ratio + PRIOR_S * default[:, None]) / (known + PRIOR_S)
        found[:, 0] = default
        return np.asarray(found)

    def of_default_alone(self) -> Floats:
        """The default's factor by what was measured of it, whatever is in force now."""
        measured, predicted = self.values[:, :SECONDS, 0].T
        # Both fade alike, and their ratio does not.
        is_known = predicted > LEAST_PAGES
        return np.where(is_known, measured / np.where(is_known, predicted, 1.0), 1.0)

    def errors(self) -> Floats:
        """Standard errors of factors, as a share of them, shape (tenants, policies)."""
        measured, scatter = self.values[:, MEASURED], self.values[:, SCATTER]
        found = np.sqrt(np.maximum(scatter, 0.0)) / np.maximum(measured, LEAST_PAGES)
        return np.where(measured > LEAST_PAGES, found, 0.0)

    def take(
        self,
        index: Ints,
        measured: Floats,
        predicted: Floats,
        scatter: Floats,
        elapsed_s: float,
        half_life_s: float,
    ) -> None:
        """An interval of the policies in force, by tenant."""
        slow, fast = 0.5 ** (elapsed_s / FORGOTTEN_S), 0.5 ** (elapsed_s / half_life_s)
        rows = np.arange(len(index))
        new = np.stack((measured, predicted, np.full(len(rows), elapsed_s), scatter), axis=1)
        known = self.values[:, :RATE]
        now = fast**FADES * known[rows, :, index] + new
        known *= (slow**FADES)[:, None]
        known[rows, :, index] = now
