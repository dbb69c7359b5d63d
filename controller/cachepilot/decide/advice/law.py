# SPDX-License-Identifier: Apache-2.0
"""When a recommendation is replaced: the law of changes, where nothing is done and measured.

A change is undone where what is measured does not bear it out; a recommendation never meets that
test. So another setting is compared with it, interval by interval, by curves that are new, and
replaces it once its sum of gains exceeds what changing would cost, and what noise alone makes of
such a sum with a chance of `alpha` at any time it is looked at (see `Gain`). Curves are off for
many intervals in a row: their autocorrelation is part of that bound.
"""

import math
from dataclasses import dataclass, field
from enum import StrEnum

from cachepilot.decide.config import DecideConfig
from cachepilot.decide.gain import LEAST_INTERVALS, Gain, chance_at, quantile
from cachepilot.decide.memory.state import MemoryInterval
from cachepilot.decide.memory.step import cost_of, owed_rate, sure_gains

GIVEN_UP_INTERVALS = 300
"""After so many another setting is compared with the recommendation, the best by then."""


class Verdict(StrEnum):
    """What becomes of a setting that is compared with the recommendation."""

    WAITS = "waits"
    REPLACES = "replaces"
    GIVEN_UP = "given up"


@dataclass
class AdviceState:
    """It outlives a restart. `rival` is the policy and limit by cgroup, where they differ."""

    rival: dict[str, tuple[str, int]] = field(default_factory=dict)
    gain: Gain = field(default_factory=Gain)
    goal: str = ""
    weights: dict[str, float] = field(default_factory=dict)

    def challenge(self, rival: dict[str, tuple[str, int]], seen: MemoryInterval) -> None:
        """Another setting is compared with the recommendation from now on."""
        self.rival, self.gain, self.goal = rival, Gain(), seen.goal
        self.weights = _weights(seen)

    def is_of(self, seen: MemoryInterval) -> bool:
        """Whether gains still count in the same unit, for the same tenants."""
        return self.goal == seen.goal and self.weights == _weights(seen)

    def forget(self) -> None:
        """Nothing is compared with the recommendation."""
        self.rival, self.gain = {}, Gain()


def _weights(seen: MemoryInterval) -> dict[str, float]:
    return {name: one.weight for name, one in seen.tenants.items()}


def judge(state: AdviceState, seen: MemoryInterval, config: DecideConfig) -> Verdict:
    """Takes an interval in, whose plan is the rival.

    What tenants lack of what comes first counts before what the goal gains.
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
    """The same by the error bars of curves, which so few intervals that are alike cannot show.

    An error lasts for as long as curves are of, the time over which they are calibrated: within it,
    intervals tell nothing new. `error` of a tenant is half a standard error.
    """
    error = 2 * math.sqrt(sum(one.error**2 for one in seen.movers.values()))
    lasts = max(1.0, config.calibration_half_life_s / max(seen.elapsed_s, 1e-3))
    alike = min(float(gain.intervals), lasts)
    chance = chance_at(config.alpha, gain.intervals)
    spread = seen.elapsed_s * error * math.sqrt(gain.intervals * alike)
    return quantile(chance, math.inf) * spread
