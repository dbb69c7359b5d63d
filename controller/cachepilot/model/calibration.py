# SPDX-License-Identifier: Apache-2.0
"""Calibration: what is measured beside what the counterfactual of the policy in force predicts.

Accesses that are not seen, readahead and most of the error of a sample are in proportion to what is
predicted: a factor. A sample may also misplace a cliff: of a loop that is a little larger than the
page cache it predicts that nothing misses, and all of it does. No factor tells of that. So what is
measured beyond `FACTOR_MOST` times what is predicted counts by access.
"""

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

FACTOR_MOST = 4.0
"""What is measured beyond so many times what is predicted is in no proportion to that."""

MEASURED, PREDICTED, SECONDS, SCATTER, ACCESSES, RATE = range(6)
"""Rows of `Calibration.values`."""
FADES = np.array((1.0, 1.0, 1.0, 2.0, 1.0))
"""Rows before `RATE` fade by these powers: a variance as the square of what it is of."""
LEAST_PAGES = 1e-100
"""What faded below that is forgotten."""


@dataclass(slots=True, eq=False)
class Calibration(Table):
    """Of one tenant: a factor and an offset per policy, the first of which is the default.

    A policy that was never in force is taken to be off as the default is: most of what is wrong,
    the sample, readahead or accesses that are not seen, is wrong of all policies alike. `MEASURED`
    and `PREDICTED` are pages of the last `SECONDS` in force, in which there were so many
    `ACCESSES`; `SCATTER` is by how much the variance of the former exceeds that of the sample,
    `RATE` are predicted misses per second: rows of `values`, which has a column per policy.
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
        predicted, accesses = self.values[[PREDICTED, ACCESSES], index]
        if predicted <= 0:
            return
        now, at = Calibrations.of([self]), np.array([then])
        found = now.factors(at)[0]
        expected = found[index] * predicted + now.offsets(at)[0, index] * accesses
        if expected >= factor * predicted:
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
        """Measured over predicted misses, shape (tenants, policies)."""
        predicted = self.values[:, PREDICTED]
        known = np.where(predicted > 0, self.values[:, SECONDS], 0.0)
        # Less than a page says nothing of the ratio.
        ratio = self.values[:, MEASURED] / np.maximum(predicted, 1.0)
        return _expected(known, np.minimum(ratio, FACTOR_MOST), index, 1.0)

    def offsets(self, index: Ints) -> Floats:
        """Misses per access beyond what factors make of predictions, (tenants, policies)."""
        known = np.where(self.values[:, ACCESSES] > 0, self.values[:, SECONDS], 0.0)
        return _expected(known, self._beyond(), index, 0.0)

    def default_offset_alone(self) -> Floats:
        """The default's offset by what was measured of it, whatever is in force now."""
        return self._beyond()[:, 0]

    def _beyond(self) -> Floats:
        measured, predicted = self.values[:, MEASURED], self.values[:, PREDICTED]
        beyond = np.maximum(0.0, measured - FACTOR_MOST * np.maximum(predicted, 1.0))
        accesses = self.values[:, ACCESSES]
        # Both fade alike.
        is_known = accesses > LEAST_PAGES
        return np.where(is_known, beyond / np.where(is_known, accesses, 1.0), 0.0)

    def of_default_alone(self) -> Floats:
        """The default's factor by what was measured of it, whatever is in force now."""
        measured, predicted = self.values[:, :SECONDS, 0].T
        # Both fade alike, and their ratio does not.
        is_known = predicted > LEAST_PAGES
        ratio = np.where(is_known, measured / np.where(is_known, predicted, 1.0), 1.0)
        return np.minimum(ratio, FACTOR_MOST)

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
        accesses: Floats,
        elapsed_s: float,
        half_life_s: float,
    ) -> None:
        """An interval of the policies in force, by tenant."""
        slow, fast = 0.5 ** (elapsed_s / FORGOTTEN_S), 0.5 ** (elapsed_s / half_life_s)
        rows = np.arange(len(index))
        seconds = np.full(len(rows), elapsed_s)
        new = np.stack((measured, predicted, seconds, scatter, accesses), axis=1)
        known = self.values[:, :RATE]
        now = fast**FADES * known[rows, :, index] + new
        known *= (slow**FADES)[:, None]
        known[rows, :, index] = now


def _expected(known: Floats, found: Floats, index: Ints, nothing: float) -> Floats:
    """What was `found` of policies in `known` seconds, or is expected of them, (tenants, policies).

    What is known of the default counts against what is known of the policy in force, each the
    expectation for the other: two linear equations. For all others the default's is expected.
    """
    rows = np.arange(len(index))
    mine, theirs, default = known[rows, index], known[:, 0], found[:, 0]
    shrunk = PRIOR_S / (theirs + PRIOR_S)
    known_s = mine + theirs * shrunk
    is_known = known_s > 0
    in_force = mine * found[rows, index] + theirs * shrunk * default
    in_force /= np.where(is_known, known_s, 1.0)
    both = np.where(is_known, (1 - shrunk) * default + shrunk * in_force, nothing)
    alone = np.where(theirs > 0, default, nothing)
    default = np.where(index == 0, alone, both)
    expected = (known * found + PRIOR_S * default[:, None]) / (known + PRIOR_S)
    expected[:, 0] = default
    return np.asarray(expected)
