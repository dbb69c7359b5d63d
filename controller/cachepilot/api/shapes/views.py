# SPDX-License-Identifier: Apache-2.0
"""Nodes, tenants and decisions, as JSON objects.

Measured values stand beside values that a model predicted, and say which they are.
"""

from pydantic import Field

from cachepilot.api.shapes.shape import View
from cachepilot.fleet.role import Role


class AccessView(View):
    """What whoever asks may do."""

    role: Role
    may_change: bool


class ConditionView(View):
    """What an operator should know of a node or a tenant, for as long as it holds."""

    kind: str
    """`limit_asserted`, `limit_yielded`, `other_manager`, or `name_taken`: a second agent in the
    node's name is refused."""
    message: str
    since_s: float
    """The node's time at which it was first seen, seconds since 1970; of `name_taken` the
    controller's."""


class WorkloadView(View):
    """What Kubernetes calls a tenant; `container` is empty for the cgroup of a pod."""

    namespace: str
    pod: str
    container: str
    labels: dict[str, str]


class NodeView(View):
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
    device_iops: float | None
    """None while nothing is known of it: a stale node's is left out."""
    tenants: int
    dropped_events_total: int
    problem: str
    """Why nothing is planned, or nothing begun, for it now; empty when all is well."""
    conditions: list[ConditionView] = Field(default=[])
    stale: bool = False
    """Whether no snapshot came for five control intervals: nothing measured of it is shown."""
    heard_s: float | None = None
    """The controller's time of its last snapshot, seconds since 1970."""
    free_bytes: int = 0
    """Memory that is in no limit; 0 of a stale node, as what follows."""
    sure_free_bytes: int = 0
    """As much was free all the time in the last `free_for_s` seconds."""
    free_for_s: float = 0.0
    free_confidence: float = 0.0
    """Chance that `sure_free_bytes` are free all through the next minute."""


class SloView(View):
    """An SLO: target, what is measured, and the share of windows in which it was met."""

    kind: str
    target: float
    measured: float | None
    predicted: float | None
    attainable: float | None
    attainable_ops: float | None
    state: str
    met: bool | None
    attainment: float | None
    """Share of the windows of the last hour in which it was met, since it has this target."""
    why: str
    windows_total: int | None = None
    """Windows in which it was judged since it was first stated, as stored: some intervals late.

    Never falls while the tenant is there.
    """
    windows_met_total: int | None = None
    """Those in which it was met."""
    verdict: str = ""
    """`met`, `missed`, `not measured` or `stale`: by what was measured last. `state` is what is
    predicted of the plan."""


class TrialView(View):
    """A change under observation."""

    started_s: float
    ends_s: float
    from_policy: str
    to_policy: str
    from_limit_bytes: int
    to_limit_bytes: int
    baseline_ops: float
    predicted_ops: float


class RecommendationView(View):
    """What is recommended to a tenant in mode `recommend`: all amounts are predicted."""

    policy: str
    limit_bytes: int
    lower_bytes: int
    """With less it would have a lower throughput, even if its curve is wrong in its favour."""
    upper_bytes: int
    """With this it has the throughput, even if its curve is wrong against it."""
    throughput_ops: float
    throughput_low_ops: float
    """With `throughput_high_ops`: the bounds of 95%."""
    throughput_high_ops: float
    present_ops: float
    """What the same model predicts for what it has."""
    at_least_ops: float | None
    """What its SLO takes; or what it does now, if it gets more; or what it keeps, if it gives."""
    confidence: float | None
    """The chance that it does `at_least_ops`; None where curves cannot be trusted."""
    since_s: float | None
    """The node's time at which it last changed; None: it never was another than what it has."""


class TenantView(View):
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
    decisions_total: dict[str, int] = Field(default={})
    """Decisions by event since it was first seen; never falls while it is there.

    An event that never was is left out.
    """
    file_bytes: int | None = None
    """The page cache's part of `current_bytes`."""
    initial_limit_bytes: int | None = None
    """The limit before the autopilot came; 0 for none."""
    readahead_policy: str | None = None
    """The readahead policy that decides; null where there is none."""
    conditions: list[ConditionView] = Field(default=[])
    workload: WorkloadView | None = None
    """Null where it is none of Kubernetes."""
    stale: bool = False
    """Whether its node is stale: readings and what is judged by them are null."""
    recommendation: RecommendationView | None = None
    """In mode `recommend`, once there are curves."""


class DecisionView(View):
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
