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
"""Whether a limit was pinned before is not known: the controller began since."""


@dataclass(frozen=True)
class Advised:
    """What is recommended, since when by the node's clock."""

    policy: str
    limit_bytes: int
    since_s: float


@dataclass
class TenantState:
    """It outlives a restart. `held_first_bytes` is its first memory, see `first_memory`.

    `advised` is what is recommended for it; None where that never was another than what it has.
    `held_bytes` is what it had or was to get when it was seen last. `limits` is what was measured
    at the limits that it had, in the regime `limits_regime`. `owed_s` is the time that it lost
    against what plans let it keep, in `managed_s` of being looked at; time that it gained counts as
    credit. `changes` are names of its last changes on trial, the newest last.
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
        """A change begins whose name is the epoch of the plan that makes it."""
        if epoch not in self.changes:
            self.changes = [*self.changes, epoch][-CHANGES_KEPT:]

    def move_back(self, seconds: float) -> None:
        """With a clock that went back so far."""
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
    """What is remembered of one tenant while the controller runs.

    `corrections` are the last curves that were corrected, and what came of it; `turnover` is what
    its full page cache hit, `at_first` what it did with its first memory.
    `ordered_bytes` is the limit that was pinned at the last snapshot; `anew_us` names the time
    since when the agent yields the limit and an operator, by a new pin, asks for one all the same.
    `limit_bytes` is the limit of the last snapshot, 0 for none.
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
        """Whether it has a limit that nobody here asked for."""
        return self.steered is not None and self.steered.foreign > 0
