# SPDX-License-Identifier: Apache-2.0
"""Orders and questions of operators, and the answers, as JSON objects."""

from typing import Annotated

from pydantic import Field

from cachepilot.api.shapes.objectives import ObjectiveShape
from cachepilot.api.shapes.shape import CgroupPath, NodeName, PolicyName, Shape
from cachepilot.api.shapes.views import SloView


class Pin(Shape):
    """What an operator fixes of one tenant, on one node or on all."""

    cgroup: CgroupPath
    node: NodeName | None = None
    policy: PolicyName | None = None
    limit_bytes: int | None = None
    until_s: float | None = None
    """When the pin ends by itself, in seconds since 1970; None: only when it is unpinned."""


class PinOrder(Pin):
    """A pin, and whether it is made although an SLO is predicted to be missed because of it."""

    accept_missed_slos: bool = False

    def pin(self) -> Pin:
        """Return the pin without the order's own key."""
        return Pin(**self.model_dump(exclude={"accept_missed_slos"}))


class StatedChange(Shape):
    """A change of objectives and pins by a person, which can be undone."""

    change: int
    """Its number, which increases with every change."""
    time_s: float
    """Seconds since 1970."""
    what: str


class Undo(Shape):
    """The undoing of the last change of objectives and pins."""

    change: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """The number of the change to undo; refused if another is the last. null: the last one."""
    accept_missed_slos: bool = False
    """Whether to do it even if an SLO is predicted to be missed because of it."""


class Revert(Shape):
    """What is to be undone: a decision or a change, one of both."""

    decision: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """The decision's `id` in the history."""
    change: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """The change's `id` among the changes."""
    accept_missed_slos: bool = False
    """Whether to do it even if an SLO is predicted to be missed because of it."""


class WhatIf(Shape):
    """A question: what would be planned for `node` if this were so. Nothing is changed.

    `budget_bytes` of the node, and per cgroup a policy, a limit or a throughput SLO.
    """

    node: NodeName
    budget_bytes: int | None = None
    policy: dict[CgroupPath, PolicyName] = Field(default={})
    limit_bytes: dict[CgroupPath, int] = Field(default={})
    throughput_ops: dict[CgroupPath, float] = Field(default={})
    settled: bool = True
    """True: the state after many cycles, without the bound on movement; False: the next cycle."""


class Apply(WhatIf):
    """A what-if that is to be carried out; `budget_bytes` is the agent's and cannot be."""

    hold_s: float | None = 3600.0
    """Seconds for which policies and limits are pinned, 60 s to 30 days; null: until unpinned."""
    accept_missed_slos: bool = False
    """Whether to do it even if an SLO is predicted to be missed because of it."""


class Applied(Shape):
    """What was ordered by a what-if that was applied: one change, which one undo reverses."""

    change: int | None
    """The number of the change; null if nothing changed."""
    what: str
    pins: list[Pin]
    objectives: list[ObjectiveShape]
    until_s: float | None
    """When the pins end by themselves, in seconds since 1970."""


class WhatIfTenant(Shape):
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
    slos: list[SloView]
    predicted: bool = True
    """Whether miss ratios are predicted by curves; they are not if curves are missing or have low
    confidence. Then they are those measured now, and throughputs are the model's at these."""


class WhatIfAnswer(Shape):
    """What would be planned."""

    node: str
    tenants: list[WhatIfTenant]
    unallocated_bytes: int
    device_share: float
    notes: list[str]


class LeastMemory(Shape):
    """The least memory of one tenant that meets its SLOs, or keeps its throughput without any."""

    node: str
    cgroup: str
    policy: str
    limit_bytes: int
    least_policy: str
    least_bytes: int
    has_slo: bool
    """Whether the tenant has an SLO."""
    known: bool
    """Whether the tenant's need is known; it is not if curves or readings are missing."""
    kept: bool
    """Whether any memory meets the SLOs, or keeps the present throughput without any, if known."""
    more_of_this_kind: int
    """How many more tenants like this one fit on its node, by memory, device and CPUs."""
    note: str = ""
    """A note on the row, in words derived from its numbers."""
    peak_bytes: int = 0
    """The largest need of the last day; nodes are filled only so far that it has room."""
    peak_s: float | None = None
    """When that need began, in seconds since 1970; null if the present need is the largest."""
    cpus: float | None = None
    """CPUs that it needs now, as configured or else as measured; null if unknown."""


class Move(Shape):
    """A tenant that goes to another node; all that is said of it there is predicted."""

    cgroup: str
    from_node: str
    to_node: str
    limit_bytes: int
    """Memory that the tenant gets on the target."""
    policy: str
    """The policy assumed for this prediction."""
    predicted_ops: float
    """Operations per second on the target with a warm page cache; 0 if unknown."""
    cold_pages: int
    """Pages that the tenant must read again on the target."""
    cold_s: float
    """Seconds until these are read, on the target's device."""
    why: str = ""
    """The reason for this target, for people."""
    peak_bytes: int = 0
    """The largest need of the last day, as on the target; room is left for it."""
    peak_s: float | None = None
    """When that need began, in seconds since 1970; null if the present need is the largest."""
    cpus: float | None = None
    """CPUs that it needs now, as configured or else as measured; null if unknown."""
    need_bytes: int | None = None
    """Memory that it needs on the target now; null if that equals `limit_bytes`."""


class Drain(Shape):
    """A node that tenants leave: all of them, or those that it has no room for."""

    node: str
    moves: tuple[Move, ...]
    """In the order in which they are to be made."""
    freed_bytes: int
    """The memory of the node; 0 if tenants stay on it."""
    why: str = ""
    """What the node is short of, if tenants stay on it."""

    @property
    def cold_s(self) -> float:
        """Seconds until the page caches of all moved tenants are warm, one move after the other."""
        return sum(move.cold_s for move in self.moves)


class Spread(Shape):
    """Nodes without room for what their tenants need next, and which tenants should leave them."""

    drains: list[Drain]
    """The nodes that become short first come first."""
    notes: list[str]
    left: dict[str, str] = Field(default_factory=dict)
    """Nodes that stay short because no tenant that could leave fits elsewhere, and what of."""


class Consolidation(Shape):
    """Least memory per tenant, and nodes that the others could take over."""

    nodes: int
    """How many nodes there are."""
    tenants: list[LeastMemory]
    drains: list[Drain]
    """In the order in which nodes are to be drained, one after the other."""
    notes: list[str]
