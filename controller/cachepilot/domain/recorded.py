# SPDX-License-Identifier: Apache-2.0
"""Decisions as they are stored and shown."""

from dataclasses import dataclass

from cachepilot.quick_records import quickly_made


@dataclass(frozen=True)
class RecordedDecision:
    """A decision as it is stored, by columns; each one has a greater `id` than the last."""

    id: int
    time_s: float
    node: str
    cgroup: str
    epoch: int
    event: str
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


@dataclass(frozen=True)
class DecisionTotal:
    """The number of decisions of one event for one tenant, as it is stored."""

    cgroup: str
    event: str
    count: int


@quickly_made
@dataclass(frozen=True)
class RunningTrial:
    """A change under observation; times in seconds of the node's clock."""

    started_s: float
    ends_s: float
    from_policy: str
    to_policy: str
    from_limit_bytes: int
    to_limit_bytes: int
    baseline_ops: float
    predicted_ops: float
