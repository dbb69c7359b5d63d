# SPDX-License-Identifier: Apache-2.0
"""What is written down of every decision."""

from dataclasses import dataclass
from enum import StrEnum

from cachepilot.quick_records import quickly_made


class Event(StrEnum):
    """What was decided, or came of a decision."""

    TRIAL = "trial"
    KEPT = "kept"
    REVERTED = "reverted"
    ABANDONED = "abandoned"
    REFUSED = "refused"
    RECOMMENDED = "recommended"


@dataclass(frozen=True)
class Setting:
    """A policy and a limit."""

    policy: str
    limit_bytes: int


@quickly_made
@dataclass(frozen=True)
class Reading:
    """Operations per second and miss ratio; None where they are not known."""

    ops: float | None = None
    miss_ratio: float | None = None


@dataclass(frozen=True)
class Decision:
    """One decision: from where to where, what it was measured against, predicted and seen."""

    time_s: float
    cgroup: str
    event: Event
    before: Setting
    after: Setting
    why: str
    baseline: Reading = Reading()
    predicted: Reading = Reading()
    measured: Reading = Reading()
