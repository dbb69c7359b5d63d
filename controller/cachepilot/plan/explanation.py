# SPDX-License-Identifier: Apache-2.0
"""Explain one tenant: the predictions for its present setting, and what its SLOs would need."""

from dataclasses import dataclass, replace

import numpy as np

from cachepilot.domain.objectives.objective import Objectives
from cachepilot.domain.planned import Held
from cachepilot.domain.snapshot import Node, Snapshot
from cachepilot.errors import InputError
from cachepilot.plan.consolidation.least.needs import FREE, between, everything
from cachepilot.plan.problem.asked import NO_CURVES, UNPREDICTED, Asked
from cachepilot.plan.problem.building import build
from cachepilot.plan.problem.config import Config
from cachepilot.plan.problem.limits import bounds
from cachepilot.plan.problem.packed_curves import PackedCurves
from cachepilot.plan.problem.problem import Problem
from cachepilot.sense.curves.wire_curves import value_at
from cachepilot.sizes import pages_up

SHOWN = frozenset(Held) - {Held.NO_CURVES}
"""The reasons `held` with which curves are shown.

They are shown with low confidence, too; `held` says so.
"""
BISECTIONS = 48


@dataclass(frozen=True)
class RankedPolicy:
    """The prediction for one policy at the present limit, and whether the tenant may have it.

    `error_bar` is the half-width of the curve's error bar there, 0 if none is known.
    """

    policy: str
    miss_ratio: float
    error_bar: float
    allowed: bool


@dataclass(frozen=True)
class Explanation:
    """Predictions for one tenant by its curves; None where no curve gives them with confidence.

    `miss_ratio` and `throughput_ops` are at its present policy and limit, with all other tenants as
    they are. `best_policy` is the allowed policy with the lowest miss ratio at the present limit,
    `best_miss_ratio`. `needed_for_slo_bytes` is the least memory that meets every SLO, under
    `needed_policy`, at the wait of the device that would result. Both are None if no memory of the
    node would be enough, if there is no SLO, or if an SLO has no prediction: its state is then
    `unknown`. `held` says whether the curves can be relied on; if not, nothing is predicted.
    `ranking` has every policy with a curve, the lowest miss ratio first, also if the curves have
    low confidence; `best_policy` is the first allowed one in it.
    """

    cgroup: str
    miss_ratio: float | None
    throughput_ops: float | None
    best_policy: str | None
    best_miss_ratio: float | None
    needed_for_slo_bytes: int | None
    needed_policy: str | None
    held: Held
    ranking: tuple[RankedPolicy, ...] = ()


@dataclass(frozen=True)
class _Seen:
    """The problem of a node with all settings as they are, and one tenant of it.

    `least_bytes` and `most_bytes` are the bounds of this tenant's limit.
    """

    asked: Asked
    problem: Problem
    row: int
    least_bytes: int
    most_bytes: int

    def ops_at(self, miss: float) -> float:
        """The tenant's throughput at a miss ratio, at the wait of the device that results."""
        ratios = self.problem.present_miss.copy()
        ratios[self.row] = miss
        model = self.problem.model
        return float(model.ops(ratios, model.wait_us(ratios))[self.row])

    def allowed_miss(self) -> float:
        """The greatest miss ratio that meets every SLO; negative if none does.

        The wait grows with the tenant's own misses, so its throughput falls as they grow: a
        bisection.
        """
        most = float(self.problem.max_miss[self.row])
        wanted = float(self.problem.min_ops[self.row])
        if wanted <= 0 or self.ops_at(most) >= wanted:
            return most
        if self.ops_at(0.0) < wanted:
            return -1.0
        good, bad = 0.0, most
        for _ in range(BISECTIONS):
            middle = (good + bad) / 2
            if self.ops_at(middle) >= wanted:
                good = middle
            else:
                bad = middle
        return good

    def ranking(self, present: str) -> tuple[RankedPolicy, ...]:
        """Rank every policy with a curve by its miss ratio at the limit.

        Of equal ones, `present` comes first.
        """
        curves = self.asked.curves[self.row]
        sizes, limit = curves.sizes_bytes.tolist(), int(self.problem.current_bytes[self.row])
        bars = curves.error_bar
        found = []
        for i, policy in enumerate(curves.policies):
            bar = 0.0 if bars is None else value_at(sizes, bars[i].tolist(), 0.0, limit)
            miss = value_at(sizes, curves.miss_ratio[i].tolist(), 1.0, limit)
            found.append(RankedPolicy(policy, miss, bar, bool(self.problem.usable[self.row, i])))
        return tuple(sorted(found, key=lambda one: (one.miss_ratio, one.policy != present)))

    def needed(self) -> tuple[int, int] | None:
        """The least limit that meets every SLO, and the index of its policy; None if none does.

        Also None while what is measured is not enough to predict an SLO.
        """
        tenant, objective = self.asked.tenants[self.row], self.asked.objectives[self.row]
        unmeasured = tenant.indicators.latency_p99_us is None
        if not objective.has_slo or (objective.latency_p99_us is not None and unmeasured):
            return None
        curves = between(self.asked.curves[self.row], self.least_bytes, self.most_bytes)
        first = PackedCurves.of([curves]).first_size(np.array([self.allowed_miss()]))[0]
        usable = self.problem.usable[self.row, : first.size]
        first = np.where(usable, first, np.inf)
        if not np.isfinite(first.min()):
            return None
        pages = pages_up(int(np.ceil(first.min())))
        return max(min(pages, self.most_bytes), self.least_bytes), int(first.argmin())


def _seen(snapshot: Snapshot, objectives: Objectives, config: Config, cgroup: str) -> _Seen:
    asked = Asked.of(snapshot, objectives)
    names = [tenant.cgroup for tenant in asked.tenants]
    if cgroup not in names:
        there = ", ".join(names) or "none"
        raise InputError(f"explain: {cgroup!r} is no tenant of {snapshot.node.name} ({there})")
    row = names.index(cgroup)
    # Present limits are valued, not planned, so neither the budget nor memory_min may interfere.
    stated = tuple(replace(one, memory_min=None, memory_max=None) for one in asked.objectives)
    here = replace(snapshot, node=Node(snapshot.node.name, everything(snapshot)))
    problem = build(here, replace(asked, objectives=stated), config, SHOWN)
    measured = np.array([tenant.indicators.miss_ratio for tenant in asked.tenants])
    by_curve = asked.movable(FREE)
    by_curve[row] = problem.movable[row]
    problem = replace(problem, present_miss=np.where(by_curve, problem.present_miss, measured))
    least, most, _ = bounds(asked, SHOWN, snapshot.node.budget_bytes)
    return _Seen(asked, problem, row, int(least[row]), int(most[row]))


def explain(snapshot: Snapshot, objectives: Objectives, config: Config, cgroup: str) -> Explanation:
    """Explain one tenant of a snapshot; raises InputError if the snapshot lacks it."""
    seen = _seen(snapshot, objectives, config, cgroup)
    problem, row = seen.problem, seen.row
    tenant, held = seen.asked.tenants[row], seen.asked.held[row]
    curves = seen.asked.curves[row]
    if curves is NO_CURVES:
        return Explanation(cgroup, None, None, None, None, None, None, held)
    names = curves.policies
    ranking = seen.ranking(tenant.policy)
    best = next((one for one in ranking if one.allowed), None)
    known = held not in UNPREDICTED
    miss = float(problem.present_miss[row]) if known else None
    needed = seen.needed() if known else None
    return Explanation(
        cgroup=cgroup,
        miss_ratio=miss,
        throughput_ops=None if miss is None else seen.ops_at(miss),
        best_policy=None if best is None else best.policy,
        best_miss_ratio=None if best is None else best.miss_ratio,
        needed_for_slo_bytes=None if needed is None else needed[0],
        needed_policy=None if needed is None else names[needed[1]],
        held=held,
        ranking=ranking,
    )
