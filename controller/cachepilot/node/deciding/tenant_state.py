# SPDX-License-Identifier: Apache-2.0
"""What is remembered of one tenant between cycles."""

from dataclasses import dataclass, field

from cachepilot.decide.state import PolicyState
from cachepilot.model.corrected_curves import Corrections
from cachepilot.model.kept import Kept
from cachepilot.model.limit_calibration import LimitCalibration
from cachepilot.model.reads_per_miss import ReadsPerMiss
from cachepilot.sense.turnover import AtFirst, Turnover

CHANGES_KEPT = 4
UNKNOWN_ORDER = -1
"""The pinned limit at the last snapshot is not known, because the controller started after it."""


@dataclass(frozen=True)
class Advised:
    """A recommended setting, and the node's time since when it is recommended."""

    policy: str
    limit_bytes: int
    since_s: float


@dataclass
class TenantState:
    """The state of a tenant that survives a restart. `held_first_bytes` is its first memory.

    `advised` is the recommendation for it; None if none ever differed from its setting.
    `held_bytes` is the memory that it had or was about to get in the last snapshot. `limits` is
    what was measured at the limits that it had, in the regime `limits_regime`. `owed_s` are the
    seconds that it lost against what plans let it keep, less those that it gained, in `managed_s`
    seconds under management. `changes` are the epochs that name its last changes on trial, the
    newest last.
    """

    cgroup_id: int
    policy: PolicyState = field(default_factory=PolicyState)
    limits: LimitCalibration = field(default_factory=LimitCalibration)
    limits_regime: int = 0
    reads_per_miss: ReadsPerMiss = field(default_factory=ReadsPerMiss)
    owed_s: float = 0.0
    managed_s: float = 0.0
    held_first_bytes: int = 0
    held_bytes: int = 0
    advised: Advised | None = None
    changes: list[int] = field(default_factory=list)

    def begin_change(self, epoch: int) -> None:
        """Note that a change on trial begins; its name is the epoch of the plan that makes it."""
        if epoch not in self.changes:
            self.changes = [*self.changes, epoch][-CHANGES_KEPT:]

    def move_back(self, seconds: float) -> None:
        """Move all times back with a clock that went back by `seconds`."""
        barred = self.policy.barred
        self.policy.barred = {name: until_s - seconds for name, until_s in barred.items()}
        self.skip(-seconds)

    def skip(self, seconds: float) -> None:
        """Move times of observation over `seconds` in which no snapshot came."""
        self.policy.regime_s += seconds
        trial = self.policy.trial
        if trial is not None:
            trial.started_s += seconds
            trial.ends_s += seconds


@dataclass
class Steered:
    """The range of limits that the controller asked for, the last `idle` cycles ago.

    `earlier_bytes` are limits at which the tenant was at rest, the oldest first. `foreign_bytes` is
    a limit outside of both, seen in `foreign` consecutive snapshots.
    """

    low_bytes: int
    high_bytes: int
    idle: int = 0
    earlier_bytes: list[int] = field(default_factory=list)
    foreign_bytes: int = 0
    foreign: int = 0


@dataclass
class Recent:
    """What is remembered of one tenant until the controller ends.

    `corrections` are the last curves that were corrected, and the result. `turnover` counts
    accesses and misses of its full page cache, `at_first` those with its first memory.
    `ordered_bytes` is the limit that was pinned at the last snapshot. `anew_us` is set if an
    operator, by a new pin, asks for a limit that the agent yielded: it is the time since when the
    agent yields it. `limit_bytes` is the limit of the last snapshot: 0 without a limit, None before
    the first.
    """

    cgroup_id: int
    ordered: str = ""
    steered: Steered | None = None
    corrections: Corrections = field(default_factory=Corrections)
    turnover: Turnover = field(default_factory=Turnover)
    at_first: AtFirst = field(default_factory=AtFirst)
    ordered_bytes: int | None = UNKNOWN_ORDER
    anew_us: int | None = None
    kept: Kept = field(default_factory=Kept)
    limit_bytes: int | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether the tenant has a limit that this controller did not ask for."""
        return self.steered is not None and self.steered.foreign > 0
