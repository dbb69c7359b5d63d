# SPDX-License-Identifier: Apache-2.0
"""The least memory of a fleet, and which of its nodes can be drained.

To drain a node is to move all of its tenants to other nodes. To spread tenants is to move some of
them off nodes that are short of memory, reads or CPUs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class LeastMemory:
    """The least memory of one tenant that meets its SLOs, or without an SLO keeps its throughput.

    `known` is false if what the tenant needs is not known, for want of curves or readings. `kept`
    says whether any memory meets its need, if that is known. `more_of_this_kind` is how many more
    tenants like it fit on its node, by memory, device and CPUs. `peak_bytes` is the most that it
    needed in the last day, since `peak_s`, seconds since 1970; None if that is its present need.
    `cpus` are the CPUs that it needs now, as stated or else as measured; None if not known.
    """

    node: str
    cgroup: str
    policy: str
    limit_bytes: int
    least_policy: str
    least_bytes: int
    has_slo: bool
    known: bool
    kept: bool
    more_of_this_kind: int
    note: str = ""
    """The note of the row, which follows from its numbers."""
    peak_bytes: int = 0
    peak_s: float | None = None
    cpus: float | None = None


@dataclass(frozen=True)
class Move:
    """A tenant that moves to another node; its values there are predictions.

    `limit_bytes` is the memory that it gets there. `need_bytes` is the part of that which it needs,
    None if it needs all of it. `policy` is the one on which the prediction is based.
    `predicted_ops` are its operations per second there once its page cache is warm, 0 if not known.
    Until then it must read `cold_pages` again, which takes `cold_s` seconds on the target's device.
    There is room for `peak_bytes`, the most that it would have needed there in the last day, since
    `peak_s`, seconds since 1970; None if that is its present need. `cpus` are the CPUs that it
    needs now, None if not known.
    """

    cgroup: str
    from_node: str
    to_node: str
    limit_bytes: int
    policy: str
    predicted_ops: float
    cold_pages: int
    cold_s: float
    why: str = ""
    """Why it goes to that node, for a person."""
    peak_bytes: int = 0
    peak_s: float | None = None
    cpus: float | None = None
    need_bytes: int | None = None


@dataclass(frozen=True)
class Drain:
    """A node that tenants leave, with their moves in order.

    `freed_bytes` is the memory of the node if all of them leave, since the node can then be
    switched off. It is 0 if some stay; `why` then says why the others leave.
    """

    node: str
    moves: tuple[Move, ...]
    freed_bytes: int
    why: str = ""

    @property
    def cold_s(self) -> float:
        """Seconds until all moved tenants are warm, if they move one after the other."""
        return sum(move.cold_s for move in self.moves)


@dataclass(frozen=True)
class Consolidation:
    """The least memory per tenant, and the nodes to drain, in the order of the drains."""

    nodes: int
    tenants: list[LeastMemory]
    drains: list[Drain]
    notes: list[str]


@dataclass(frozen=True)
class Spread:
    """Nodes without room for what their tenants need next; those that are short first come first.

    `drains` has the tenants that leave each node, as many as fit on other nodes. `left` are the
    nodes that stay short, with what they lack.
    """

    drains: list[Drain]
    notes: list[str]
    left: dict[str, str]


@dataclass(frozen=True)
class Rest:
    """The rest of a rollout: the ordered `drains` without what is done already.

    Only the nodes in `drainable` may be drained, and nodes in `closed` take no tenants in. `proven`
    is the memory with which tenants met their targets in a rehearsal, by their present node and
    cgroup. `spreads` means that nodes are not drained, but only relieved of tenants that they have
    no room for.
    """

    drains: tuple[Drain, ...]
    drainable: frozenset[str]
    closed: frozenset[str]
    proven: Mapping[tuple[str, str], int]
    spreads: bool = False


@dataclass(frozen=True)
class Plans:
    """Two plans for the rest of a rollout, from present measurements.

    `as_ordered` are the ordered drains for which there still is room. `anew` are the best drains,
    regardless of the order. If the rollout spreads tenants, the nodes in `left` stay short.
    """

    as_ordered: Sequence[Drain]
    anew: Sequence[Drain]
    left: frozenset[str] = frozenset()
