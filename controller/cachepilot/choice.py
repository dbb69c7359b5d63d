# SPDX-License-Identifier: Apache-2.0
"""The choice of a policy by predicted miss ratios, and the cost of that choice in hindsight.

Regret is the miss ratio of the chosen policy minus that of the best one. Both are measured by full
simulation, so regret is never negative.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

SAMPLED_PAGES_MIN = 2048
FIXED_CHOICES = ("lru", "s3fifo", "kernel_lru")
BY_CURVES = "by curves"
ORDINARY = ("kernel_lru", "lru", "fifo")
"""Among policies with equal miss ratios, the first of these is preferred: the kernel's own needs no
change, and the others do the least work."""


def _least(miss_ratios: Mapping[str, float]) -> str:
    least = min(miss_ratios.values())
    equals = [policy for policy, ratio in miss_ratios.items() if ratio == least]
    return next((policy for policy in ORDINARY if policy in equals), equals[0])


@dataclass(frozen=True)
class Cell:
    """One trace at one size: miss ratio per policy, measured and predicted."""

    trace: str
    size_pages: int
    measured: Mapping[str, float]
    predicted: Mapping[str, float]

    @property
    def best(self) -> str:
        """The policy with the lowest measured miss ratio; ties are broken by ORDINARY."""
        return _least(self.measured)

    @property
    def chosen(self) -> str:
        """The policy with the lowest predicted miss ratio; ties are broken by ORDINARY."""
        return _least(self.predicted)

    def regret(self, policy: str) -> float:
        """Return the measured miss ratio of `policy` above the best."""
        return self.measured[policy] - self.measured[self.best]


@dataclass(frozen=True)
class Regret:
    """Regret of one strategy over all cells, in miss ratio."""

    strategy: str
    mean: float
    worst: float
    worst_trace: str
    worst_size_pages: int


def choice_rate(footprint_pages: int) -> float:
    """Return a sampling rate in (0, 1] that leaves at least 2,048 distinct pages.

    Hash sampling keeps a binomial number of pages. Three standard deviations are added, so that the
    minimum is reached in nearly every sample and not only on average. A smaller footprint is taken
    whole (rate 1).
    """
    wanted = SAMPLED_PAGES_MIN + 3 * sqrt(SAMPLED_PAGES_MIN)
    return min(1.0, wanted / max(footprint_pages, 1))


def _regret(strategy: str, cells: Sequence[Cell], choices: Sequence[str]) -> Regret:
    costs = [cell.regret(choice) for cell, choice in zip(cells, choices, strict=True)]
    worst = max(range(len(cells)), key=costs.__getitem__)
    return Regret(
        strategy=strategy,
        mean=sum(costs) / len(costs),
        worst=costs[worst],
        worst_trace=cells[worst].trace,
        worst_size_pages=cells[worst].size_pages,
    )


def regrets(cells: Iterable[Cell]) -> list[Regret]:
    """Return the regret of the choice by curves, and of always using one policy.

    A fixed policy is included only if every cell measured it.
    """
    rows = list(cells)
    if not rows:
        return []
    found = [_regret(BY_CURVES, rows, [cell.chosen for cell in rows])]
    for policy in FIXED_CHOICES:
        if all(policy in cell.measured for cell in rows):
            found.append(_regret(f"always {policy}", rows, [policy] * len(rows)))
    return found
