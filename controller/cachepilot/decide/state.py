# SPDX-License-Identifier: Apache-2.0
"""What the decider remembers of the policies of one tenant, and what it is shown of an interval."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from cachepilot.decide.gain import LEAST_INTERVALS
from cachepilot.decide.trial import Trial
from cachepilot.model.calibration import SHOWN_S, Calibration
from cachepilot.model.climb import Climb
from cachepilot.model.pages_table import PagesTable
from cachepilot.quick_records import quickly_made
from cachepilot.sense.counterfactuals import Counterfactual, Floats

SETTLED_S = 60.0
"""A page cache that has not turned over by then hardly misses."""
LEADS_KEPT = 8.0
"""Over so many times that a policy was best it is averaged for how long."""


@dataclass
class PolicyState:
    """It outlives a restart. All amounts are pages read, by measurement or calibrated.

    `climb` is what each policy saved since it began to gain on the one in force, see `evidence`;
    `totals` are predicted misses by policy and group of pages, aged as the calibration is, sampled
    at `rate`. `leads` are by policy the seconds for which it was best, and how often that ended;
    the present one is for `lead_s`.
    `default_cost` and `excess` are the ledger: what the default would have cost, and what was read
    more than that. The present policy is in force for `in_force_s`; `adapting` is what it may yet
    read again, and after `turnover` more misses its page cache has turned over. `displaced` are
    pages read since the default was in force, None where that is not known. It may be `unproven`
    against the policy that it replaced, as somebody else decided before it was. What is
    measured of it was `off` by so many pages in the last interval, and is `below` what is predicted
    by so many in all, since it was last above. `barred` says until
    when a policy is not chosen that could not be attached, or was ejected; `lost` are the pages
    that changes to each policy cost more than they saved, since the workload last changed.
    """

    policies: list[str] = field(default_factory=list)
    totals: PagesTable = field(default_factory=PagesTable)
    rate: float = 0.0
    climb: Climb = field(default_factory=Climb)
    calibration: Calibration = field(default_factory=Calibration)
    default_cost: float = 0.0
    excess: float = 0.0
    adapting: float = 0.0
    turnover: float = 0.0
    in_force: str = ""
    in_force_s: float = 0.0
    unproven: str = ""
    off: float | None = None
    below: float = 0.0
    wanted: str | None = None
    waited_s: float = 0.0
    trial: Trial | None = None
    regime: int = 0
    regime_s: float = 0.0
    displaced: float | None = None
    barred: dict[str, float] = field(default_factory=dict)
    lost: dict[str, float] = field(default_factory=dict)
    leads: dict[str, tuple[float, float]] = field(default_factory=dict)
    lead_s: float = 0.0

    @property
    def groups(self) -> int:
        """Groups of pages that are told apart."""
        return int(self.totals.values.shape[1])

    def align(self, policies: Sequence[str], groups: int) -> None:
        """Follows other candidates: what each saves is counted from now on."""
        if self.policies == list(policies) and self.groups == groups:
            return
        self.calibration.aligned(self.policies, policies)
        self.policies = list(policies)
        self.totals = PagesTable.zeros(len(policies), groups)
        self.climb.restart(len(self.policies), self.groups)
        self.climb.looked = 0

    def restart(self) -> None:
        """Another policy is in force: none leads over it but by what it gains from now on."""
        self.climb.restart(len(self.policies), self.groups)
        self.in_force_s, self.off, self.below = 0.0, None, 0.0

    def end_lead(self, policy: str, since_s: float) -> None:
        """Another policy is best for `since_s`; what is known of this one is how long it was.

        Of what was not confirmed, now or before, nothing is known.
        """
        lasted_s, self.lead_s = max(0.0, self.lead_s - since_s), since_s
        if self.trial is not None and policy not in self.leads:
            return
        seconds, ended = self.leads.get(policy, (0.0, 0.0))
        kept = 1.0 - 1.0 / LEADS_KEPT
        self.leads[policy] = (kept * seconds + lasted_s, kept * ended + 1.0)

    def mean_leads_s(self) -> list[float]:
        """For how long each policy is best when it is, as far as that is known."""
        found = [0.0] * len(self.policies)
        for name, (seconds, ended) in self.leads.items():
            if name in self.policies:
                # One that ended says little: it counts as if another had lasted no time at all.
                found[self.policies.index(name)] = seconds / (ended + 1.0)
        found[:1] = [0.0]
        return found

    def begin_regime(self, regime: int, time_s: float) -> None:
        """The workload changed: evidence, and how far policies are off, start again.

        Workloads of which a change is told all the time only scatter: what is known is forgotten no
        faster than it was learnt.
        """
        if self.in_force in self.policies and time_s - self.regime_s >= SHOWN_S:
            self.calibration.forget_all_but(self.policies.index(self.in_force))
            self.lost = {}
            if self.trial is not None:
                # What it saved of another workload is no credit for what it loses of this one. What
                # it lost is lost, or each workload would grant what was left of the budget anew.
                self.trial.excess = min(self.trial.excess, self.excess)
            self.climb.restart(len(self.policies), self.groups)
            self.climb.looked = 0
        self.regime, self.regime_s = regime, time_s


@quickly_made
@dataclass(frozen=True, slots=True)
class Interval:
    """One tenant in one interval.

    `allowed` are the policies that it may have. `miss_time_share` is the part of the time of an
    operation that a miss ratio of 1 would take, over the time that it takes now. `may_change` is
    false for what is pinned or only recommended to; what `is_held` begins no change now. Without
    `may_begin` nothing can be stored: a change that is ordered but not live waits. `regime` rises
    when the workload changed. `cpu_us` is what the programs of each policy of the counterfactual
    cost, microseconds of CPU time per access, None where that is nothing of any; a page that the
    default misses takes `page_us` to be read. A page of `misses` counts `weight`: see
    `model.reads_per_miss`. Of an interval that is not `is_measured`, such as a gap, accesses and
    misses are not known.
    """

    time_s: float
    elapsed_s: float
    in_force: str
    limit_bytes: int
    allowed: frozenset[str]
    may_change: bool
    is_held: bool
    regime: int
    may_begin: bool = True
    ops: float = 0.0
    accesses: float = 0.0
    misses: float = 0.0
    miss_time_share: float = 0.0
    counterfactual: Counterfactual | None = None
    refused: str | None = None
    cpu_us: Floats | None = None
    page_us: float = 1.0
    weight: float = 1.0
    is_measured: bool = True

    def cpu_us_of(self, policy: str) -> float:
        """CPU time of the programs of a policy, microseconds per access."""
        told = self.counterfactual
        if self.cpu_us is None or told is None or policy not in told.policies:
            return 0.0
        return float(self.cpu_us[told.policies.index(policy)])

    @property
    def of_in_force(self) -> Counterfactual | None:
        """The counterfactual, if it tells what the policy in force misses by simulation."""
        told = self.counterfactual
        return told if told is not None and self.in_force in told.policies else None

    @property
    def pages_per_us(self) -> float:
        """Pages that could be read in the interval in a microsecond of CPU time per access."""
        return self.accesses / self.page_us

    @property
    def waited(self) -> float:
        """Missed pages, as many as they count."""
        return self.weight * self.misses

    @property
    def miss_ratio(self) -> float:
        """As measured."""
        return self.misses / self.accesses if self.accesses else 0.0


def is_rollback(state: PolicyState) -> bool:
    """Whether the policy that is wanted takes a change back, and begins none."""
    return state.wanted is not None and (state.trial is None or state.trial.is_live)


def is_settling(state: PolicyState) -> bool:
    """Whether the page cache still turns over after a change: what is measured is not yet of it."""
    if state.wanted is not None:
        return True
    if not state.in_force or state.in_force_s > SETTLED_S:
        return False
    is_new = state.trial is not None and state.trial.intervals < LEAST_INTERVALS
    return is_new or state.turnover > 0
