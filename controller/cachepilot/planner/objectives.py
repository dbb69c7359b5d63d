# SPDX-License-Identifier: Apache-2.0
"""What an operator asks of each tenant, and which statement holds for a cgroup."""

import re
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import translate
from functools import cached_property

from cachepilot.errors import InputError
from cachepilot.planner.snapshot import BYTES_MAX
from cachepilot.sizes import PAGE_BYTES, Size, pages_down

UPPER = {"throughput_ops": 1e12, "latency_p99_us": 1e12, "hit_ratio": 1.0, "weight": 1e6}
"""The greatest value of each number of an objective; all are above 0."""


class Goal(StrEnum):
    """What the node's memory is for, once every SLO is kept."""

    THROUGHPUT = "throughput"
    LEAST_MEMORY = "least_memory"


class Mode(StrEnum):
    """How far the autopilot may go with a tenant."""

    OBSERVE = "observe"
    RECOMMEND = "recommend"
    AUTO = "auto"


@dataclass(frozen=True)
class Objective:
    """One statement, for the cgroups that `pattern` matches: a path, or a glob of paths.

    A share as `memory_min` or `memory_max` is one of the node's budget. `policies` are those
    allowed, all when empty; one alone is pinned. SLOs of a higher `priority` come first. Raises
    InputError naming the pattern and the key when a number is not above 0 to its `UPPER`.
    """

    pattern: str
    throughput_ops: float | None = None
    latency_p99_us: float | None = None
    hit_ratio: float | None = None
    weight: float = 1.0
    priority: int = 0
    memory_min: Size | None = None
    memory_max: Size | None = None
    policies: tuple[str, ...] = ()
    mode: Mode = Mode.AUTO

    def __post_init__(self) -> None:
        for name, most in UPPER.items():
            value = getattr(self, name)
            if value is not None and not 0 < value <= most:
                allowed = f"allowed: above 0 to {most:g}"
                raise InputError(f"objective {self.pattern}: {name}: {value} ({allowed})")

    @property
    def has_slo(self) -> bool:
        """Whether anything is promised."""
        slos = (self.throughput_ops, self.latency_p99_us, self.hit_ratio)
        return any(slo is not None for slo in slos)


UNNAMED = Objective(pattern="*", mode=Mode.OBSERVE)
"""Holds for a cgroup that no statement matches: it is left alone."""


def size_bytes(size: Size, budget_bytes: int) -> int:
    """`size` in bytes, whole pages, at most BYTES_MAX; a share is one of `budget_bytes`."""
    if size.share is None:
        return min((size.pages or 0) * PAGE_BYTES, BYTES_MAX)
    return pages_down(int(size.share * budget_bytes))


@dataclass(frozen=True)
class Objectives:
    """All statements of an operator. An exact path comes before globs, then the first match."""

    tenants: tuple[Objective, ...] = ()
    goal: Goal = Goal.THROUGHPUT

    @cached_property
    def _exact(self) -> dict[str, Objective]:
        return {objective.pattern: objective for objective in reversed(self.tenants)}

    @cached_property
    def _globs(self) -> list[tuple[re.Pattern[str], Objective]]:
        return [
            (re.compile(translate(objective.pattern)), objective)
            for objective in self.tenants
            if any(character in objective.pattern for character in "*?[")
        ]

    def of(self, cgroup: str) -> Objective:
        """The statement that holds for `cgroup`; UNNAMED when there is none."""
        exact = self._exact.get(cgroup)
        if exact is not None:
            return exact
        return next((found for glob, found in self._globs if glob.match(cgroup)), UNNAMED)
