# SPDX-License-Identifier: Apache-2.0
"""How promises stand by what is measured, whatever is predicted of them."""

from collections.abc import Mapping
from dataclasses import dataclass

from cachepilot.domain.objectives.objective import Mode, Objective, Objectives
from cachepilot.plan.slo_outcomes import UNITS, measured, meets
from cachepilot.sense.collect import Collected

NEAR = 1.25
"""Above what keeps a promise by less, a trial that goes wrong may break it."""
AMPLE = 1.1
"""So far above it, memory may be given back although it came lately."""
EPSILON = 1e-9


@dataclass(frozen=True)
class Standing:
    """Tenants of one node with promises.

    `short` fall short of one; `tight` are those, and those with nothing to give; `near` are those,
    and those that a trial could make fall short;
    `ample` are above all that they are promised, with some to spare.
    """

    short: frozenset[str] = frozenset()
    near: frozenset[str] = frozenset()
    tight: frozenset[str] = frozenset()
    ample: frozenset[str] = frozenset()

    def priority(self, objectives: Objectives) -> int | None:
        """The highest priority of a promise that is not kept; None when all are."""
        return max((objectives.of(cgroup).priority for cgroup in self.short), default=None)


NOBODY = Standing()


def _times_better(kind: str, value: float, target: float) -> float:
    """How many times as slow, or as often missing, a tenant might be and keep its promise."""
    if kind == "hit_ratio":
        return (1.0 - target) / max(1.0 - value, EPSILON)
    return target / max(value, EPSILON)


def _reached(objective: Objective, found: Mapping[str, float | None], goal_ops: float) -> float:
    """How far above its promises a tenant is, the nearest of them; below 1 when it misses one."""
    reached = []
    for kind, value in found.items():
        target = getattr(objective, kind)
        if target is None or value is None:
            continue
        if kind == "throughput_ops":
            reached.append(value / goal_ops)
        else:
            times = _times_better(kind, value, target)
            reached.append(max(1.0, times) if meets(kind, value, target) else 0.0)
    return min(reached, default=float("inf"))


def standing(
    collected: Collected, objectives: Objectives, goals_ops: Mapping[str, float]
) -> Standing:
    """Of every tenant that something is measured of; `goals_ops` are means that keep windows.

    Not of one that does nothing, or whose limit is pinned: no memory helps it.
    """
    short, near, tight, ample = set(), set(), set(), set()
    for cgroup, seen in collected.seen.items():
        objective = objectives.of(cgroup)
        if not objective.has_slo or objective.mode is not Mode.AUTO or seen.window is None:
            continue
        fixed = objective.fixed is not None and objective.fixed.limit_bytes is not None
        if fixed or seen.window.ops <= 0:
            continue
        found = {kind: measured(kind, seen.tenant) for kind in UNITS}
        goal_ops = goals_ops.get(cgroup, objective.throughput_ops or 1.0)
        reached = _reached(objective, found, goal_ops)
        if reached < 1:
            short.add(cgroup)
        if reached < NEAR:
            near.add(cgroup)
        if reached < AMPLE:
            tight.add(cgroup)
        elif reached < float("inf"):
            ample.add(cgroup)
    return Standing(frozenset(short), frozenset(near), frozenset(tight), frozenset(ample))
