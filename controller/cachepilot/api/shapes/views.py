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
    """`limit_asserted`, `limit_yielded`, `other_manager`, or `name_taken`: a second agent under the
    node's name is refused."""
    message: str
    since_s: float
    """When it was first seen, by the node's clock in seconds since 1970; for `name_taken` by the
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
    """When the last snapshot was taken, by the node's clock in seconds since 1970."""
    epoch: int
    budget_bytes: int
    limits_bytes: int
    """Sum of the limits of its tenants."""
    device_capacity_iops: float
    device_iops: float | None
    """None if unknown, as for a stale node."""
    tenants: int
    dropped_events_total: int
    problem: str
    """Why nothing is planned, or nothing begun, for the node now; "" if all is well."""
    conditions: list[ConditionView] = Field(default=[])
    stale: bool = False
    """Whether no snapshot came for five control intervals: no measurements of it are shown."""
    heard_s: float | None = None
    """When the last snapshot came, by the controller's clock in seconds since 1970."""
    free_bytes: int = 0
    """Memory that is in no limit. This and the next three values are 0 for a stale node."""
    sure_free_bytes: int = 0
    """Memory that was free all the time in the last `free_for_s` seconds."""
    free_for_s: float = 0.0
    free_confidence: float = 0.0
    """Probability that `sure_free_bytes` stay free through the next minute."""


class SloView(View):
    """An SLO: target, what is measured, and the share of windows in which it was met."""

    kind: str
    target: float
    measured: float | None
    predicted: float | None
    attainable: float | None
    attainable_ops: float | None
    state: str
    """What the plan predicts: `met`; `approaching`: met once memory has moved; `outbid`: missed,
    because other SLOs come first; `held`: missed at a fixed setting; `unattainable` on this node:
    if `predicted` is null, this is the last prediction, since which the curves have low confidence;
    `unknown`: no prediction. `why` gives the reasons. `stale` if the node sends nothing."""
    met: bool | None
    attainment: float | None
    """Share of windows of the last hour in which it was met, since it has this target."""
    why: str
    windows_total: int | None = None
    """Windows in which it was judged since it was first set, as stored: some intervals late.

    Never decreases while the tenant exists.
    """
    windows_met_total: int | None = None
    """Those of these windows in which it was met."""
    verdict: str = ""
    """`met`, `missed`, `not measured` or `stale`, by the last measurement."""


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
    """What is recommended to a tenant in mode `recommend`: all amounts are predicted.

    With all recommendations of the node in force, 95% of control intervals are predicted to have a
    throughput from `throughput_low_ops` to `throughput_high_ops`, and `throughput_ops` on average.
    `confidence` is the probability that such an interval reaches `at_least_ops`. `present_ops` is
    the mean of the last 40 intervals in the present setting, of which idle ones count as 0. It is
    also predicted if the setting and the load of the device stay. While fewer than 8 are known,
    both are the model's.
    """

    policy: str
    limit_bytes: int
    lower_bytes: int
    """With less memory, throughput is lower even if the curve is wrong in the tenant's favour."""
    upper_bytes: int
    """With this memory, the throughput is reached even if the curve is wrong against the tenant."""
    throughput_ops: float
    throughput_low_ops: float
    """With `throughput_high_ops`: bounds of the throughput of 95% of intervals."""
    throughput_high_ops: float
    present_ops: float
    """The mean of the last 40 intervals in the present setting; the model's while few are known."""
    at_least_ops: float | None
    """The throughput of its SLOs; without any, its present one if it gains, else what it keeps."""
    confidence: float | None
    """Probability that an interval reaches `at_least_ops`; None: curves have a low confidence."""
    since_s: float | None
    """When it last changed, by the node's clock; None: it always was the present setting."""


class TenantView(View):
    """A tenant as it is now: one row of the status table."""

    node: str
    cgroup: str
    policy: str
    limit_bytes: int
    target_limit_bytes: int
    floor_bytes: int
    """The greater of what cannot be reclaimed, with a margin, and the protected share of its first
    memory, which an SLO may take. A stated `memory_min` applies too, and is not part of it."""
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
    """When the pin ends by itself, in seconds since 1970; None: only when it is unpinned."""
    trusted: bool
    distrust: str
    interference: str
    slos: list[SloView]
    trial: TrialView | None
    last_decision: str
    last_decision_s: float | None
    decisions_total: dict[str, int] = Field(default={})
    """Decisions by event since the tenant was first seen; never decreases while it exists.

    Events that never occurred are left out.
    """
    least_limit_bytes: int | None = None
    """What cannot be reclaimed, with a margin: a pinned limit may be below the floor, not below
    this."""
    file_bytes: int | None = None
    """The page cache's part of `current_bytes`."""
    initial_limit_bytes: int | None = None
    """The limit before the autopilot started; 0 for none."""
    readahead_policy: str | None = None
    """The readahead policy in force; null without one."""
    conditions: list[ConditionView] = Field(default=[])
    workload: WorkloadView | None = None
    """Null if it is no Kubernetes workload."""
    stale: bool = False
    """Whether its node is stale: readings, and what is judged by them, are null."""
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
    """`trial`, `kept` (confirmed), `reverted` (undone), `abandoned`, `refused` or `recommended`."""
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
    """Whether the tenant has the setting of this decision, and because of it: it can be
    reverted."""
