# SPDX-License-Identifier: Apache-2.0
"""The state of the decider for one tenant's policies, and the interval that it is given.

A regime is a stretch of time in which the statistics of the workload hold. A policy leads while it
is predicted to miss least. A change is on trial until it is confirmed or undone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from cachepilot.decide.trial import Trial
from cachepilot.domain.decisions import Decision, Event, Reading, Setting
from cachepilot.model.calibration import SHOWN_S, Calibration
from cachepilot.model.climb import Climb
from cachepilot.model.gain import LEAST_INTERVALS
from cachepilot.quick_records import quickly_made
from cachepilot.sense.counterfactuals import Counterfactual, Floats
from cachepilot.tables import Table

SETTLED_S = 60.0
"""A page cache that has not turned over after this many seconds hardly misses."""
LEADS_KEPT = 8.0
"""The mean time for which a policy stays the best is over about so many such times."""


@dataclass
class PolicyState:
    """State of one tenant that outlives a restart. Amounts are pages read, measured or calibrated.

    `climb` is what each policy saved since it began to gain on the one in force (see `evidence`).
    `totals` are predicted misses by policy and group of pages, sampled at `rate`; they fade like
    the calibration. `leads` are, by policy, the seconds for which it was the best, and how often
    that ended. The policy in force has been the best for `lead_s`.

    `default_cost` and `excess` are the ledger: what the default would have cost, and what was read
    more than that. The policy in force has been so for `in_force_s`. It may still read `adapting`
    pages again, and after `turnover` more misses its page cache has turned over. `displaced` are
    the pages read since the default was last in force, None if unknown. `unproven` names the policy
    against which the one in force is to be judged, if others (an operator, the objectives) decided
    on it. In the last interval the measured misses were `off` from the prediction; `below` is how
    far they are below it in total since they last were above (0 or negative). `wanted` is a policy
    that was ordered `waited_s` ago and is not in force yet. `barred` are the times until which
    policies are not chosen that could not be attached or were ejected. `lost` are the pages that
    changes to each policy cost more than they saved, since the workload last changed.
    """

    policies: list[str] = field(default_factory=list)
    totals: Table = field(default_factory=Table)
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
        """The number of groups of pages, which are independent samples."""
        return int(self.totals.values.shape[1])

    def align(self, policies: Sequence[str], groups: int) -> None:
        """Follow new candidates or groups: savings are counted from now on."""
        if self.policies == list(policies) and self.groups == groups:
            return
        self.calibration.aligned(self.policies, policies)
        self.policies = list(policies)
        self.totals = Table(np.zeros((len(policies), groups), np.float32))
        self.climb.restart(len(self.policies), self.groups)
        self.climb.looked = 0

    def restart(self) -> None:
        """Another policy is in force: leads over it start from 0."""
        self.climb.restart(len(self.policies), self.groups)
        self.in_force_s, self.off, self.below = 0.0, None, 0.0

    def end_lead(self, policy: str, since_s: float) -> None:
        """Record how long `policy` was the best; another has been the best for `since_s` seconds.

        Nothing is recorded of a policy that is on trial and was never confirmed before.
        """
        lasted_s, self.lead_s = max(0.0, self.lead_s - since_s), since_s
        if self.trial is not None and policy not in self.leads:
            return
        seconds, ended = self.leads.get(policy, (0.0, 0.0))
        kept = 1.0 - 1.0 / LEADS_KEPT
        self.leads[policy] = (kept * seconds + lasted_s, kept * ended + 1.0)

    def mean_leads_s(self) -> list[float]:
        """Mean seconds for which each policy stays the best; 0 for the default and if unknown."""
        found = [0.0] * len(self.policies)
        for name, (seconds, ended) in self.leads.items():
            if name in self.policies:
                # A single lead says little. The mean therefore includes one more lead of 0 s.
                found[self.policies.index(name)] = seconds / (ended + 1.0)
        found[:1] = [0.0]
        return found

    def is_shown(self, time_s: float) -> bool:
        """Whether the present regime has lasted for so long that another one is no scatter."""
        return time_s - self.regime_s >= SHOWN_S

    def begin_regime(self, regime: int, time_s: float) -> None:
        """Begin another regime: evidence, and the calibration of other policies, start again.

        The default and the policy in force keep their calibration. If the last regime began less
        than SHOWN_S seconds ago, nothing is forgotten: a workload that seems to change all the time
        only scatters, and knowledge must not be lost faster than it is gained.
        """
        if self.in_force in self.policies and self.is_shown(time_s):
            self.calibration.forget_all_but(self.policies.index(self.in_force))
            self.lost = {}
            if self.trial is not None:
                # What the change saved under another workload is no credit for its present losses.
                # Its losses still count, or each regime would grant the rest of the budget again.
                self.trial.excess = min(self.trial.excess, self.excess)
            self.climb.restart(len(self.policies), self.groups)
            self.climb.looked = 0
        self.regime, self.regime_s = regime, time_s


@quickly_made
@dataclass(frozen=True, slots=True)
class Interval:
    """One tenant in one interval.

    `allowed` are the policies that the tenant may have. `miss_time_share` is the time that an
    operation would wait for the device at a miss ratio of 1, divided by its present time.
    `may_change` is false if the policy is pinned or only recommended. A tenant that `is_held`
    begins no change now. Without `may_begin` nothing can be stored, so a change that is ordered but
    not live waits. `regime` rises when the workload changes. `refused` is the node's reason for
    refusing the order, if it did. `cpu_us` is the CPU time of the BPF programs of each policy in
    the counterfactual, in microseconds per access, or None if it is 0 for all. Reading a page that
    the default misses takes `page_us`. A missed page counts as `weight` pages, and one that an
    untried policy would miss as `weight_of_others`, both with the relative standard error
    `weight_error`: see `model.reads_per_miss`. If the interval is not `is_measured`, such as over a
    gap, accesses and misses are unknown.
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
    weight_of_others: float = 1.0
    weight_error: float = 0.0
    is_measured: bool = True
    cgroup: str = ""

    def cpu_us_of(self, policy: str) -> float:
        """CPU time of a policy's BPF programs, microseconds per access; 0 where unknown."""
        told = self.counterfactual
        if self.cpu_us is None or told is None or policy not in told.policies:
            return 0.0
        return float(self.cpu_us[told.policies.index(policy)])

    @property
    def of_in_force(self) -> Counterfactual | None:
        """The counterfactual, or None if it does not include the policy in force."""
        told = self.counterfactual
        return told if told is not None and self.in_force in told.policies else None

    @property
    def pages_per_us(self) -> float:
        """Pages that could be read in the interval per microsecond of CPU time per access."""
        return self.accesses / self.page_us

    @property
    def waited(self) -> float:
        """Missed pages, weighted by the device reads that they took."""
        return self.weight * self.misses

    @property
    def miss_ratio(self) -> float:
        """The measured miss ratio; 0 without accesses."""
        return self.misses / self.accesses if self.accesses else 0.0

    def decision(
        self, event: Event, before: str, after: str, why: str, *readings: tuple[float, float]
    ) -> Decision:
        """A decision on two policies; the `readings` are those of `Decision`, in its order."""
        then, now = Setting(before, self.limit_bytes), Setting(after, self.limit_bytes)
        told = (Reading(*one) for one in readings)
        return Decision(self.time_s, self.cgroup, event, then, now, why, *told)


def is_rollback(state: PolicyState) -> bool:
    """Whether the wanted policy undoes a change rather than begins one."""
    return state.wanted is not None and (state.trial is None or state.trial.is_live)


def is_unproven(state: PolicyState) -> bool:
    """Whether the page cache settles, or nothing shows yet that the new policy does as predicted.

    That a trial takes longer than a minute is no reason to leave the limit as it is.
    """
    return is_settling(state) or (state.trial is not None and state.in_force_s <= SETTLED_S)


def is_settling(state: PolicyState) -> bool:
    """Whether the page cache still turns over after a change, so measurements are not of it yet."""
    if state.wanted is not None:
        return True
    if not state.in_force or state.in_force_s > SETTLED_S:
        return False
    is_new = state.trial is not None and state.trial.intervals < LEAST_INTERVALS
    return is_new or state.turnover > 0
