# SPDX-License-Identifier: Apache-2.0
"""The execution of a consolidation, as JSON objects: the order and its outcome."""

from cachepilot.api.shapes.questions import Drain, Move
from cachepilot.api.shapes.shape import NodeName, Shape, View
from cachepilot.domain.moving import MoveState, RehearsalState, RolloutState, Verdict


class Consolidate(Shape):
    """What is to be carried out: `drains` as they were shown, or what is planned now."""

    node: NodeName | None = None
    """Only this node is drained, or relieved."""
    spreads: bool = False
    """Whether tenants without room are spread to other nodes, instead of draining nodes."""
    drains: list[Drain] | None = None


class CheckView(View):
    """What is measured of one tenant around a move."""

    cgroup: str
    kind: str
    """The kind of an SLO, or `keep` for a tenant without one."""
    target: float
    """For an SLO in its own unit; for `keep` in operations per second."""
    before_ops: float | None
    """Measured before the move, operations per second."""
    after_ops: float | None
    """Measured since the page cache is warm, operations per second."""
    windows: int
    met: int
    verdict: Verdict


class RehearsedView(View):
    """One tenant in a rehearsal, and one of its SLOs, or what it keeps.

    What is judged is known once the page caches have settled.
    """

    cgroup: str
    node: str
    """The node on which it is measured."""
    to_node: str | None
    """The target of its move; null for a tenant that stays."""
    limit_bytes: int | None
    """The limit in the rehearsal; null for a tenant that stays."""
    predicted_ops: float | None
    """Predicted operations per second on its target; null if it stays or that is unknown."""
    before_ops: float | None
    """Measured before memory was reduced, operations per second."""
    kind: str | None
    """The kind of an SLO, or `keep` for a tenant without one; null before it is judged."""
    target: float | None
    """For an SLO in its own unit; for `keep` in operations per second."""
    after_ops: float | None
    """Measured with the planned memory, operations per second."""
    windows: int
    met: int
    verdict: Verdict
    short: float | None
    """The shortfall of its mean throughput as a share of the target; null if there is none."""
    least_bytes: int | None
    """For a tenant that missed with less memory than before: no plan gives it less for now."""
    until_s: float | None
    """Until when `least_bytes` applies."""
    most_bytes: int | None = None
    """The largest limit with which a leaving tenant was judged; 0: none, null: not judged yet."""
    unproven: bool = False
    """Whether it had more memory than planned while judged, so that the plan is unproven."""


class RehearsalView(View):
    """The last rehearsal of draining a node; what is not so yet has no time."""

    node: str
    state: RehearsalState
    since_s: float | None
    """Since when all tenants are measured in their present state."""
    begun_s: float | None
    """Since when tenants have their planned memory."""
    ready_s: float | None
    """Since when tenants are judged."""
    over_s: float | None
    """When the rehearsal was passed or missed."""
    left_s: float | None
    """Predicted seconds until the end if all checks are met from now on; null after the end."""
    why: str
    """Which check was missed, by which tenant; else why moves were not made, or undone."""
    tenants: list[RehearsedView]
    """The tenants that leave first, then those on the target nodes."""


class MovedView(View):
    """A move of a rollout; what is not over yet has no time."""

    move: Move
    drain: str
    """The node that this move drains, or relieves."""
    state: MoveState
    checks: list[CheckView]
    prepared_s: float | None = None
    """Since when the target reads the tenant's page cache in advance."""
    read_s: float | None = None
    """When that was read."""
    begun_s: float | None
    arrived_s: float | None
    warm_s: float | None
    ended_s: float | None
    why: str
    """Why it was undone, skipped, or failed."""


class RolloutView(View):
    """A rollout: its moves in their order, the present one, and how it ended."""

    id: int
    spreads: bool
    """Whether it spreads tenants that lack room, instead of draining nodes."""
    state: RolloutState
    by: str
    begun_s: float
    ended_s: float | None
    is_stopping: bool
    at: int
    """Index of the present move; those before it are over."""
    emptied: list[str]
    """Nodes all of whose moves were confirmed, and that have no other tenants."""
    moves: list[MovedView]
    why: str
    """How it ended, or what delays it."""
    changes: list[str]
    """Deviations from what was ordered, because of later measurements."""
    rehearsals: list[RehearsalView]
    """One per node that is to be drained, in their order."""
