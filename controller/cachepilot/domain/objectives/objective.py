# SPDX-License-Identifier: Apache-2.0
"""What an operator asks of each tenant, and which objective holds for a cgroup."""

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
"""The greatest value of each number of an objective; all are above 0."""
KEEP = 0.9
"""Of its throughput at its first memory: what a tenant without an SLO keeps unasked."""
REMEMBERED_MAX = 1 << 16
"""Cgroups whose objective is remembered, so that globs are matched once."""


class Goal(StrEnum):
    """What the node's memory is for, once every SLO is met.

    `proportional_fairness` is the greatest sum of weight x log(throughput) (Kelly 1997): what one
    tenant gains and another loses counts relative to what each has, so that nobody is starved for
    who counts faster operations. `total_throughput` is the greatest sum of weight x throughput.
    """

    PROPORTIONAL_FAIRNESS = "proportional_fairness"
    TOTAL_THROUGHPUT = "total_throughput"
    LEAST_MEMORY = "least_memory"

    @classmethod
    def _missing_(cls, value: object) -> "Goal | None":
        """`throughput` is what stores and records of earlier versions call `total_throughput`."""
        return cls.TOTAL_THROUGHPUT if value == "throughput" else None


class Mode(StrEnum):
    """How far the autopilot may go with a tenant."""

    OBSERVE = "observe"
    RECOMMEND = "recommend"
    AUTO = "auto"


class Counter(StrEnum):
    """What is counted as an operation of a tenant."""

    ACCESSES = "accesses"
    READ_CALLS = "read_calls"
    BLOCK_READS = "block_reads"
    PROMETHEUS = "prometheus"


@dataclass(frozen=True)
class Indicator:
    """The counter behind "operations": the node's, or a series scraped from the application.

    With `prometheus`, `url` is that of its metrics and `metric` a name, with labels if it has any.
    """

    counter: Counter = Counter.READ_CALLS
    url: str = ""
    metric: str = ""

    def __str__(self) -> str:
        return self.metric if self.counter is Counter.PROMETHEUS else str(self.counter)


@dataclass(frozen=True)
class Fixed:
    """What an operator fixed of one tenant by hand: its policy, its limit, or both.

    It holds in every mode and whatever is known of the tenant, but for its floor. `until_s` is only
    told: what is over is not among what is asked. With `is_over` it is what a pin had replaced and
    the tenant is to have again.
    """

    policy: str | None = None
    limit_bytes: int | None = None
    until_s: float | None = None
    is_over: bool = False


@dataclass(frozen=True)
class Objective:
    """One objective, for the cgroups that `pattern` matches: a path, a glob of paths, or workloads.

    What names workloads of Kubernetes is told by `cachepilot.domain.objectives.workload`.
    A share as `memory_min` or `memory_max` is one of the node's budget. `policies` are those
    allowed, all when empty; one alone is pinned. SLOs of a higher `priority` come first. `keep` is
    the share of its throughput at its first memory that a tenant without an SLO keeps. `fixed`
    is what was pinned by hand, see `cachepilot.domain.objectives.pins`; it comes before the rest.
    Raises InputError naming the pattern and the key when a number is not above 0 to its `UPPER`,
    `keep` is not 0 to 1, or the pattern is none; it is kept as `domain.names` has it.

    `tasks` are command names, or globs of them: of those that read much and reuse nothing. Policies
    that treat named tasks apart are candidates of a tenant that has some, and of no other.

    Where its tenants may go when nodes are consolidated: not at all unless they are `movable`, to
    nodes that match all of `affinity` (a name, a label or a glob of one), and to none that has a
    tenant whose path matches one of `anti_affinity`. It needs `cpus` on any of them; as measured
    where that is None.

    `slo_margin` is never stated: the share above its SLOs at which a plan aims, so that intervals
    that scatter meet them.
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
        """The same, held to what is given, for hundreds of tenants in every cycle.

        What it keeps is raised by a share of that, at most to all. Nothing that has an `UPPER`
        changes, so nothing is checked again.
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
        """Whether recommendations are made: what is pinned needs none."""
        return self.mode is Mode.RECOMMEND and self.fixed is None

    @property
    def aims(self) -> "Objective":
        """The same with `slo_margin` above its targets of throughput and of hits.

        A hit ratio is aimed at no higher than half way to 1, which scatters less the nearer it is.
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
"""Holds for a cgroup that no objective matches: it is left alone."""


def size_bytes(size: Size, budget_bytes: int) -> int:
    """`size` in bytes, whole pages, at most BYTES_MAX; a share is one of `budget_bytes`."""
    if size.share is None:
        return min((size.pages or 0) * PAGE_BYTES, BYTES_MAX)
    return pages_down(int(size.share * budget_bytes))


@dataclass(frozen=True)
class Objectives:
    """All objectives of an operator. An exact path comes before globs, then the first match.

    Those of `pinned` come before all others, each for the cgroup of exactly its pattern. What names
    workloads matches those of `workloads`, which is never stated.
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
        """The same where these are the workloads; of no objective that names any, just the same."""
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
        """Which cgroups a pattern matches; None for one path, which is found without."""
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
        """The objective that holds for `cgroup`; UNNAMED when there is none."""
        known = self._found
        if cgroup in known:
            return known[cgroup]
        if len(known) >= REMEMBERED_MAX:
            known.clear()
        found = known[cgroup] = self._exact.get(cgroup) or self.of_globs(cgroup)
        return found

    def unmatched(self, cgroups: Collection[str]) -> list[str]:
        """Patterns of those that match none of these cgroups, in their order.

        With those that come after another match: what they name is there.
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
        """What would hold without an objective of exactly this path; UNNAMED when nothing would."""
        return next((one for matches, one in self._globs if matches(cgroup)), UNNAMED)
