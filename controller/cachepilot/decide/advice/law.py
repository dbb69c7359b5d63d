# SPDX-License-Identifier: Apache-2.0
"""When a recommendation is replaced: the rule of changes, where nothing is applied and measured.

A change is undone if the measurement does not confirm it, but a recommendation is never tested that
way. Another setting, the rival, is therefore compared with the recommendation in every interval, by
new curves. It replaces the recommendation once its sum of gains exceeds the cost of the change and
a bound that noise alone exceeds with a chance of `alpha`, over all checks (see `Gain`). Curves stay
wrong for many intervals in a row, so their autocorrelation is part of the bound.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.memory.interval import MemoryInterval
from cachepilot.decide.memory.step import cost_of, owed_rate, sure_gains
from cachepilot.model.gain import LEAST_INTERVALS, Gain, chance_at, quantile

GIVEN_UP_INTERVALS = 300
"""After so many intervals the rival is given up; the plan of that time may be the next rival."""


class Verdict(StrEnum):
    """The result of comparing a rival with the recommendation."""

    WAITS = "waits"
    REPLACES = "replaces"
    GIVEN_UP = "given up"


@dataclass
class AdviceState:
    """State of the comparison that outlives a restart.

    `rival` is, by cgroup, the policy and limit where they differ from the recommendation. `gain` is
    the rival's sum of gains in the unit of `goal`, with the `weights` of tenants.
    """

    rival: dict[str, tuple[str, int]] = field(default_factory=dict)
    gain: Gain = field(default_factory=Gain)
    goal: str = ""
    weights: dict[str, float] = field(default_factory=dict)

    def challenge(self, rival: dict[str, tuple[str, int]], seen: MemoryInterval) -> None:
        """Compare another setting with the recommendation from now on."""
        self.rival, self.gain, self.goal = rival, Gain(), seen.goal
        self.weights = _weights(seen)

    def is_of(self, seen: MemoryInterval) -> bool:
        """Whether gains still have the same unit and are of the same tenants."""
        return self.goal == seen.goal and self.weights == _weights(seen)

    def forget(self) -> None:
        """Compare nothing with the recommendation."""
        self.rival, self.gain = {}, Gain()


def _weights(seen: MemoryInterval) -> dict[str, float]:
    return {name: one.weight for name, one in seen.tenants.items()}


def judge(state: AdviceState, seen: MemoryInterval, config: DecideConfig) -> Verdict:
    """Take in an interval whose plan is the rival, and return what becomes of the rival.

    What the plan gives tenants that lack a part of their SLO or keep counts first. Only if there is
    nothing of that kind, the gain in the goal counts.
    """
    if not seen.movers:
        return Verdict.GIVEN_UP
    rate = owed_rate(seen.movers.values(), config) or sum(sure_gains(seen).values())
    gain = state.gain
    gain.take(rate * seen.elapsed_s, seen.elapsed_s)
    if gain.intervals < LEAST_INTERVALS:
        return Verdict.WAITS
    least = config.least_gain * max(one.whole for one in seen.movers.values())
    is_enough = gain.total >= max(cost_of(seen), least * gain.base)
    bound = max(gain.sure_bound(config.alpha), _told_bound(gain, seen, config))
    if is_enough and gain.total > bound:
        return Verdict.REPLACES
    is_hopeless = gain.total <= 0 or gain.intervals >= GIVEN_UP_INTERVALS
    return Verdict.GIVEN_UP if is_hopeless else Verdict.WAITS


def _told_bound(gain: Gain, seen: MemoryInterval, config: DecideConfig) -> float:
    """A bound from the error bars of curves, which few similar intervals cannot show.

    An error lasts for the time over which curves are calibrated, and intervals within that time are
    not independent. `error` of a tenant is half a standard error.
    """
    error = 2 * math.sqrt(sum(one.error**2 for one in seen.movers.values()))
    lasts = max(1.0, config.calibration_half_life_s / max(seen.elapsed_s, 1e-3))
    alike = min(float(gain.intervals), lasts)
    chance = chance_at(config.alpha, gain.intervals)
    spread = seen.elapsed_s * error * math.sqrt(gain.intervals * alike)
    return quantile(chance, math.inf) * spread
