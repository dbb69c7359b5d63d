# SPDX-License-Identifier: Apache-2.0
"""What the loop of one node is configured by."""

from dataclasses import dataclass, field

from cachepilot.decide.config import DecideConfig
from cachepilot.plan.problem.config import Config as PlannerConfig


@dataclass(frozen=True)
class NodeConfig:
    """Settings of every node's loop; `lease_ms` of 0 lets the last plan stay for ever.

    A node undoes a change that is neither renewed nor confirmed for `change_ttl_ms`.

    Without a `memory_min` of its own a tenant keeps `least_share` of the limit that it had before
    the autopilot came, or of what it held when it was first seen.
    """

    interval_ms: int = 1000
    lease_ms: int = 0
    change_ttl_ms: int = 40_000
    planner: PlannerConfig = field(default_factory=PlannerConfig)
    decide: DecideConfig = field(default_factory=DecideConfig)
    least_share: float = 0.5
