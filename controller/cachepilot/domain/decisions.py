# SPDX-License-Identifier: Apache-2.0
"""What is recorded of every decision."""

from dataclasses import dataclass
from enum import StrEnum

from cachepilot.quick_records import quickly_made
from cachepilot.readable import number


class Event(StrEnum):
    """A decision, or the result of one, as stored and sent; see `event_word`."""

    TRIAL = "trial"
    KEPT = "kept"
    REVERTED = "reverted"
    ABANDONED = "abandoned"
    REFUSED = "refused"
    RECOMMENDED = "recommended"


def event_word(event: str) -> str:
    """Return the word for an event that people read, the same as for the state of a change."""
    return {str(Event.KEPT): "confirmed", str(Event.REVERTED): "undone"}.get(event, str(event))


@dataclass(frozen=True)
class Setting:
    """A policy and a limit."""

    policy: str
    limit_bytes: int


@quickly_made
@dataclass(frozen=True, slots=True)
class Reading:
    """Operations per second and miss ratio; None if not known."""

    ops: float | None = None
    miss_ratio: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return self.ops is None and self.miss_ratio is None


def against_prediction(predicted: Reading, measured: Reading) -> str:
    """Compare a tenant's measured throughput with the prediction; empty if one is not known."""
    told, did = predicted.ops, measured.ops
    if not told or did is None:
        return ""
    off = round(100 * (did / told - 1))
    words = f"{abs(off)}% {'more' if off > 0 else 'less'} than predicted" if off else "as predicted"
    return f"this tenant did {number(did)} ops/s, {words}"


@dataclass(frozen=True)
class Decision:
    """One decision: the settings before and after it, with the readings.

    `baseline` is the reading that `measured` is compared with.
    """

    time_s: float
    cgroup: str
    event: Event
    before: Setting
    after: Setting
    why: str
    baseline: Reading = Reading()
    predicted: Reading = Reading()
    measured: Reading = Reading()
