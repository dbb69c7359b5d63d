# SPDX-License-Identifier: Apache-2.0
"""What a tenant may lose to policies on trial, in seconds of its own throughput.

On a load that never settles curves promise again and again, and every trial that is taken back has
cost something. A tenant pays with a share of its time at most, and saves some for when it changes.
"""

from dataclasses import dataclass

from cachepilot.control.counters import Sample
from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.verdict import Stats

BEGIN_SHARE = 0.5
"""Of the most that can be saved: a trial that may lose less would be cut short for nothing."""


def lost_s(sample: Sample, before: Stats) -> float:
    """Seconds of the baseline's throughput lost in an interval; below 0 when it gained.

    0 when throughput and miss ratio went opposite ways: that is the load's doing.
    """
    fewer, misses_more = sample.ops < before.ops, sample.miss_ratio > before.miss
    if fewer is not misses_more or before.ops <= 0:
        return 0.0
    return sample.elapsed_s * (1 - sample.ops / before.ops)


@dataclass
class TrialBudget:
    """`spent_s` is what trials lost and time has not yet made good."""

    spent_s: float = 0.0

    def pass_time(self, elapsed_s: float, config: GuardConfig) -> None:
        """A share of the time makes losses good."""
        earned_s = elapsed_s * config.trial_loss_pct / 100
        self.spent_s = max(0.0, self.spent_s - earned_s)

    def may_begin(self, config: GuardConfig, overdraw: bool = False) -> bool:
        """Whether enough is left for a trial. In a new phase as much again may be spent."""
        most_s = config.trial_loss_s * (1 - BEGIN_SHARE)
        return self.spent_s <= most_s + (config.trial_loss_s if overdraw else 0.0)

    def may_lose_s(self, config: GuardConfig) -> float:
        """What a trial that begins now may lose before it is taken back without a verdict."""
        left_s = config.trial_loss_s - self.spent_s
        return max(config.trial_loss_s * BEGIN_SHARE, left_s)

    def spend(self, lost: float) -> None:
        """A trial was taken back that lost so much; what it gained is no credit."""
        self.spent_s += max(0.0, lost)
