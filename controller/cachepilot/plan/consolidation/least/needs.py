# SPDX-License-Identifier: Apache-2.0
"""The needs of every tenant on a device at a given wait: what meets SLOs or keeps throughput.

The needs are conservative. A curve counts with its error bar. An SLO of throughput or latency is to
be met in `GOAL` of the windows, whose throughput is assumed to be normal around the model's: the
margin for that is `WINDOW_ERRORS` times the model's mean absolute error, which is that of windows.
A tenant without an SLO keeps its predicted throughput within `TOLERANCE`. If its curves are too
uncertain for that, it needs what it has now.

Curves are followed if the planner can rely on them; for other tenants the measured miss ratio
counts.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import NormalDist
from types import MappingProxyType

import numpy as np

from cachepilot.domain.planned import Held
from cachepilot.domain.slos import GOAL
from cachepilot.domain.snapshot import BoolArray, Curves, FloatArray, IntArray, Node, Snapshot
from cachepilot.model.throughput import Throughput, throughput_model
from cachepilot.model.throughput_error import ABSOLUTE_TO_SD
from cachepilot.plan.problem.asked import BY_MODE, NO_CURVES, Asked
from cachepilot.plan.problem.building import build, min_ops_of, usable_of
from cachepilot.plan.problem.config import Config
from cachepilot.plan.problem.limits import bounds
from cachepilot.plan.problem.packed_curves import PackedCurves
from cachepilot.plan.problem.problem import SLO_MARGIN
from cachepilot.sizes import PAGE_BYTES, pages_up

TOLERANCE = 0.02
"""The share of its present throughput that a tenant without an SLO may lose."""
WINDOW_ERRORS = NormalDist().inv_cdf(GOAL) * ABSOLUTE_TO_SD
"""Mean absolute errors of the model by which at most 1 - `GOAL` of the windows are below it."""
MARGIN_MAX = 0.5
"""The greatest margin for the model's error, as a share of the predicted throughput."""
FREE = frozenset((Held.NOT, *BY_MODE))
"""The reasons `held` with which curves are followed.

The results are advice, which no mode forbids.
"""


def pessimistic(curves: Curves) -> Curves:
    """Add the error bars to the miss ratios of curves."""
    if curves.error_bar is None:
        return curves
    ratios = np.minimum(np.add(curves.miss_ratio, curves.error_bar, dtype=np.float64), 1.0)
    return Curves(curves.policies, curves.sizes_bytes, ratios)


def between(curves: Curves, least: int, most: int) -> Curves:
    """Cut the curves to `least` to `most` bytes; both become points."""
    sizes = curves.sizes_bytes
    low, high = max(least, 1), max(least, most, 1)
    inside = sizes[(sizes > low) & (sizes < high)]
    points = np.unique(np.concatenate(([low], inside, [high])))
    known = np.concatenate(([0], sizes))
    cut = [np.interp(points, known, np.concatenate(([1.0], row))) for row in curves.miss_ratio]
    return Curves(curves.policies, points, np.array(cut))


@dataclass(frozen=True)
class Targets:
    """What N tenants must keep wherever they are, arrays of shape (N,).

    `min_ops` is 0 and `max_miss` inf where no SLO sets them. A tenant without an SLO keeps at least
    its present throughput minus the tolerance. `present_miss` is the predicted miss ratio of its
    present setting, or the measured one if its curves are not followed. `current_bytes` is its
    present or pinned limit. `may_stay` marks tenants for which this limit counts as enough if it is
    predicted to be, without error bars. `wait_us` is the present wait of a read of their device.
    """

    asked: Asked
    follows: BoolArray
    has_slo: BoolArray
    min_ops: FloatArray
    max_miss: FloatArray
    present: IntArray
    present_miss: FloatArray
    current_bytes: IntArray
    may_stay: BoolArray
    wait_us: float

    @classmethod
    def of(
        cls, snapshot: Snapshot, asked: Asked, config: Config, proven: Collection[str] = ()
    ) -> "Targets":
        """Return what the tenants of a node must keep, from its present state.

        For tenants in `proven` a measurement showed that their present limit is enough, so no error
        of a prediction is added.
        """
        here = replace(
            snapshot,
            node=Node(snapshot.node.name, everything(snapshot)),
            device=snapshot.device.without_queueing(),
        )
        stated = tuple(replace(one, memory_min=None, memory_max=None) for one in asked.objectives)
        problem = build(here, replace(asked, objectives=stated), config, FREE)
        load = problem.valued(problem.unchanged())[1]
        now_ops = problem.model.ops(problem.present_miss, load.wait_us)
        is_proven = np.array([one.cgroup in proven for one in asked.tenants], dtype=np.bool_)
        errors = [
            0.0 if one.cgroup in proven else (one.demand.error_pct or 0.0) / 100
            for one in asked.tenants
        ]
        margin = np.minimum(WINDOW_ERRORS * np.array(errors, dtype=np.float64), MARGIN_MAX)
        wanted = min_ops_of(asked.tenants, asked.objectives) / (1 - margin)
        has_slo = (wanted > 0) | (problem.max_miss < 1)
        return cls(
            asked=asked,
            follows=problem.movable,
            has_slo=has_slo,
            min_ops=np.where(has_slo, wanted, now_ops * (1 - TOLERANCE)),
            max_miss=np.where(problem.max_miss < 1, problem.max_miss, np.inf),
            present=problem.present,
            present_miss=problem.present_miss,
            current_bytes=_kept_bytes(asked),
            may_stay=~problem.movable | ((~has_slo | is_proven) & _is_allowed(asked)),
            wait_us=load.wait_us,
        )

    @classmethod
    def joined(cls, parts: Sequence["Targets"]) -> "Targets":
        """Concatenate the targets of several nodes.

        There is no common wait; `wait_us` is 0.
        """
        asked = Asked(
            tenants=tuple(chain.from_iterable(one.asked.tenants for one in parts)),
            objectives=tuple(chain.from_iterable(one.asked.objectives for one in parts)),
            held=tuple(chain.from_iterable(one.asked.held for one in parts)),
            goal=parts[0].asked.goal,
        )
        return cls(
            asked=asked,
            follows=np.concatenate([one.follows for one in parts]),
            has_slo=np.concatenate([one.has_slo for one in parts]),
            min_ops=np.concatenate([one.min_ops for one in parts]),
            max_miss=np.concatenate([one.max_miss for one in parts]),
            present=np.concatenate([one.present for one in parts]),
            present_miss=np.concatenate([one.present_miss for one in parts]),
            current_bytes=np.concatenate([one.current_bytes for one in parts]),
            may_stay=np.concatenate([one.may_stay for one in parts]),
            wait_us=0.0,
        )


def _kept_bytes(asked: Asked) -> IntArray:
    """The present limit of each tenant, or the pinned one."""
    pairs = zip(asked.tenants, asked.limits(FREE), strict=True)
    kept = [one.limit_bytes if limit is None else limit for one, limit in pairs]
    return np.array(kept, dtype=np.int64)


def _is_allowed(asked: Asked) -> BoolArray:
    """Mark the tenants whose present policy and limit are allowed, (N,).

    No pin differs from them, and the objective does not rule the policy out.
    """
    rows = zip(asked.tenants, asked.policies(FREE), _kept_bytes(asked).tolist(), strict=True)
    found = [
        (not policies or one.policy in policies) and one.limit_bytes == kept
        for one, policies, kept in rows
    ]
    return np.array(found, dtype=np.bool_)


def everything(snapshot: Snapshot) -> int:
    """A budget that fits the present limits or the floors of all tenants, in bytes."""
    most = [max(tenant.limit_bytes, tenant.floor_bytes) for tenant in snapshot.tenants]
    return max(snapshot.node.budget_bytes, min(sum(most), 1 << 48))


@dataclass(frozen=True)
class Point:
    """What N tenants need at one wait, (N,): memory, a policy, and the reads that remain.

    `kept` marks tenants that have what they must keep with it. If nothing is enough for a tenant,
    the other fields are its present setting.
    """

    size_bytes: IntArray
    policy: IntArray
    miss: FloatArray
    device_iops: FloatArray
    kept: BoolArray

    def part(self, begin: int, end: int) -> "Point":
        """The needs of the tenants from index `begin` to before `end`."""
        rows = slice(begin, end)
        return Point(
            self.size_bytes[rows],
            self.policy[rows],
            self.miss[rows],
            self.device_iops[rows],
            self.kept[rows],
        )


@dataclass(frozen=True)
class Needs:
    """N tenants with their targets on a device that takes `idle_us` for a read without a wait."""

    targets: Targets
    model: Throughput
    curves: PackedCurves
    usable: BoolArray
    least_bytes: IntArray
    most_bytes: IntArray
    idle_us: float

    @classmethod
    def of(
        cls,
        targets: Targets,
        snapshot: Snapshot,
        config: Config,
        refuted: Mapping[str, int] = MappingProxyType({}),
    ) -> "Needs":
        """Build the needs on the node of a snapshot; only the tenants of `targets` count.

        A tenant that missed its targets with less memory gets at least the bytes in `refuted`.
        """
        asked = targets.asked
        least, most, _ = bounds(asked, FREE, snapshot.node.budget_bytes)
        floors = [pages_up(refuted.get(one.cgroup, 0)) for one in asked.tenants]
        least = np.maximum(least, np.array(floors, dtype=np.int64))
        most = np.maximum(most, least)
        curves = [
            between(pessimistic(one), low, high) if follows else NO_CURVES
            for one, follows, low, high in zip(
                asked.curves, targets.follows.tolist(), least.tolist(), most.tolist(), strict=True
            )
        ]
        packed = PackedCurves.of(curves)
        return cls(
            targets=targets,
            model=throughput_model(asked.tenants, snapshot.device.without_queueing(), config.model),
            curves=packed,
            usable=usable_of(packed, [one.policies for one in curves], asked.policies(FREE)),
            least_bytes=np.maximum(least, PAGE_BYTES),
            most_bytes=np.maximum(most, PAGE_BYTES),
            idle_us=snapshot.device.miss_cost_us,
        )

    @classmethod
    def joined(cls, parts: Sequence["Needs"]) -> "Needs":
        """Concatenate the needs of several nodes, on a device with an idle time of 0.

        There, a wait is all of the time that a read takes.
        """
        models = [one.model for one in parts]
        policies = max((one.usable.shape[1] for one in parts), default=0)
        wide = [np.pad(one.usable, ((0, 0), (0, policies - one.usable.shape[1]))) for one in parts]
        idle = [one.model.per_miss - one.model.per_wait * one.idle_us for one in parts]
        return cls(
            targets=Targets.joined([one.targets for one in parts]),
            model=Throughput(
                scale=np.concatenate([one.scale for one in models]),
                base=np.concatenate([one.base for one in models]),
                per_miss=np.concatenate(idle),
                per_wait=np.concatenate([one.per_wait for one in models]),
                accesses=np.concatenate([one.accesses for one in models]),
                capacity_iops=sum(one.capacity_iops for one in models),
            ),
            curves=PackedCurves.joined([one.curves for one in parts]),
            usable=np.concatenate(wide),
            least_bytes=np.concatenate([one.least_bytes for one in parts]),
            most_bytes=np.concatenate([one.most_bytes for one in parts]),
            idle_us=0.0,
        )

    def in_force(self) -> "Needs":
        """Restrict tenants with an SLO to their present policies, the only ones that are certain.

        Other policies of a tenant are only simulated, never measured, until they are attached. If
        the present policy is not allowed, all allowed policies count. A tenant without an SLO must
        keep its present throughput, but is owed no measurement beforehand. On a slightly slower
        device it can keep that only with a better policy.
        """
        if self.usable.size == 0:
            return self
        kept = np.zeros_like(self.usable)
        # The curves of tenants that do not follow them are not packed, nor are their policies.
        rows = np.flatnonzero(self.targets.follows)
        present = self.targets.present[rows]
        kept[rows, present] = self.usable[rows, present]
        has_own = kept.sum(axis=1) > 0
        is_sure = has_own & self.targets.has_slo
        return replace(self, usable=np.where(is_sure[:, None], kept, self.usable))

    def allowed_miss(self, wait_us: float | FloatArray) -> FloatArray:
        """The greatest miss ratio that meets the targets at a wait, (N,); negative if none does."""
        slope = self.model.per_miss + self.model.per_wait * wait_us
        with np.errstate(divide="ignore"):
            by_ops = (self.model.scale / self.targets.min_ops - self.model.base) / slope
        found = np.minimum(by_ops, self.targets.max_miss)
        return found + SLO_MARGIN * np.abs(np.where(np.isfinite(found), found, 0.0))

    def best_miss(self) -> FloatArray:
        """The least miss ratio that each tenant can have, (N,)."""
        if self.usable.size == 0:
            return self.targets.present_miss
        ratios = np.where(self.usable[:, :, None], self.curves.miss_ratio, 1.0)[:, :, 1:]
        return np.where(self.targets.follows, ratios.min(axis=(1, 2)), self.targets.present_miss)

    def at(self, wait_us: float | FloatArray, most_miss: FloatArray | None = None) -> Point:
        """Return what tenants need while every device read waits `wait_us`, one for all or (N,).

        `most_miss`, (N,), is a further bound on their miss ratios.
        """
        targets, allowed = self.targets, self.allowed_miss(wait_us)
        if most_miss is not None:
            allowed = np.minimum(allowed, most_miss)
        present, current = targets.present, targets.current_bytes
        if present.size == 0:
            nothing = targets.present_miss
            return Point(current, present, nothing, nothing, targets.follows)
        first = np.where(self.usable, self.curves.first_size(allowed), np.inf)
        size, policy = first.min(axis=1), first.argmin(axis=1)
        by_curve = targets.follows & np.isfinite(size)
        pages = pages_up(np.ceil(np.where(by_curve, size, 0.0)).astype(np.int64))
        pages = np.clip(pages, self.least_bytes, self.most_bytes)
        # A tenant without an SLO may keep its present setting, regardless of error bars.
        stays = targets.may_stay & (targets.present_miss <= allowed)
        has_enough = (pages >= current) & (current >= self.least_bytes)
        by_curve = by_curve & ~(stays & has_enough)
        miss = self.curves.miss(pages[:, None], policy)[:, 0]
        miss = np.where(by_curve, miss, targets.present_miss)
        return Point(
            size_bytes=np.where(by_curve, pages, current),
            policy=np.where(by_curve, policy, present),
            miss=miss,
            device_iops=self.model.device_iops(miss, wait_us),
            kept=by_curve | stays,
        )

    def without_more(self, point: Point) -> Point:
        """Mark tenants without an SLO that would need more than they have as not kept.

        Their present memory is enough now, and this must not depend on memory that other tenants
        free.
        """
        targets = self.targets
        had = np.maximum(targets.current_bytes, self.least_bytes)
        short = targets.may_stay & ~targets.has_slo & (point.size_bytes > had)
        miss = np.where(short, targets.present_miss, point.miss)
        return replace(
            point,
            size_bytes=np.where(short, targets.current_bytes, point.size_bytes),
            policy=np.where(short, targets.present, point.policy),
            miss=miss,
            kept=point.kept & ~short,
        )
