# SPDX-License-Identifier: Apache-2.0
"""The configuration of the loop of one node."""

from dataclasses import dataclass, field

from cachepilot.decide.config import DecideConfig
from cachepilot.plan.problem.config import Config as PlannerConfig


@dataclass(frozen=True)
class NodeConfig:
    """Settings of every node's loop. With a `lease_ms` of 0 the last plan stays in force for ever.

    The node undoes a change that is neither renewed nor confirmed for `change_ttl_ms`.

    A tenant without a `memory_min` of its own keeps `least_share` of its first memory: of the limit
    before the autopilot came, or of the memory that a tenant without a limit used when it was first
    seen.
    """

    interval_ms: int = 1000
    lease_ms: int = 0
    change_ttl_ms: int = 40_000
    planner: PlannerConfig = field(default_factory=PlannerConfig)
    decide: DecideConfig = field(default_factory=DecideConfig)
    least_share: float = 0.5
