# SPDX-License-Identifier: Apache-2.0
"""Objectives as JSON, with the keys of the objectives file.

These shapes are the schema; `domain.objectives.file` reads the values and checks their ranges.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from cachepilot.domain.objectives.file import objective_from, objectives_from
from cachepilot.domain.objectives.objective import Objective, Objectives
from cachepilot.domain.objectives.table import objective_table, objectives_document


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PrometheusIndicator(_Strict):
    """A counter of the application itself: the URL of its metrics, and a name with its labels."""

    prometheus: str
    metric: str


class ObjectiveShape(_Strict):
    """What is asked of the cgroups that match `cgroup`; a key that is left out has its default."""

    cgroup: str
    """A path below the mount of the cgroup hierarchy, or a glob of paths.

    Or Kubernetes workloads: `pod:NAMESPACE/POD[/CONTAINER][{LABEL=VALUE,...}]`.
    """
    throughput_ops: float | None = None
    latency_p99_us: float | None = None
    hit_ratio: float | None = None
    weight: float | None = None
    priority: int | None = None
    keep: float | None = None
    """For a tenant without an SLO: the share of its throughput at its first memory to keep."""
    memory_min: str | int | float | None = None
    memory_max: str | int | float | None = None
    policies: str | list[str] | None = None
    tasks: list[str] | None = None
    """Command names, or globs of them, of tasks that read much and reuse nothing."""
    mode: Literal["observe", "recommend", "auto"] | None = None
    indicator: Literal["accesses", "read_calls", "block_reads"] | PrometheusIndicator | None = None
    """What counts as an operation; read calls by default."""
    cpus: float | None = None
    """CPUs that the tenant needs on any node; null: as measured."""
    affinity: list[str] | None = None
    """Names or labels of nodes, or globs of them, all of which its node must match."""
    anti_affinity: list[str] | None = None
    """Paths of cgroups, or globs of them, that no other tenant of its node may have."""
    movable: bool | None = None
    """Whether the tenant may move to another node; true by default."""

    @classmethod
    def of(cls, objective: Objective) -> "ObjectiveShape":
        """Return the shape of an objective, without keys at their default."""
        return cls(**objective_table(objective))

    def objective(self) -> Objective:
        """Return the objective; raise InputError naming the key and the allowed range."""
        return objective_from(self.model_dump(exclude_none=True), f"objective {self.cgroup}")


class ObjectivesShape(_Strict):
    """All objectives, the first match holds; `goal` is what memory is for once SLOs are met."""

    goal: Literal["proportional_fairness", "total_throughput", "least_memory"] = (
        "proportional_fairness"
    )
    tenant: list[ObjectiveShape] = []
    unmatched: list[str] | None = None
    """Only in answers: the objectives, by cgroup, that match no known tenant."""

    @classmethod
    def of(cls, objectives: Objectives) -> "ObjectivesShape":
        """Return the shape of all objectives, without keys at their default."""
        return cls(**objectives_document(objectives))

    def objectives(self) -> Objectives:
        """Return the objectives; raise InputError naming the tenant, the key and the range."""
        stated = self.model_dump(exclude_none=True, exclude={"unmatched"})
        return objectives_from(stated, "objectives")
