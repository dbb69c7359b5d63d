# SPDX-License-Identifier: Apache-2.0
"""What is remembered of one tenant between cycles."""

from dataclasses import dataclass, field

from cachepilot.control.memory_course import Anchor, Course
from cachepilot.control.samples import Samples
from cachepilot.decide.state import PolicyState

SAMPLES_KEPT = 64
CHANGES_KEPT = 4


@dataclass
class TenantState:
    """It outlives a restart. `held_first_bytes` is its first memory, see `first_memory`.

    `changes` are names of its last changes on trial, the newest last.
    """

    cgroup_id: int
    policy: PolicyState = field(default_factory=PolicyState)
    limit_cool_until_s: float = 0.0
    limit_cool_count: int = 0
    course: Course | None = None
    anchor: Anchor | None = None
    held_first_bytes: int = 0
    recommended: tuple[str, int] | None = None
    changes: list[int] = field(default_factory=list)

    def begin_change(self, epoch: int) -> None:
        """A change begins whose name is the epoch of the plan that makes it."""
        if epoch not in self.changes:
            self.changes = [*self.changes, epoch][-CHANGES_KEPT:]

    def move_back(self, seconds: float) -> None:
        """With a clock that went back so far."""
        self.limit_cool_until_s -= seconds
        if self.course is not None:
            self.course.time_s -= seconds
        barred = self.policy.barred
        self.policy.barred = {name: until_s - seconds for name, until_s in barred.items()}
        self.skip(-seconds)

    def skip(self, seconds: float) -> None:
        """Over a time of which no snapshot tells: what is seen of a change was not seen in it."""
        self.policy.regime_s += seconds
        trial = self.policy.trial
        if trial is not None:
            trial.started_s += seconds
            trial.ends_s += seconds


@dataclass
class Steered:
    """Between which limits a tenant is, by what was asked for `idle` cycles ago.

    `earlier_bytes` are limits at which it was at rest, the oldest first. `foreign_bytes` is a limit
    that is neither, seen in `foreign` snapshots in a row.
    """

    low_bytes: int
    high_bytes: int
    idle: int = 0
    earlier_bytes: list[int] = field(default_factory=list)
    foreign_bytes: int = 0
    foreign: int = 0


@dataclass
class Recent:
    """What is remembered of one tenant while the controller runs."""

    samples: Samples = field(default_factory=lambda: Samples(SAMPLES_KEPT))
    ordered: str = ""
    steered: Steered | None = None
