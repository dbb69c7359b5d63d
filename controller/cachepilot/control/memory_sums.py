# SPDX-License-Identifier: Apache-2.0
"""What tenants do all together, before and after memory moved, in the terms of the goal.

Under proportional fairness that is the weighted geometric mean of throughputs, else their weighted
sum: both in operations per second, so that shares of it mean the same.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cachepilot.control.verdict import Stats, ops_noise
from cachepilot.domain.objectives.objective import Goal


@dataclass(frozen=True)
class Compared:
    """One tenant before and after; throughputs are above 0.

    `predicted_times` is what was predicted of its throughput over what it had.
    """

    weight: float
    before: Stats
    after: Stats
    predicted_times: float


@dataclass(frozen=True)
class Together:
    """All of them, operations per second; `noise` is the standard error of the difference."""

    before: float
    after: float
    noise: float
    predicted_gain: float


def together(compared: Sequence[Compared], goal: Goal) -> Together:
    """The measure of the goal over these tenants; zeros for none."""
    weight = sum(one.weight for one in compared)
    if weight <= 0:
        return Together(0.0, 0.0, 0.0, 0.0)
    return _mean(compared, weight) if goal is Goal.PROPORTIONAL_FAIRNESS else _sum(compared)


def _mean(compared: Sequence[Compared], weight: float) -> Together:
    """For small changes its relative error is that of the mean of logarithms."""

    def mean(values: Sequence[float]) -> float:
        pairs = zip(compared, values, strict=True)
        return math.fsum(one.weight * value for one, value in pairs) / weight

    before = math.exp(mean([math.log(one.before.ops) for one in compared]))
    gained = mean([math.log(one.after.ops / one.before.ops) for one in compared])
    told = mean([math.log(one.predicted_times) for one in compared])
    errors = (one.weight * ops_noise(one.before, one.after) / one.before.ops for one in compared)
    noise = math.sqrt(math.fsum(error**2 for error in errors)) / weight
    return Together(before, before * math.exp(gained), before * noise, before * math.expm1(told))


def _sum(compared: Sequence[Compared]) -> Together:
    noise = math.sqrt(sum((one.weight * ops_noise(one.before, one.after)) ** 2 for one in compared))
    return Together(
        before=sum(one.weight * one.before.ops for one in compared),
        after=sum(one.weight * one.after.ops for one in compared),
        noise=noise,
        predicted_gain=sum(
            one.weight * one.before.ops * (one.predicted_times - 1) for one in compared
        ),
    )
