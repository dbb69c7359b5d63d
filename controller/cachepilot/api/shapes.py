# SPDX-License-Identifier: Apache-2.0
"""What the controller tells and is told, as JSON objects.

Numbers that were measured stand beside those that a model predicted, and say which they are.
"""

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field

from cachepilot.api.objective_shapes import ObjectiveShape
from cachepilot.api.role import Role


class Shape(BaseModel):
    """Unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def of_checked(cls, **values: object) -> Self:
        """One of values that are right and complete, which nothing looks at again.

        A fraction of the time of `model_construct`, for the thousands of rows of a node.
        """
        found = cls.__new__(cls)
        object.__setattr__(found, "__dict__", values)
        object.__setattr__(found, "__pydantic_fields_set__", set(values))
        object.__setattr__(found, "__pydantic_extra__", None)
        object.__setattr__(found, "__pydantic_private__", None)
        return found


class AccessView(Shape):
    """What whoever asks may do."""

    role: Role
    may_change: bool


class NodeView(Shape):
    """A node: who it is, and how its memory and its device are used."""

    name: str
    kind: str
    kernel: str
    agent_version: str
    capabilities: list[str]
    policies: list[str]
    connected: bool
    last_seen_s: float
    """The node's time of its last snapshot, seconds since 1970."""
    epoch: int
    budget_bytes: int
    limits_bytes: int
    """Sum of the limits of its tenants."""
    device_capacity_iops: float
    device_iops: float
    tenants: int
    dropped_events_total: int
    problem: str
    """Why nothing is planned, or nothing begun, for it now; empty when all is well."""


class SloView(Shape):
    """A promise: target, what is measured, and the share of windows in which it was kept."""

    kind: str
    target: float
    measured: float | None
    predicted: float | None
    attainable: float | None
    attainable_ops: float | None
    state: str
    met: bool | None
    attainment: float | None
    """Share of the windows of the last hour in which it was met."""
    why: str
    windows_total: int | None = None
    """Windows in which it was judged since it was first stated, as stored: some intervals late.

    Never falls while the tenant is there.
    """
    windows_met_total: int | None = None
    """Those in which it was met."""


class TrialView(Shape):
    """A change under observation."""

    started_s: float
    ends_s: float
    from_policy: str
    to_policy: str
    from_limit_bytes: int
    to_limit_bytes: int
    baseline_ops: float
    predicted_ops: float


class TenantView(Shape):
    """A tenant as it is now: one row of the status table."""

    node: str
    cgroup: str
    policy: str
    limit_bytes: int
    target_limit_bytes: int
    floor_bytes: int
    current_bytes: int
    hit_ratio: float | None
    throughput_ops: float | None
    indicator: str
    latency_p99_us: float | None
    device_iops: float | None
    mode: str
    priority: int
    weight: float
    pinned_policy: str | None
    pinned_limit_bytes: int | None
    pinned_until_s: float | None = None
    """When the pin ends by itself, in seconds since 1970; None: not before it is unpinned."""
    trusted: bool
    distrust: str
    interference: str
    slos: list[SloView]
    trial: TrialView | None
    last_decision: str
    last_decision_s: float | None
    decisions_total: dict[str, int] = {}
    """Decisions by event since it was first seen; never falls while it is there.

    An event that never was is left out.
    """
    file_bytes: int | None = None
    """The page cache's part of `current_bytes`."""
    initial_limit_bytes: int | None = None
    """The limit before the autopilot came; 0 for none."""


class CurvesView(Shape):
    """Miss ratio curves: a row of `miss_ratio` and `error_bar` per policy, an entry per size.

    Sizes are limits: what is not page cache is paid from them too.
    """

    policies: list[str]
    sizes_bytes: list[int]
    miss_ratio: list[list[float]]
    error_bar: list[list[float]]
    sampled: int
    rate: float


class DemandView(Shape):
    """The fitted throughput model; `error_pct` is that of its one-step predictions so far."""

    service_us: float
    accesses_per_op: float
    concurrency: float
    error_pct: float | None


class TenantDetail(Shape):
    """All that is known of one tenant, and why it has what it has."""

    tenant: TenantView
    curves: CurvesView | None
    demand: DemandView | None
    predicted_miss_ratio: float | None
    """At the present policy and size, by the curves."""
    predicted_ops: float | None
    best_policy: str | None
    """The one with the lowest miss ratio at the present size."""
    why: str
    needed_for_slo_bytes: int | None
    """The least memory that keeps every SLO under `needed_policy`; None when none would."""
    read_latency_total: list[int]
    needed_policy: str | None = None
    stated: ObjectiveShape | None = None
    """The statement that holds for it now, of its path or of a glob; None when none names it."""
    inherited: ObjectiveShape | None = None
    """The statement that would hold without one of exactly its path."""


class DecisionView(Shape):
    """A decision, what was predicted of it, and what came of it."""

    id: int
    time_s: float
    node: str
    cgroup: str
    epoch: int
    event: str
    """`trial`, `kept`, `reverted`, `abandoned`, `refused` or `recommended`."""
    from_policy: str
    to_policy: str
    from_limit_bytes: int
    to_limit_bytes: int
    baseline_ops: float | None
    predicted_ops: float | None
    measured_ops: float | None
    baseline_miss_ratio: float | None
    predicted_miss_ratio: float | None
    measured_miss_ratio: float | None
    why: str
    in_force: bool = False
    """Whether the tenant has what this led to, and by this decision: it can be reverted."""


class Pin(Shape):
    """What an operator fixes of one tenant, on one node or on all."""

    cgroup: str
    node: str | None = None
    policy: str | None = None
    limit_bytes: int | None = None
    until_s: float | None = None
    """When it ends by itself, in seconds since 1970; None: not before it is unpinned."""


class Revert(Shape):
    """A decision that is to be undone."""

    decision: Annotated[int, Field(ge=1, le=2**53)]
    """Its `id` in the history."""


class WhatIf(Shape):
    """A question: what would be planned for `node` if this were so. Nothing is changed.

    `budget_bytes` of the node, and per cgroup a policy, a limit or a throughput SLO.
    """

    node: str
    budget_bytes: int | None = None
    policy: dict[str, str] = {}
    limit_bytes: dict[str, int] = {}
    throughput_ops: dict[str, float] = {}
    settled: bool = True
    """The state that many cycles lead to, without the bound on movement; else the next cycle."""


class WhatIfTenant(Shape):
    """One tenant under a question: as it is predicted now, and then."""

    cgroup: str
    policy: str
    limit_bytes: int
    miss_ratio: float
    throughput_ops: float
    to_policy: str
    to_limit_bytes: int
    to_miss_ratio: float
    to_throughput_ops: float
    slos: list[SloView]


class WhatIfAnswer(Shape):
    """What would be planned."""

    node: str
    tenants: list[WhatIfTenant]
    unallocated_bytes: int
    device_share: float
    notes: list[str]


class LeastMemory(Shape):
    """The least memory of one tenant that keeps its SLOs, or what it does now without any."""

    node: str
    cgroup: str
    policy: str
    limit_bytes: int
    least_policy: str
    least_bytes: int
    promised: bool
    """Whether it has an SLO."""
    known: bool
    """Whether it is known what it needs: not where curves or readings are missing."""
    kept: bool
    """Whether the SLOs, or what it does now without any, can be kept at all, if that is known."""
    more_of_this_kind: int
    """How many more tenants like this one fit on its node, by memory and by device."""


class Consolidation(Shape):
    """Least memory per tenant, and nodes that the others could take over."""

    nodes: int
    """How many nodes there are."""
    tenants: list[LeastMemory]
    drainable: list[str]
    moves: dict[str, dict[str, str]]
    """Of each drainable node, which node each cgroup would go to."""
    notes: list[str]
