# SPDX-License-Identifier: Apache-2.0
"""CPUs that tenants need, and how many of them a node can provide.

The operator states what a tenant needs; otherwise it is measured as CPU time per second, a mean
over some seconds. A mean does not show how many tasks want to run at one moment. For tasks that
arrive independently of each other and never wait, that number has a Poisson distribution, whose
variance is its mean (M/G/infinity; Takacs, 1962). So `MARGIN` standard deviations stay free beside
the mean, which is the square-root rule for many servers (Halfin and Whitt, 1981). With one standard
deviation, more tasks than CPUs want to run at most a sixth of the time. Tenants may then need half
of the time of 2 CPUs, 70% of 8, and 88% of 64. Stated CPUs are assumed to be all that a tenant
needs, so nothing is added to them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import FloatArray, IntArray
from cachepilot.plan.problem.asked import Asked

MARGIN = 1.0
COUNT_MAX = 1 << 40
"""The number of tenants that fit if CPUs are no limit."""


def with_margin(mean: FloatArray) -> FloatArray:
    """The CPUs that must be there for tasks that need `mean` CPUs on average."""
    found: FloatArray = mean + MARGIN * np.sqrt(np.maximum(mean, 0.0))
    return found


def without_margin(cpus: FloatArray) -> FloatArray:
    """The CPUs that tasks may need on average: the inverse of `with_margin`."""
    root = (np.sqrt(MARGIN**2 + 4 * np.maximum(cpus, 0.0)) - MARGIN) / 2
    found: FloatArray = root**2
    return found


@dataclass(frozen=True)
class CpuNeeds:
    """CPUs that I tenants need now, (I,): `stated`, or `measured` if nothing is stated.

    Both are 0 if neither is known; `known` marks the tenants with either.
    """

    stated: FloatArray
    measured: FloatArray
    known: Sequence[bool]

    @classmethod
    def of(cls, asked: Asked) -> "CpuNeeds":
        """The CPUs that the tenants of a node need."""
        pairs = list(zip(asked.objectives, asked.tenants, strict=True))
        stated = [objective.cpus for objective, _ in pairs]
        measured = [
            tenant.indicators.cpus if objective.cpus is None else None
            for objective, tenant in pairs
        ]
        return cls(
            stated=np.array([one or 0.0 for one in stated], dtype=np.float64),
            measured=np.array([one or 0.0 for one in measured], dtype=np.float64),
            known=[
                one is not None or other is not None
                for one, other in zip(stated, measured, strict=True)
            ],
        )

    @classmethod
    def joined(cls, parts: Sequence["CpuNeeds"]) -> "CpuNeeds":
        """Concatenate the needs of several nodes."""
        return cls(
            stated=np.concatenate([one.stated for one in parts]),
            measured=np.concatenate([one.measured for one in parts]),
            known=[one for part in parts for one in part.known],
        )

    def now(self, row: int) -> float | None:
        """The CPUs that one tenant needs now; None if not known."""
        return float(self.stated[row] + self.measured[row]) if self.known[row] else None

    def short(self, more: FloatArray, cpus: float) -> FloatArray:
        """The CPUs that a node with `cpus` lacks for all of the tenants, (T,).

        `more`, (I, T), is how much more they needed at each time. Negative if there are enough.
        """
        measured = self.measured.sum() + more.sum(axis=0)
        found: FloatArray = with_margin(measured) + self.stated.sum() - cpus
        return found

    def more_like(self, more: FloatArray, cpus: float) -> IntArray:
        """How many more tenants like each fit on a node beside its tenants, (I,), by its CPUs.

        At each time all copies need `more`, (I, T), at once.
        """
        if not np.isfinite(cpus):
            return np.full(self.stated.size, COUNT_MAX)
        measured = self.measured[:, None] + more
        free_of_stated = cpus - with_margin(measured.sum(axis=0)) - self.stated.sum()
        if free_of_stated.min() < 0:
            return np.zeros(self.stated.size, dtype=np.int64)
        mean = without_margin(np.array(cpus - self.stated.sum())) - measured.sum(axis=0)
        found: IntArray = np.minimum(
            _times(free_of_stated.min(), self.stated), _times(mean, measured).min(axis=1)
        )
        return found


def _times(free: FloatArray, need: FloatArray) -> IntArray:
    """How many times a need fits into what is free."""
    most = np.full(np.broadcast_shapes(np.shape(free), need.shape), float(COUNT_MAX))
    fit = np.divide(free, need, out=most, where=need > 0)
    found: IntArray = np.floor(np.minimum(fit, COUNT_MAX)).astype(np.int64)
    return found
