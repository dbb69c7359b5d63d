# SPDX-License-Identifier: Apache-2.0
"""CPUs that tenants need, and how many of them a node can give.

What a tenant needs is stated by its operator, or else measured: its CPU time per second, a mean of
some seconds. A mean does not tell how many of its tasks want to run at a moment. Of tasks that come
independently of each other and never wait, that number has a Poisson distribution: its variance is
its mean (M/G/infinity; Takacs, 1962). So beside the mean `MARGIN` standard deviations stay free,
the square-root rule for many servers (Halfin and Whitt, 1981). With one of them more tasks want to
run than there are CPUs for at most a sixth of the time. On 2 CPUs half of their time may be needed,
on 8 70%, on 64 88%. Stated CPUs are taken to be all that a tenant needs: nothing is added.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cachepilot.domain.snapshot import FloatArray, IntArray
from cachepilot.plan.problem.asked import Asked

MARGIN = 1.0
COUNT_MAX = 1 << 40
"""Where CPUs bound nothing."""


def with_margin(mean: FloatArray) -> FloatArray:
    """CPUs that are to be there for tasks that need so many on average."""
    found: FloatArray = mean + MARGIN * np.sqrt(np.maximum(mean, 0.0))
    return found


def without_margin(cpus: FloatArray) -> FloatArray:
    """How many of so many CPUs tasks may need on average: the inverse of `with_margin`."""
    root = (np.sqrt(MARGIN**2 + 4 * np.maximum(cpus, 0.0)) - MARGIN) / 2
    found: FloatArray = root**2
    return found


@dataclass(frozen=True)
class CpuNeeds:
    """CPUs that I tenants need now, (I,): as `stated`, or as `measured` where nothing is stated.

    Both are 0 where nothing is known; `known` says where anything is.
    """

    stated: FloatArray
    measured: FloatArray
    known: Sequence[bool]

    @classmethod
    def of(cls, asked: Asked) -> "CpuNeeds":
        """Those of the tenants of a node."""
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
        """Those of several nodes, one after another."""
        return cls(
            stated=np.concatenate([one.stated for one in parts]),
            measured=np.concatenate([one.measured for one in parts]),
            known=[one for part in parts for one in part.known],
        )

    def now(self, row: int) -> float | None:
        """What one tenant needs now; None where that is not known."""
        return float(self.stated[row] + self.measured[row]) if self.known[row] else None

    def short(self, more: FloatArray, cpus: float) -> FloatArray:
        """By how many of a node's CPUs all of them, who needed `more`, (I, T), are short, (T,)."""
        measured = self.measured.sum() + more.sum(axis=0)
        found: FloatArray = with_margin(measured) + self.stated.sum() - cpus
        return found

    def more_like(self, more: FloatArray, cpus: float) -> IntArray:
        """How many more tenants like each fit on a node with all of them, (I,), by its CPUs.

        They needed `more`, (I, T), when it needed more, all at once.
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
    """How often a need fits into what is free."""
    most = np.full(np.broadcast_shapes(np.shape(free), need.shape), float(COUNT_MAX))
    fit = np.divide(free, need, out=most, where=need > 0)
    found: IntArray = np.floor(np.minimum(fit, COUNT_MAX)).astype(np.int64)
    return found
