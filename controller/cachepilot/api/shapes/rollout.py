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
    """Whether nodes are not emptied, but relieved of tenants that they have no room for."""
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
    """One tenant in a rehearsal, and one of its SLOs, or what it keeps.

    What is judged is known once the page caches have settled.
    """

    cgroup: str
    node: str
    """Where it is measured."""
    to_node: str | None
    """Where it is to go; null for one that stays."""
    limit_bytes: int | None
    """The memory that it is rehearsed with; null for one that stays."""
    predicted_ops: float | None
    """Of one that goes: predicted on its new node, operations per second; null if not known."""
    before_ops: float | None
    """Measured before memory was taken, operations per second."""
    kind: str | None
    """Of an SLO; `keep` of a tenant without one; null before it is judged."""
    target: float | None
    """Of the SLO in its own unit; of `keep` operations per second."""
    after_ops: float | None
    """Measured with the memory of afterwards, operations per second."""
    windows: int
    met: int
    verdict: Verdict
    short: float | None
    """The share of its target by which its mean throughput is below it; null where it is not."""
    least_bytes: int | None
    """Of one that missed with less memory than before: it is planned with no less until then."""
    until_s: float | None
    """Until when that holds."""
    most_bytes: int | None = None
    """Of one that goes: the largest limit with which it was judged, 0 for none; null before."""
    unproven: bool = False
    """It was judged with more memory than it is to have: whether that is enough is not known."""


class RehearsalView(View):
    """The last rehearsal of draining a node; what is not so yet has no time."""

    node: str
    state: RehearsalState
    since_s: float | None
    """Since then everybody is measured as it is."""
    begun_s: float | None
    """Since then tenants have the memory of afterwards."""
    ready_s: float | None
    """Since then they are judged."""
    over_s: float | None
    """Then it was passed or missed."""
    left_s: float | None
    """Predicted: seconds until it is over if all is met from now on; null once it is."""
    why: str
    """What was missed, by whom; else why moves of the node were not made, or undone."""
    tenants: list[RehearsedView]
    """Those who go first, then those on the nodes that they go to."""


class MovedView(View):
    """A move of a rollout; what is not over yet has no time."""

    move: Move
    drain: str
    """The node that is drained, or relieved, by it."""
    state: MoveState
    checks: list[CheckView]
    prepared_s: float | None = None
    """Since then the target reads its page cache, before it moves."""
    read_s: float | None = None
    """Then that was read."""
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
    """Whether it empties no nodes, but relieves them of tenants that they have no room for."""
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
    rehearsals: list[RehearsalView]
    """One per node that is to be drained, in their order."""
