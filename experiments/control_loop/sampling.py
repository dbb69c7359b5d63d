# SPDX-License-Identifier: Apache-2.0
"""The sampling error of counterfactuals: white, autocorrelated, or the same for ever."""

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

GROUPS = 16
"""Groups of pages whose misses are told apart."""
RATE = 0.1
"""The share of pages that is sampled."""


@dataclass
class Sampling:
    """Misses of sampled pages, of which `rate` of all are, scatter as counts of a Poisson process.

    An error keeps `kept` of itself from one interval to the next: none is white noise, 1 the error
    of a sample that stays the same. Errors of policies and of groups are independent.
    """

    seed: int
    rate: float = RATE
    kept: float = 0.0

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)
        self._errors: NDArray[np.float64] | None = None

    def sampled(self, expected: NDArray[np.float64]) -> NDArray[np.float64]:
        """Misses as the sample tells them, of the shape of those expected: (policies, groups).

        The square of a normal variate of that mean and deviation has mean and variance of a Poisson
        count (Anscombe 1948), and takes any autocorrelation.
        """
        new = self._random.standard_normal(expected.shape)
        if self._errors is None:
            self._errors = new
        else:
            self._errors = self.kept * self._errors + sqrt(1 - self.kept**2) * new
        counted = (np.sqrt(expected * self.rate) + self._errors / 2) ** 2 - 0.25
        return np.asarray(np.maximum(0.0, counted) / self.rate)
