# SPDX-License-Identifier: Apache-2.0
"""The sampling error of counterfactuals: white, autocorrelated, or constant."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

GROUPS = 16
"""Number of groups of pages whose misses are counted separately."""
RATE = 0.1
"""Share of pages that is sampled."""


@dataclass
class Sampling:
    """Gives misses of sampled pages the scatter of a Poisson process; `rate` is the share sampled.

    An error keeps the share `kept` of itself from one interval to the next: 0 is white noise, and 1
    is the error of a sample that never changes. Errors of policies and of groups are independent.
    """

    seed: int
    rate: float = RATE
    kept: float = 0.0

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._errors: NDArray[np.float64] | None = None

    def sampled(self, expected: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return misses with a sampling error, of the same shape as `expected`: (policies, groups).

        The square of a normal variate with suitable mean and deviation has the mean and variance of
        a Poisson count (Anscombe 1948), and it can have any autocorrelation.
        """
        new = self._random.standard_normal(expected.shape)
        if self._errors is None:
            self._errors = new
        else:
            self._errors = self.kept * self._errors + sqrt(1 - self.kept**2) * new
        counted = (np.sqrt(expected * self.rate) + self._errors / 2) ** 2 - 0.25
        return np.asarray(np.maximum(0.0, counted) / self.rate)
