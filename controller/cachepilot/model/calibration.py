# SPDX-License-Identifier: Apache-2.0
"""Calibration: what is measured over what the counterfactual of the policy in force predicts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cachepilot.sense.counterfactuals import Floats

PRIOR_S = 5.0
"""What is known of a policy counts like so much time in which it was as far off as the default."""
SHOWN_S = 60.0
"""For so long a policy that was undone counts as measured."""
RATE_HALF_LIFE_S = 13.5
FORGOTTEN_S = 3600.0
"""Half-life of what is known of policies that are not in force."""


@dataclass
class Calibration:
    """Of one tenant: a factor per policy, the first of which is the default.

    A policy that was never in force is taken to be off as the default is: most of what is wrong,
    the sample, readahead or accesses that are not seen, is wrong of all policies alike. `measured`
    and `predicted` are pages of the last `seconds` in force; `rate` are predicted misses per
    second.
    """

    measured: list[float] = field(default_factory=list)
    predicted: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)

    def aligned(self, then: Sequence[str], now: Sequence[str]) -> None:
        """Follows other candidates; nothing is known of new ones."""
        for values in (self.measured, self.predicted, self.seconds, self.rate):
            known = dict(zip(then, values, strict=True))
            values[:] = [known.get(name, 0.0) for name in now]

    def pass_time(self, misses: Floats, elapsed_s: float) -> None:
        """Follows the predicted misses of an interval, shape (policies,)."""
        now = misses / elapsed_s
        rate = np.array(self.rate)
        keep = 0.5 ** (elapsed_s / RATE_HALF_LIFE_S)
        self.rate = np.where(rate > 0, keep * rate + (1 - keep) * now, now).tolist()

    def forget_all_but(self, index: int) -> None:
        """The workload changed: how far policies were off before says little of the others."""
        for values in (self.measured, self.predicted, self.seconds):
            values[:] = [one if i in (0, index) else 0.0 for i, one in enumerate(values)]

    def thin(self, index: int, share: float) -> None:
        """Only that share of the sampled pages is sampled still: less is known of the others."""
        self.seconds[:] = [one if i == index else share * one for i, one in enumerate(self.seconds)]

    def factors(self, index: int) -> Floats:
        """Measured over predicted misses, shape (policies,); policy `index` is in force.

        What is known of the default counts against what is known of the policy in force, each the
        expectation for the other: two linear equations. For all others the default's is expected.
        """
        predicted = np.array(self.predicted)
        known = np.where(predicted > 0, self.seconds, 0.0)
        # Less than a page says nothing of the ratio.
        ratio = np.array(self.measured) / np.maximum(predicted, 1.0)
        mine, theirs = float(known[index]), float(known[0])
        if index == 0:
            default = float(ratio[0]) if theirs > 0 else 1.0
        elif mine + theirs == 0:
            default = 1.0
        else:
            shrunk = PRIOR_S / (theirs + PRIOR_S)
            known_s = mine + theirs * shrunk
            in_force = (mine * ratio[index] + theirs * shrunk * ratio[0]) / known_s
            default = float((1 - shrunk) * ratio[0] + shrunk * in_force)
        found = (known * ratio + PRIOR_S * default) / (known + PRIOR_S)
        found[0] = default
        return np.asarray(found)

    def of_default_alone(self) -> float:
        """The default's factor by what was measured of it, whatever is in force now."""
        if self.predicted[0] <= 0:
            return 1.0
        ratio = self.measured[0] / max(self.predicted[0], 1.0)
        return (self.seconds[0] * ratio + PRIOR_S) / (self.seconds[0] + PRIOR_S)

    def raise_to(self, index: int, factor: float, then: int = 0) -> None:
        """It was shown to be off by so much at least; policy `then` is in force from now on.

        `index` is neither that one nor the default.
        """
        found = self.factors(then)
        if found[index] >= factor or self.predicted[index] <= 0:
            return
        self.seconds[index] = max(self.seconds[index], SHOWN_S)
        weight = PRIOR_S / self.seconds[index]
        ratio = factor * (1 + weight) - weight * float(found[0])
        self.measured[index] = ratio * max(self.predicted[index], 1.0)

    def take(
        self, index: int, measured: float, predicted: float, elapsed_s: float, half_life_s: float
    ) -> None:
        """An interval of the policy in force."""
        slow, fast = 0.5 ** (elapsed_s / FORGOTTEN_S), 0.5 ** (elapsed_s / half_life_s)
        new = (measured, predicted, elapsed_s)
        for values, one in zip((self.measured, self.predicted, self.seconds), new, strict=True):
            kept = values[index]
            values[:] = [slow * value for value in values]
            values[index] = fast * kept + one
