# SPDX-License-Identifier: Apache-2.0
"""Outcomes of changes of policy, as they are reported."""

from dataclasses import dataclass
from enum import StrEnum

from cachepilot.decide.state import Interval
from cachepilot.decide.trial import Trial


class What(StrEnum):
    """The result of a change."""

    LIVE = "live"
    CONFIRMED = "confirmed"
    UNDONE = "undone"
    REFUSED = "refused"
    ABANDONED = "abandoned"


@dataclass(frozen=True)
class Outcome:
    """One decision; `baseline`, `predicted` and `measured` are pairs of ops/s and miss ratio."""

    what: What
    before: str
    after: str
    why: str
    baseline: tuple[float, float] | None = None
    predicted: tuple[float, float] | None = None
    measured: tuple[float, float] | None = None


def of_trial(trial: Trial, what: What, why: str, seen: Interval) -> Outcome:
    """The outcome `what` of a trial, with the measurement of the present interval."""
    return Outcome(
        what, trial.from_policy, trial.to_policy, why, trial.baseline, trial.predicted,
        (seen.ops, seen.miss_ratio),
    )  # fmt: skip
