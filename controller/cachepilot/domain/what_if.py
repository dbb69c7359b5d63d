# SPDX-License-Identifier: Apache-2.0
"""A question to the planner, and its answer; nothing is changed by either."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cachepilot.domain.slos import SloStatus


@dataclass(frozen=True)
class WhatIf:
    """What would be planned for `node` if this were so.

    `budget_bytes` of the node, and per cgroup a policy, a limit or a throughput SLO. `settled` asks
    for the state that many cycles lead to, without the bound on movement; else for the next cycle.
    """

    node: str
    budget_bytes: int | None = None
    policy: Mapping[str, str] = field(default_factory=dict)
    limit_bytes: Mapping[str, int] = field(default_factory=dict)
    throughput_ops: Mapping[str, float] = field(default_factory=dict)
    settled: bool = True


@dataclass(frozen=True)
class WhatIfTenant:
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
    slos: list[SloStatus]


@dataclass(frozen=True)
class WhatIfAnswer:
    """What would be planned."""

    node: str
    tenants: list[WhatIfTenant]
    unallocated_bytes: int
    device_share: float
    notes: list[str]
