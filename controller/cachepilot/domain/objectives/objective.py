# SPDX-License-Identifier: Apache-2.0
"""What an operator requests for each tenant, and which objective applies to a cgroup."""

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from fnmatch import translate
from functools import cached_property

from cachepilot.domain.names import GLOB, cgroup_pattern
from cachepilot.domain.objectives.workload import Workload, workload_pattern
from cachepilot.domain.units import BYTES_MAX
from cachepilot.errors import InputError
from cachepilot.sizes import PAGE_BYTES, Size, pages_down

UPPER = {
    "throughput_ops": 1e12,
    "latency_p99_us": 1e12,
    "hit_ratio": 1.0,
    "weight": 1e6,
    "cpus": 1e4,
}
"""The greatest value of each number of an objective; all must be above 0."""
KEEP = 0.9
"""The share that a tenant without an SLO keeps by default.

It is a share of its throughput with its first memory.
"""
REMEMBERED_MAX = 1 << 16
"""The most cgroups whose objective is cached, so that globs are matched once."""


class Goal(StrEnum):
    """The purpose of the node's memory once every SLO is met.

    `proportional_fairness` maximises the sum of weight x log(throughput) (Kelly 1997). A gain or a
    loss counts relative to what a tenant has, so that a tenant does not starve for one whose
    operations are faster. `total_throughput` maximises the sum of weight x throughput.
    `least_memory` minimises the sum of limits.
    """

    PROPORTIONAL_FAIRNESS = "proportional_fairness"
    TOTAL_THROUGHPUT = "total_throughput"
    LEAST_MEMORY = "least_memory"

    @classmethod
    def _missing_(cls, value: object) -> "Goal | None":
        """Accept `throughput`, the name of `total_throughput` in records of earlier versions."""
        return cls.TOTAL_THROUGHPUT if value == "throughput" else None


class Mode(StrEnum):
    """How much the autopilot may do with a tenant."""

    OBSERVE = "observe"
    RECOMMEND = "recommend"
    AUTO = "auto"


class Counter(StrEnum):
    """What counts as an operation of a tenant."""

    ACCESSES = "accesses"
    READ_CALLS = "read_calls"
    BLOCK_READS = "block_reads"
    PROMETHEUS = "prometheus"


@dataclass(frozen=True)
class Indicator:
    """The counter of operations: one of the node, or a series scraped from the application.

    For `prometheus`, `url` is that of the application's metrics, and `metric` is the name of the
    series, with labels if it has any.
    """

    counter: Counter = Counter.READ_CALLS
    url: str = ""
    metric: str = ""

    def __str__(self) -> str:
        return self.metric if self.counter is Counter.PROMETHEUS else str(self.counter)


@dataclass(frozen=True)
class Fixed:
    """What an operator pinned for one tenant: its policy, its limit, or both.

    It applies in every mode and regardless of the curves, but not below the floor. `until_s` is
    only for display; a pin that has expired is not part of the objectives. `is_over` means that the
    pin ended, and these are the settings from before it, which the tenant is to get back.
    """

    policy: str | None = None
    limit_bytes: int | None = None
    until_s: float | None = None
    is_over: bool = False


@dataclass(frozen=True)
class Objective:
    """One objective, for the cgroups that `pattern` matches: a path, a glob of paths, or workloads.

    `cachepilot.domain.objectives.workload` explains patterns of Kubernetes workloads. A share as
    `memory_min` or `memory_max` is one of the node's budget. `policies` are the allowed ones, all
    if empty; a single one is pinned. SLOs of a higher `priority` come first. `keep` is the share of
    its throughput with its first memory that a tenant without an SLO keeps. `fixed` is what an
    operator pinned, see `cachepilot.domain.objectives.pins`; it overrides the rest. Raises
    InputError, which names the pattern and the key, if a number is not above 0 and at most its
    `UPPER`, if `keep` is not in 0 to 1, or if the pattern is invalid. The pattern is stored in the
    form of `domain.names`.

    `tasks` are command names, or globs of them, of tasks that read much and reuse nothing. Policies
    that treat named tasks separately are candidates only for tenants that have some.

    `movable`, `affinity`, `anti_affinity` and `cpus` say where its tenants may go when nodes are
    consolidated. They move only if they are `movable`, only to nodes that match all of `affinity`
    (a name, a label or a glob of one), and to no node with a tenant whose path matches one of
    `anti_affinity`. A tenant needs `cpus` on any node; as measured if that is None.

    `slo_margin` is never stated by an operator. It is the share above its SLOs at which a plan
    aims, so that intervals meet them in spite of their variation.
    """

    pattern: str
    throughput_ops: float | None = None
    latency_p99_us: float | None = None
    hit_ratio: float | None = None
    weight: float = 1.0
    priority: int = 0
    keep: float = KEEP
    memory_min: Size | None = None
    memory_max: Size | None = None
    policies: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    mode: Mode = Mode.AUTO
    fixed: Fixed | None = None
    indicator: Indicator = Indicator()
    cpus: float | None = None
    affinity: tuple[str, ...] = ()
    anti_affinity: tuple[str, ...] = ()
    movable: bool = True
    slo_margin: float = 0.0

    def __post_init__(self) -> None:
        vars(self)["pattern"] = cgroup_pattern(self.pattern)
        for name, most in UPPER.items():
            value = getattr(self, name)
            if value is not None and not 0 < value <= most:
                allowed = f"allowed: above 0 to {most:g}"
                raise InputError(f"objective {self.pattern}: {name}: {value} ({allowed})")
        if not 0 <= self.keep <= 1:
            raise InputError(f"objective {self.pattern}: keep: {self.keep} (allowed: 0 to 1)")

    def narrowed(
        self,
        pattern: str,
        policies: tuple[str, ...] | None = None,
        memory_min: Size | None = None,
        memory_max: Size | None = None,
        keep_margin: float = 0.0,
    ) -> "Objective":
        """Return the objective restricted to the given values.

        `keep` is raised by the share `keep_margin` of itself, at most to 1. This is called for
        hundreds of tenants in every cycle. It changes nothing that has an `UPPER`, so it skips the
        checks.
        """
        found = object.__new__(Objective)
        found.__dict__.update(self.__dict__, pattern=pattern)
        held = {"policies": policies, "memory_min": memory_min, "memory_max": memory_max}
        found.__dict__.update((name, value) for name, value in held.items() if value is not None)
        found.__dict__["keep"] = min(1.0, self.keep * (1 + keep_margin))
        return found

    @property
    def has_slo(self) -> bool:
        """Whether it has an SLO."""
        return (
            self.throughput_ops is not None
            or self.latency_p99_us is not None
            or self.hit_ratio is not None
        )

    @property
    def is_advised(self) -> bool:
        """Whether to make recommendations: not if something is pinned."""
        return self.mode is Mode.RECOMMEND and self.fixed is None

    @property
    def aims(self) -> "Objective":
        """Return the objective with targets of throughput and hit ratio raised by `slo_margin`.

        A hit ratio is raised at most half of the way to 1, since it varies less the nearer it is to
        1.
        """
        if self.slo_margin <= 0:
            return self
        ops, hits, above = self.throughput_ops, self.hit_ratio, 1 + self.slo_margin
        return replace(
            self,
            throughput_ops=None if ops is None else min(ops * above, UPPER["throughput_ops"]),
            hit_ratio=None if hits is None else min(hits * above, (1 + hits) / 2),
            slo_margin=0.0,
        )


UNNAMED = Objective(pattern="*", mode=Mode.OBSERVE)
"""Applies to a cgroup that no objective matches: the planner leaves it alone."""


def size_bytes(size: Size, budget_bytes: int) -> int:
    """Convert `size` to whole pages in bytes, at most BYTES_MAX; a share is of `budget_bytes`."""
    if size.share is None:
        return min((size.pages or 0) * PAGE_BYTES, BYTES_MAX)
    return pages_down(int(size.share * budget_bytes))


@dataclass(frozen=True)
class Objectives:
    """All objectives of an operator.

    An exact path comes before globs; among globs the first match applies. Those of `pinned` come
    before all others, each only for the cgroup that equals its pattern. Patterns of workloads match
    those in `workloads`, which an operator never states.
    """

    tenants: tuple[Objective, ...] = ()
    goal: Goal = Goal.PROPORTIONAL_FAIRNESS
    pinned: tuple[Objective, ...] = ()
    workloads: tuple[Workload, ...] = ()

    @cached_property
    def names_workloads(self) -> bool:
        """Whether any objective names workloads."""
        return any(workload_pattern(one.pattern) is not None for one in self.tenants)

    def among(self, workloads: Iterable[Workload]) -> "Objectives":
        """Return the objectives with these workloads.

        If no objective names workloads, they are returned unchanged.
        """
        if not self.names_workloads:
            return self
        found = tuple(workloads)
        return self if found == self.workloads else replace(self, workloads=found)

    @cached_property
    def _by_cgroup(self) -> dict[str, Workload]:
        return {workload.cgroup: workload for workload in self.workloads}

    @cached_property
    def _exact(self) -> dict[str, Objective]:
        stated = (*self.pinned, *self.tenants)
        return {objective.pattern: objective for objective in reversed(stated)}

    @cached_property
    def _globs(self) -> list[tuple[Callable[[str], bool], Objective]]:
        found = ((self._matcher(objective.pattern), objective) for objective in self.tenants)
        return [(matches, objective) for matches, objective in found if matches is not None]

    def _matcher(self, pattern: str) -> Callable[[str], bool] | None:
        """Return a function that says which cgroups a pattern matches.

        None for a single path, which a lookup finds instead.
        """
        named = workload_pattern(pattern)
        if named is not None:
            known = self._by_cgroup
            return lambda cgroup: cgroup in known and named.matches(known[cgroup])
        if any(character in pattern for character in GLOB):
            glob = re.compile(translate(pattern))
            return lambda cgroup: glob.match(cgroup) is not None
        return None

    @cached_property
    def _found(self) -> dict[str, Objective]:
        return {}

    def of(self, cgroup: str) -> Objective:
        """Return the objective that applies to `cgroup`; UNNAMED if there is none."""
        known = self._found
        if cgroup in known:
            return known[cgroup]
        if len(known) >= REMEMBERED_MAX:
            known.clear()
        found = known[cgroup] = self._exact.get(cgroup) or self.of_globs(cgroup)
        return found

    def unmatched(self, cgroups: Collection[str]) -> list[str]:
        """List the patterns that match none of these cgroups, in their order.

        A pattern that matches only cgroups to which an earlier one applies is not listed: it does
        match.
        """
        known = set(cgroups)
        found = []
        for one in self.tenants:
            matches = self._matcher(one.pattern)
            is_there = one.pattern in known if matches is None else any(map(matches, known))
            if not is_there:
                found.append(one.pattern)
        return found

    def of_globs(self, cgroup: str) -> Objective:
        """Return the objective that would apply without one of exactly this path.

        UNNAMED if there is none.
        """
        return next((one for matches, one in self._globs if matches(cgroup)), UNNAMED)
