# SPDX-License-Identifier: Apache-2.0
"""Choosing a policy by predicted miss ratios, and what the choice costs in hindsight.

Regret is the miss ratio of the chosen policy less that of the best one, both measured by full
simulation, so it is never negative.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

SAMPLED_PAGES_MIN = 2048
FIXED_CHOICES = ("lru", "s3fifo", "kernel_lru")
BY_CURVES = "by curves"
ORDINARY = ("kernel_lru", "lru", "fifo")
"""Preferred in this order among equals: what needs no change, then what does the least."""


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
        """The policy with the least measured miss ratio; of several the most ordinary."""
        return _least(self.measured)

    @property
    def chosen(self) -> str:
        """The policy with the least predicted miss ratio; of several the most ordinary."""
        return _least(self.predicted)

    def regret(self, policy: str) -> float:
        """Measured miss ratio of `policy` above the best."""
        return self.measured[policy] - self.measured[self.best]


@dataclass(frozen=True)
class Regret:
    """Regret of one way of choosing over all cells, in miss ratio."""

    strategy: str
    mean: float
    worst: float
    worst_trace: str
    worst_size_pages: int


def choice_rate(footprint_pages: int) -> float:
    """Sampling rate in (0, 1] that leaves at least 2,048 distinct pages.

    Hash sampling keeps a binomial number of pages; three standard deviations are added so that
    the least is met and not only the mean. A footprint smaller than that is taken whole.
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
    """Choice by curves against always the same policy, for those that every cell measured."""
    rows = list(cells)
    if not rows:
        return []
    found = [_regret(BY_CURVES, rows, [cell.chosen for cell in rows])]
    for policy in FIXED_CHOICES:
        if all(policy in cell.measured for cell in rows):
            found.append(_regret(f"always {policy}", rows, [policy] * len(rows)))
    return found
