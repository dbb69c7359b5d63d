# SPDX-License-Identifier: Apache-2.0
"""Changes of the history as JSON objects: one row each, and the evidence of one over time."""

import json
from typing import Any

from cachepilot.api.shapes.shape import Shape
from cachepilot.domain.past.actor import ActorKind
from cachepilot.domain.past.change import ChangeKind, ChangeRow, ChangeState


class ChangeView(Shape):
    """One change, from its begin to its outcome. `baseline` and `measured` are measured.

    `predicted` is what the model gave for it when it began.
    """

    id: int
    kind: ChangeKind
    state: ChangeState
    """`live`: in force, not confirmed. `done`: an operator's. `refused`: by the node, or access."""
    node: str
    """"" for all nodes."""
    cgroup: str
    """A tenant, or the pattern of an objective; "" for a refusal."""
    begun_s: float
    """Seconds since 1970; by the node's clock for changes of the autopilot."""
    ended_s: float | None
    epoch: int
    by_kind: ActorKind
    by: str
    """The name of a certificate or a token, an address, `autopilot` or `controller`."""
    from_policy: str | None
    to_policy: str | None
    from_limit_bytes: int | None
    to_limit_bytes: int | None
    baseline_ops: float | None
    predicted_ops: float | None
    measured_ops: float | None
    baseline_miss_ratio: float | None
    predicted_miss_ratio: float | None
    measured_miss_ratio: float | None
    text: str
    """The change, in one line."""
    why: str
    outcome: str
    """Why it ended as it did; "" while it is live."""
    before: Any
    """The operator's entry before the change; null: there was none, or it is no operator's
    change."""
    after: Any
    count: int
    """How often the same request was refused to the same client."""
    in_force: bool
    """Whether the tenant has the setting of this change, and because of it."""

    @classmethod
    def of_row(cls, row: ChangeRow, in_force: bool) -> "ChangeView":
        """Return the view of a stored row."""
        values = dict(vars(row))
        for key in ("before", "after"):
            values[key] = None if values[key] is None else json.loads(values[key])
        return cls(**values, in_force=in_force)


class EvidenceView(Shape):
    """A column per reading and an entry per point, the oldest first; null where it is not known.

    `gained` is measured, against what the change replaced; `predicted` is predicted by then. Above
    `bound` what is gained is no noise. All three are in `unit`.
    """

    unit: str
    time_s: list[float]
    gained: list[float | None]
    predicted: list[float | None]
    bound: list[float | None]
    throughput_ops: list[float | None]
    miss_ratio: list[float | None]


class ChangeDetail(Shape):
    """A change and its evidence; null where none is needed, as for what an operator orders."""

    change: ChangeView
    evidence: EvidenceView | None
