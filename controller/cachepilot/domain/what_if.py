# SPDX-License-Identifier: Apache-2.0
"""A what-if question to the planner, and its answer; neither changes anything."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cachepilot.domain.slos import SloStatus


@dataclass(frozen=True)
class WhatIf:
    """The changes to `node` for which a plan is requested.

    `budget_bytes` is that of the node. `policy`, `limit_bytes` and `throughput_ops`, an SLO, are by
    cgroup. `settled` requests the state that many cycles converge to, without the bound on
    movement; otherwise the plan is that of the next cycle.
    """

    node: str
    budget_bytes: int | None = None
    policy: Mapping[str, str] = field(default_factory=dict)
    limit_bytes: Mapping[str, int] = field(default_factory=dict)
    throughput_ops: Mapping[str, float] = field(default_factory=dict)
    settled: bool = True


@dataclass(frozen=True)
class WhatIfTenant:
    """One tenant under a question: the predictions for now, and for then (`to_`).

    Without `predicted` its curves are missing or have low confidence. The miss ratios are then
    those measured now, and the throughputs are the model's at these.
    """

    cgroup: str
    policy: str
    limit_bytes: int
    miss_ratio: float
    throughput_ops: float
    to_policy: str
    to_limit_bytes: int
    to_miss_ratio: float
    to_throughput_ops: float
    slos: list[SloStatus]
    predicted: bool = True


@dataclass(frozen=True)
class WhatIfAnswer:
    """What would be planned."""

    node: str
    tenants: list[WhatIfTenant]
    unallocated_bytes: int
    device_share: float
    notes: list[str]
