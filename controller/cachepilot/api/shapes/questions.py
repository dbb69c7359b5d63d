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
    """When it ends by itself, in seconds since 1970; None: not before it is unpinned."""


class PinOrder(Pin):
    """A pin, and whether it is made although an SLO is predicted to be missed because of it."""

    accept_missed_slos: bool = False

    def pin(self) -> Pin:
        """The pin alone."""
        return Pin(**self.model_dump(exclude={"accept_missed_slos"}))


class StatedChange(Shape):
    """A change of objectives and pins by a person, which can be undone."""

    change: int
    """Its number: it rises with every change."""
    time_s: float
    """Seconds since 1970."""
    what: str


class Undo(Shape):
    """The undoing of the last change of objectives and pins."""

    change: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """Refused if the last change is another; null: whichever is the last."""
    accept_missed_slos: bool = False
    """Whether it is done although an SLO is predicted to be missed because of it."""


class Revert(Shape):
    """What is to be undone: a decision or a change, one of both."""

    decision: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """Its `id` in the history."""
    change: Annotated[int, Field(ge=1, le=2**53)] | None = None
    """Its `id` among the changes."""
    accept_missed_slos: bool = False
    """Whether it is done although an SLO is predicted to be missed because of it."""


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
    """The state that many cycles lead to, without the bound on movement; else the next cycle."""


class Apply(WhatIf):
    """A what-if that is to be carried out; `budget_bytes` is the agent's and cannot be."""

    hold_s: float | None = 3600.0
    """For so long policies and limits are pinned, 60 s to 30 days; null: until unpinned."""
    accept_missed_slos: bool = False
    """Whether it is done although an SLO is predicted to be missed because of it."""


class Applied(Shape):
    """What was ordered by a what-if that was applied: one change, which one undo reverses."""

    change: int | None
    """The number of the change; null where nothing is other than it was."""
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


class WhatIfAnswer(Shape):
    """What would be planned."""

    node: str
    tenants: list[WhatIfTenant]
    unallocated_bytes: int
    device_share: float
    notes: list[str]


class LeastMemory(Shape):
    """The least memory of one tenant that keeps its SLOs, or what it does now without any."""

    node: str
    cgroup: str
    policy: str
    limit_bytes: int
    least_policy: str
    least_bytes: int
    has_slo: bool
    """Whether it has an SLO."""
    known: bool
    """Whether it is known what it needs: not where curves or readings are missing."""
    kept: bool
    """Whether the SLOs, or what it does now without any, can be kept at all, if that is known."""
    more_of_this_kind: int
    """How many more tenants like this one fit on its node, by memory, device and CPUs."""
    note: str = ""
    """What is said of the row, in words that follow from its numbers."""
    peak_bytes: int = 0
    """The most that it needed in the last day; nodes are filled so far only that it has room."""
    peak_s: float | None = None
    """Since when, in seconds since 1970; null where it needs most now."""
    cpus: float | None = None
    """CPUs that it needs now, as stated or else as measured; null where that is not known."""


class Move(Shape):
    """A tenant that goes to another node; all that is said of it there is predicted."""

    cgroup: str
    from_node: str
    to_node: str
    limit_bytes: int
    """Memory that it gets there."""
    policy: str
    """The policy that this counts with."""
    predicted_ops: float
    """Operations per second there once its page cache is warm; 0 where not known."""
    cold_pages: int
    """Pages that it has to read again until then."""
    cold_s: float
    """Seconds until they are read, on the target's device."""
    why: str = ""
    """Why it goes there, for a person."""
    peak_bytes: int = 0
    """The most that it needed in the last day, as it would be there; room is left for it."""
    peak_s: float | None = None
    """Since when, in seconds since 1970; null where it needs most now."""
    cpus: float | None = None
    """CPUs that it needs now, as stated or else as measured; null where that is not known."""
    need_bytes: int | None = None
    """Memory that it needs there now; null where that is all that it gets."""


class Drain(Shape):
    """A node that tenants leave: all of them, or those that it has no room for."""

    node: str
    moves: tuple[Move, ...]
    """In the order in which they are to be made."""
    freed_bytes: int
    """The memory of the node; 0 where tenants stay on it."""
    why: str = ""
    """What the node is short of, where tenants stay on it."""

    @property
    def cold_s(self) -> float:
        """Seconds until all that moved is warm, one move after the other."""
        return sum(move.cold_s for move in self.moves)


class Spread(Shape):
    """Nodes without room for what their tenants need next, and who is to leave them."""

    drains: list[Drain]
    """Those that are short first, first."""
    notes: list[str]
    left: dict[str, str] = Field(default_factory=dict)
    """By node that stays short, as nobody who could leave it has room elsewhere, of what."""


class Consolidation(Shape):
    """Least memory per tenant, and nodes that the others could take over."""

    nodes: int
    """How many nodes there are."""
    tenants: list[LeastMemory]
    drains: list[Drain]
    """In the order in which nodes are to be drained, one after the other."""
    notes: list[str]
