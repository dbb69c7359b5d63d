# SPDX-License-Identifier: Apache-2.0
"""A consolidation that is carried out, as JSON objects: what is ordered, and what came of it."""

from cachepilot.api.shapes.questions import Drain, Move
from cachepilot.api.shapes.shape import NodeName, Shape, View
from cachepilot.domain.moving import MoveState, RolloutState, Verdict


class Consolidate(Shape):
    """What is to be carried out: `drains` as they were shown, or what is planned now."""

    node: NodeName | None = None
    """Only this node is drained."""
    drains: list[Drain] | None = None


class CheckView(View):
    """What is measured of one tenant around a move."""

    cgroup: str
    kind: str
    """Of an SLO; `keep` of a tenant without one."""
    target: float
    """Of the SLO in its own unit; of `keep` operations per second."""
    before_ops: float | None
    """Measured before the move, operations per second."""
    after_ops: float | None
    """Measured since the page cache is warm."""
    windows: int
    met: int
    verdict: Verdict


class RehearsedView(View):
    """What was measured of one node with the memory of afterwards, nobody moved yet."""

    node: str
    checks: list[CheckView]


class RehearsalView(View):
    """A rehearsal of draining a node: the node itself, then those that its tenants go to.

    What is not so yet has no time.
    """

    nodes: list[RehearsedView]
    begun_s: float | None
    """Since then tenants have the memory of afterwards."""
    ready_s: float | None
    """Since then they are judged."""
    met_s: float | None
    """Then all was met."""


class MovedView(View):
    """A move of a rollout; what is not over yet has no time."""

    move: Move
    drain: str
    """The node that is drained by it."""
    state: MoveState
    checks: list[CheckView]
    begun_s: float | None
    arrived_s: float | None
    warm_s: float | None
    ended_s: float | None
    why: str
    """Why it was undone, skipped, or failed."""
    rehearsal: RehearsalView | None
    """Of the node that is drained; the first of its moves has it."""


class RolloutView(View):
    """A rollout: its moves in their order, the present one, and how it ended."""

    id: int
    state: RolloutState
    by: str
    begun_s: float
    ended_s: float | None
    is_stopping: bool
    at: int
    """Index of the present move; those before it are over."""
    emptied: list[str]
    """Nodes all of whose moves were kept."""
    moves: list[MovedView]
    why: str
    """How it ended, or what holds it up."""
    changes: list[str]
    """What came to be other than it was ordered, by what was measured meanwhile."""
