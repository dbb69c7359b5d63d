# SPDX-License-Identifier: Apache-2.0
"""What is remembered of limits that moved: which way, and what donors were promised at first."""

from dataclasses import dataclass, field, replace

from cachepilot.control.guard_config import GuardConfig
from cachepilot.control.verdict import Stats
from cachepilot.sense.collect import Seen
from cachepilot.sense.wire_curves import value_at

RESTED_S = 600.0
"""A limit that stayed for so long may turn round as if it had never moved."""
FAR_SHARE = 0.05
"""Of a limit: one that changed by less may go either way next."""
FAR_BARS = 2.0
"""A curve changed when it did by so many times its error bar."""


@dataclass
class Mark:
    """What the curve of one policy said at one limit, to see later whether the workload changed."""

    policy: str
    limit_bytes: int
    miss: float

    def is_past(self, seen: Seen, config: GuardConfig) -> bool:
        """Whether the curve moved beyond its error bar since."""
        if seen.measured is None or not seen.tenant.trust.trusted:
            return False
        least = 2 * config.miss_tolerance
        return seen.measured.has_moved(self.policy, self.limit_bytes, self.miss, FAR_BARS, least)


def mark_of(seen: Seen) -> Mark | None:
    """The working point of a tenant; None without a curve of its policy."""
    policy, limit = seen.tenant.policy, seen.limit_bytes
    miss = None if seen.measured is None else seen.measured.miss_at(policy, limit)
    return None if miss is None else Mark(policy, limit, miss)


@dataclass
class Course:
    """Which way a limit went last, when, and how often it turned round since it last rested."""

    up: bool
    time_s: float
    mark: Mark | None
    turns: int = 0


@dataclass
class Anchor:
    """Where a donor was before the first of moves that followed each other.

    However often it is asked again, it is measured against this, and owes no more than was
    predicted at the beginning of the limit where it is going: by `curve`, the points of that of its
    policy then, (bytes, miss ratio). It holds until its limit is back or its curve changed.
    """

    baseline: Stats
    limit_bytes: int
    promised_miss: float
    mark: Mark | None
    curve: list[tuple[int, float]] = field(default_factory=list)

    def on_to(self, limit_bytes: int) -> "Anchor":
        """The same for a move that goes on to a limit."""
        if not self.curve:
            return self
        sizes, misses = zip(*self.curve, strict=True)
        promised = value_at(sizes, misses, 1.0, limit_bytes)
        return replace(self, promised_miss=max(self.promised_miss, promised))


def doubled_s(count: int, config: GuardConfig) -> float:
    """How long to wait after `count` times in a row; `dwell_s` after none."""
    if count <= 0:
        return config.dwell_s
    return min(config.cool_down_s * 2.0 ** min(count - 1, 30), config.cool_down_max_s)


def is_far(from_bytes: int, to_bytes: int) -> bool:
    """Whether a limit changed by so much that the way it went is remembered."""
    return abs(to_bytes - from_bytes) >= FAR_SHARE * from_bytes


def turned(course: Course | None, up: bool, time_s: float, seen: Seen) -> Course:
    """The course after a limit moved."""
    turns = 0
    if course is not None and time_s - course.time_s <= RESTED_S:
        turns = course.turns + (up != course.up)
    return Course(up, time_s, mark_of(seen), turns)


def may_not_turn(course: Course, seen: Seen, time_s: float, config: GuardConfig) -> bool:
    """Whether a limit must not go back yet where it came from."""
    if course.mark is not None and course.mark.is_past(seen, config):
        return False
    return time_s - course.time_s < doubled_s(course.turns + 1, config)


def anchored(anchor: Anchor | None, seen: Seen, config: GuardConfig) -> Anchor | None:
    """The anchor that still holds for a tenant."""
    if anchor is None or seen.limit_bytes >= anchor.limit_bytes:
        return None
    if anchor.mark is not None and anchor.mark.is_past(seen, config):
        return None
    return anchor
